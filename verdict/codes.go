package verdict

// Code names a reason; Codes has one row for each.
type Code string

// The reasons. Those that fail a leaf come first, then those that leave it open, then warnings.
const (
	MonitorViolated     Code = "monitor-violated"
	AlwaysViolated      Code = "always-violated"
	EventuallyViolated  Code = "eventually-violated"
	AssertionFailed     Code = "assertion-failed"
	ExpectationFailed   Code = "expectation-failed"
	BodyFailed          Code = "body-failed"
	DeterminismLeak     Code = "determinism-leak"
	FaultNeverFired     Code = "fault-never-fired"
	FaultBypassed       Code = "fault-bypassed"
	NotSubscribed       Code = "not-subscribed"
	BaselineFailed      Code = "baseline-failed"
	ServiceNotReady     Code = "service-not-ready"
	ServiceCrashed      Code = "service-crashed"
	ServiceNotStarted   Code = "service-not-started"
	PortTaken           Code = "port-taken"
	Timeout             Code = "timeout"
	WindowNeverOpened   Code = "window-never-opened"
	AwaitUnmet          Code = "await-unmet"
	PropertyUndecided   Code = "property-undecided"
	PropertyBroken      Code = "property-broken"
	SetupFailed         Code = "setup-failed"
	SeedFailed          Code = "seed-failed"
	Interrupted         Code = "interrupted"
	EventsDropped       Code = "events-dropped"
	AmbiguousLocalhost  Code = "ambiguous-localhost"
	UndeclaredAddress   Code = "undeclared-address"
	NeedsNamespaces     Code = "needs-namespaces"
	SupervisionLost     Code = "supervision-lost"
	WorldFailed         Code = "world-failed"
	ListenerTaken       Code = "listener-taken"
	Halted              Code = "halted"
	ChoiceUnmet         Code = "choice-unmet"
	NothingTested       Code = "nothing-tested"
	ReplayDiverged      Code = "replay-diverged"
	NeverTriggered      Code = "never-triggered"
	NoAssertions        Code = "no-assertions"
	NoPositiveControl   Code = "no-positive-control"
	UndeclaredIOWarning Code = "undeclared-io"
	ServiceEnded        Code = "service-ended"
	MappedFile          Code = "mapped-file"
)

// Row describes one code.
type Row struct {
	Code Code
	// Outcome is what the reason leads to; PASS marks a warning.
	Outcome Outcome
	// Sentence says what happened, for somebody who never saw the code.
	Sentence string
	// Mend is the next step.
	Mend string
}

