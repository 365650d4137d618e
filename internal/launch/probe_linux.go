package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// probed is what the probing world tells.
type probed struct {
	Setup    string
	ReadOnly []string
	Network  string
}

// Probe tries for real what worlds need, in a world that is gone when it returns. Whoever calls it
// calls Enter first in main.
func Probe(ctx context.Context) (Report, error) {
	l, err := NewLauncher()
	if err != nil {
		return Report{}, err
	}
	defer l.Close()
	user := Finding{Name: "user namespaces", OK: true}
	if l.privileged {
		user.Detail = "not needed: privileged"
	}
	w, err := l.start(ctx, WorldConfig{Args: []string{"squall-probe"}, Env: os.Environ()}, probeRole)
	if err != nil {
		return Report{Findings: []Finding{user.refused(err.Error())}}, ctx.Err()
	}
	defer w.Close()
	var p probed
	if err := json.NewDecoder(w.Events).Decode(&p); err != nil {
		w.Kill()
		exit, _ := w.Wait()
		return Report{Findings: []Finding{user.refused(fmt.Sprintf("the world process ended with code %d before it could say why", exit.Code))}}, ctx.Err()
	}
	return p.report(user), nil
}

func (p probed) report(user Finding) Report {
	files := Finding{Name: "files of its own", OK: p.Setup == "", Detail: p.Setup}
	network := Finding{Name: "network namespaces", OK: p.Network == "", Detail: p.Network}
	overlay := Finding{Name: "overlay of files", OK: p.Setup == "" && len(p.ReadOnly) == 0}
	if p.Setup != "" {
		// A distribution may grant the namespace and deny everything in it.
		if s, _ := restriction(); s != "" {
			user = user.refused(p.Setup)
		}
		files.Without = sharedWithout
		files.Mend = namespacesMend()
	}
	if len(p.ReadOnly) > 0 {
		overlay.Detail = "read-only in a world: " + strings.Join(p.ReadOnly, ", ")
		overlay.Without = "programs cannot write there"
		overlay.Mend = "use Linux 5.11 or newer with overlayfs; do not stack overlays more than two deep"
	}
	if p.Network != "" {
		network.Without, network.Mend = sharedWithout, namespacesMend()
	}
	r := Report{Namespaces: user.OK && files.OK && network.OK, Findings: []Finding{user, files}}
	if files.OK {
		r.Findings = append(r.Findings, overlay)
	}
	r.Findings = append(r.Findings, network)
	return r
}

const sharedWithout = "one leaf at a time on the machine's own network and files; rules that need an owned namespace are refused"

func (f Finding) refused(detail string) Finding {
	f.OK, f.Detail, f.Without, f.Mend = false, detail, sharedWithout, namespacesMend()
	if name, _ := restriction(); name != "" {
		f.Detail = name
	}
	return f
}

// restriction returns the setting that keeps ordinary users from namespaces, and its mend.
func restriction() (setting, mend string) {
	for _, s := range []struct{ name, bad, good string }{
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "0"},
		{"kernel.apparmor_restrict_unprivileged_unconfined", "1", "0"},
		{"kernel.unprivileged_userns_clone", "0", "1"},
		{"user.max_user_namespaces", "0", "15000"},
		{"user.max_net_namespaces", "0", "15000"},
		{"user.max_mnt_namespaces", "0", "15000"},
		{"user.max_pid_namespaces", "0", "15000"},
	} {
		b, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(s.name, ".", "/"))
		if err == nil && strings.TrimSpace(string(b)) == s.bad {
			return s.name + "=" + s.bad, "sudo sysctl -w " + s.name + "=" + s.good
		}
	}
	return "", ""
}

func namespacesMend() string {
	if _, mend := restriction(); mend != "" {
		return mend
	}
	for _, sign := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(sign); err == nil {
			return "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined, or with --privileged"
		}
	}
	return "run as root, or allow user namespaces to ordinary users"
}

// probe does in a world what a leaf would, and says what failed.
func (in *Inside) probe() int {
	var p probed
	if l, err := in.Setup(Config{}); err != nil {
		p.Setup = err.Error()
	} else {
		p.ReadOnly = l.ReadOnly
	}
	if n, err := in.NewNetwork("probe"); err != nil {
		p.Network = err.Error()
	} else {
		_ = n.Close()
	}
	if err := json.NewEncoder(in.Events).Encode(p); err != nil {
		return 2
	}
	return 0
}
