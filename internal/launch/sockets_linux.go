package launch

import (
	"os"
	"strings"
)

// Sockets returns the paths at which programs of the network have Unix sockets, as they named them. Which network a
// socket is of depends on who made it; that others can connect to it does not.
func (n *Network) Sockets() []string {
	var table []byte
	err := n.thread.do(func() (err error) {
		table, err = os.ReadFile("/proc/thread-self/net/unix")
		return err
	})
	if err != nil {
		return nil
	}
	return socketPaths(string(table))
}

// socketPaths reads the format of /proc/net/unix: seven columns, and a path where there is one. The ends of accepted
// connections are listed with their listener's.
func socketPaths(table string) []string {
	const columns = 7
	var out []string
	for line := range strings.Lines(table) {
		rest := strings.TrimSuffix(line, "\n")
		for range columns {
			rest = strings.TrimLeft(rest, " ")
			_, rest, _ = strings.Cut(rest, " ")
		}
		if strings.HasPrefix(rest, "/") {
			out = append(out, rest)
		}
	}
	return out
}