// Codes is the table, from which the reference page is generated.
func Codes() []Row {
	return []Row{
		{MonitorViolated, Fail, "an invariant did not hold", "read the witness event and what led to it"},
		{AlwaysViolated, Fail, "a property that must hold throughout was false at one point", "read the witness event and what led to it"},
		{EventuallyViolated, Fail, "the run ended in the regular way and what had to happen never did", "look for the last event that led towards it"},
		{AssertionFailed, Fail, "an assertion in the scenario was false", "compare the two values"},
		{ExpectationFailed, Fail, "the scenario's result is not what the cell expects", "look at the answer that the scenario returned"},
		{BodyFailed, Fail, "the scenario's code raised an error", "read the position and the message"},
		{DeterminismLeak, Fail, "a source of chance that the contract forbids was used", "allow it by name, or take it away"},

		{FaultNeverFired, Inconclusive, "a declared fault never acted, so nothing was tested under it", "drive a request that reaches it, or mark it optional=True"},
		{FaultBypassed, Inconclusive, "the program did its work on a way that the fault cannot see", "turn that way off in the program (for example io_uring), or choose another fault"},
		{NotSubscribed, Inconclusive, "the scenario injected something that the leaf had not subscribed to when its programs started", "name the fault where the spec can be read statically, or declare it in an assumption"},
		{BaselineFailed, Inconclusive, "the same scenario does not pass without any fault", "make the baseline pass first"},
		{ServiceNotReady, Inconclusive, "a service did not become ready in time", "look at its log; check the healthcheck's address and timeout"},
		{ServiceCrashed, Inconclusive, "a service ended by itself before the scenario began", "look at its log and exit code"},
		{ServiceNotStarted, Inconclusive, "a service's program could not be started", "check the path, its permissions and its interpreter"},
		{PortTaken, Inconclusive, "a service's port belongs to another program of this machine", "choose another port, or end the program that has it"},
		{Timeout, Inconclusive, "the leaf ran out of time before it was decided", "raise the timeout, or look at what it waited for"},
		{WindowNeverOpened, Inconclusive, "the window in which a property was to be checked never opened", "check the matcher that opens it"},
		{AwaitUnmet, Inconclusive, "the scenario waited for something that did not happen in time", "check the matcher, or raise the timeout"},
		{PropertyUndecided, Inconclusive, "the trace was cut before a property was decided", "find out what cut it"},
		{PropertyBroken, Inconclusive, "the property's own code raised an error", "mend the property"},
		{SetupFailed, Inconclusive, "the setup did not come to its end, so what it prepares was not tested", "look at what the setup met; no fault of the cell is in force while it runs"},
		{SeedFailed, Inconclusive, "a service's seed did not come to its end, so what it prepares was not there", "look at the step that failed, and at the service's log"},
		{Interrupted, Inconclusive, "the run was stopped before the leaf was decided", "run it again"},
		{EventsDropped, Inconclusive, "the record of the leaf is not complete", "reduce the output, or look at the disk"},
		{AmbiguousLocalhost, Inconclusive, "a program connected to localhost at a port that several services declare", "use the service's name in the address"},
		{UndeclaredAddress, Inconclusive, "a program needed an address that nothing declares, and it was refused", "declare the service, or its interface"},
		{NeedsNamespaces, Inconclusive, "a rule needs a network that Squall owns, and this machine does not allow one", "see squall doctor"},
		{SupervisionLost, Inconclusive, "the supervisor lost a program while it ran", "run it again; report it if it repeats"},
		{WorldFailed, Inconclusive, "the leaf's world could not be built", "see squall doctor"},
		{ListenerTaken, Inconclusive, "a program installs a system call supervisor of its own, so it cannot be supervised", "turn its own sandbox off"},
		{Halted, Inconclusive, "the scenario ended itself because it has nothing to say here", "none needed if that is what you meant"},
		{ChoiceUnmet, Inconclusive, "the leaf did not come to a choice that it is made for, or found other options there: the system did not do again what it had done", "look for chance in the system before the choice; compare with the leaf that takes the first option there"},
		{NothingTested, Inconclusive, "no leaf was run", "check the filter and the spec"},
		{ReplayDiverged, Inconclusive, "the replay left the recorded path", "read the first divergence"},

		{NeverTriggered, Pass, "a property held because what it watches for never occurred", "drive the scenario to it, or drop the property"},
		{NoPositiveControl, Pass, "nothing shows that the check could see anything: no event like what it looks for came, here or without the fault", "check the names in the matcher, or drive the scenario to where such events come"},
		{NoAssertions, Pass, "the leaf checks nothing: nothing in it could have failed", "say what must hold"},
		{MappedFile, Pass, "a service changes a file through memory that it mapped, which no fault on writes can see", "check that the fault hits what matters, or turn mapping off in the service"},
		{ServiceEnded, Pass, "a service ended by itself", "look at its log and exit code; where it must not happen, watch for it in a monitor on lifecycle events"},
		{UndeclaredIOWarning, Pass, "a service tried to reach something that nothing declares", "declare it, or turn it off in the service"},
	}
}

// Lookup returns the row of a code.
func Lookup(c Code) (Row, bool) {
	for _, r := range Codes() {
		if r.Code == c {
			return r, true
		}
	}
	return Row{}, false
}
