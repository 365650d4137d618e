package launch

import (
	"io"
	"os"
	"time"
)

func insiders() map[string]insider {
	return map[string]insider{
		"echo":    echo,
		"nothing": func(*Inside, []string) (any, error) { return nil, nil },
		"costs":   costs,
	}
}

func echo(in *Inside, _ []string) (any, error) {
	control, err := io.ReadAll(in.Control)
	if err != nil {
		return nil, err
	}
	extra, err := io.ReadAll(in.Extra(0))
	return string(control) + " " + string(extra), err
}

// costs measures what a leaf pays.
func costs(in *Inside, _ []string) (any, error) {
	out := map[string]float64{}
	last := time.Now()
	took := func(what string) {
		out[what] = float64(time.Since(last).Microseconds()) / 1000
		last = time.Now()
	}
	if _, err := in.Setup(Config{}); err != nil {
		return nil, err
	}
	took("setup")
	for _, name := range []string{"network 1", "network 2", "network 3"} {
		n, err := in.NewNetwork(name)
		if err != nil {
			return nil, err
		}
		took(name)
		if name == "network 3" {
			for range 100 {
				n.Listening(80)
			}
			took("listening x 100")
			l, err := n.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			took("listen")
			_ = l.Close()
		}
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	out["mountinfo bytes"] = float64(len(b))
	return out, err
}
