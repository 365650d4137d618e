package squall

import (
	"context"

	"github.com/squallhq/squall/internal/intercept/notify"
)

func diagnose(context.Context) Diagnosis {
	d := Diagnosis{Ready: true}
	d.Findings = append(d.Findings, Finding{Name: "kernel " + kernelRelease(), State: "ok"})
	f := Finding{Name: "syscall notification", State: "ok"}
	if err := notify.New(notify.Options{}).Probe(); err != nil {
		f.State, f.Detail, d.Ready = "off", err.Error(), false
		f.Mend = "use Linux 5.9 or newer; inside a container, allow the seccomp system call"
	}
	d.Findings = append(d.Findings, f)
	return d
}
