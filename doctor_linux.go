package squall

import (
	"context"

	"github.com/squallhq/squall/internal/run"
)

func diagnose(ctx context.Context) Diagnosis {
	d := Diagnosis{Findings: []Finding{{Name: "kernel " + kernelRelease(), State: "ok"}}}
	notification := Finding{Name: "syscall notification", State: "ok"}
	if err := run.Probe(); err != nil {
		notification.State, notification.Detail = "off", err.Error()
		notification.Without = "no program can be supervised"
		notification.Mend = "use Linux 5.9 or newer; in a container, allow the system calls seccomp and pidfd_getfd"
	}
	d.Ready = notification.State == "ok"
	d.Findings = append(d.Findings, notification)
	worlds, err := run.ProbeWorlds(ctx)
	if err != nil {
		d.Findings = append(d.Findings, Finding{Name: "worlds", State: "off", Detail: err.Error()})
		d.Ready = false
	}
	for _, f := range worlds.Findings {
		state := "ok"
		if !f.OK {
			state = "off"
		}
		d.Findings = append(d.Findings, Finding{Name: f.Name, State: state, Detail: f.Detail, Without: f.Without, Mend: f.Mend})
	}
	shortcut := Finding{Name: "idle links in the kernel", State: "ok"}
	if err := run.ProbeShortcut(); err != nil {
		shortcut.State, shortcut.Detail = "off", err.Error()
		shortcut.Without = "links on which a fault could act go through a relay all the time: slower, and nothing else"
		shortcut.Mend = "run as root, on Linux 6.18 or newer"
	}
	d.Findings = append(d.Findings, shortcut)
	switch {
	case !d.Ready:
		d.Conclusion = "squall test would not work here."
	case worlds.Namespaces:
		d.Conclusion = "squall test works here: each leaf in a world of its own, determinism level L1."
	default:
		d.Conclusion = "squall test works here, one leaf at a time and without worlds, determinism level L1."
	}
	return d
}
