package squall

import "context"

// Diagnosis is what a machine allows.
type Diagnosis struct {
	Findings []Finding
	// Ready says that a run would work.
	Ready bool
	// Conclusion says in a sentence what can be done here.
	Conclusion string
}

// Finding is one thing that was tried.
type Finding struct {
	Name string
	// State is ok, off or none.
	State  string
	Detail string
	// Without says what is worse, Mend what would change it; "" where there is nothing to say.
	Without, Mend string
}

// Doctor tries what this machine allows, each for real.
func Doctor(ctx context.Context) Diagnosis { return diagnose(ctx) }
