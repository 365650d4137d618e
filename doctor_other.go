//go:build !linux

package squall

import (
	"context"
	"runtime"
)

func diagnose(context.Context) Diagnosis {
	return Diagnosis{
		Findings: []Finding{{
			Name: runtime.GOOS, State: "none", Without: "plan, check, report and diff work; test and replay do not",
			Mend: "run them on Linux",
		}},
		Conclusion: "Nothing can be run under supervision here.",
	}
}
