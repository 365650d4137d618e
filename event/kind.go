package event

// Kind is the type of an event; Schema has one row for each.
type Kind string

// The kinds of events.
const (
	Lifecycle Kind = "lifecycle"
	Body      Kind = "body"
	Stdout    Kind = "stdout"
	Stderr    Kind = "stderr"
	File      Kind = "file"
	Syscall   Kind = "syscall"
	Link      Kind = "link"
	Message   Kind = "message"
	Fault     Kind = "fault"
	StepSend  Kind = "step_send"
	StepRecv  Kind = "step_recv"
	Choice    Kind = "choice"
	Property  Kind = "property"
	Unmet     Kind = "unmediated_io"
	Note      Kind = "note"
)

// Row describes one kind: what it means and which fields it carries.
type Row struct {
	Kind   Kind
	Doc    string
	Fields []Field
}

// Field describes one field of a kind.
type Field struct {
	Name string
	Type string // string, int, bool, object
	Doc  string
}

// Schema is the table of kinds, from which the published schema and the reference are generated.
func Schema() []Row {
	return []Row{
		{Lifecycle, "a service's process changed its state", []Field{
			{"phase", "string", "started, ready, seeding, seeded, exited, stopped (by SIGKILL, after SIGTERM did not do), kill, pause, resume"},
			{"pid", "int", "process id inside the world"},
			{"code", "int", "exit code, where it exited"},
			{"signal", "string", "signal that ended it, where one did"},
			{"expected", "bool", "it exited because it was told to"},
			{"forced", "bool", "it had to be killed"},
		}},
		{Body, "the scenario's body began or ended", []Field{
			{"phase", "string", "begin, end"},
			{"scenario", "string", "the scenario, where it begins"},
			{"outcome", "string", "returned, failed, halted, timeout, interrupted, decided (a property was violated), where it ends"},
		}},
		{Stdout, "a line on a service's standard output; what its decoder finds, as a rule the members of a JSON object, becomes fields too", []Field{
			{"line", "string", "the line as printed"},
		}},
		{Stderr, "a line on a service's standard error; what its decoder finds, as a rule the members of a JSON object, becomes fields too", []Field{
			{"line", "string", "the line as printed"},
		}},
		{File, "a line that was added to an observed file; what its decoder finds becomes fields too", []Field{
			{"path", "string", "the file"},
			{"line", "string", "the line as written"},
		}},
		{Syscall, "a system call that a rule selected, or that is observed", []Field{
			{"name", "string", "the call"},
			{"pid", "int", "calling process, inside the world"},
			{"path", "string", "file, where one is known"},
			{"on", "string", "kind of descriptor: file, socket, pipe, tty, other"},
			{"decision", "string", "deny, delay, or allow where it is only observed"},
			{"errno", "string", "error given, for deny"},
			{"delay_ms", "int", "how long it is held, for delay"},
			{"rule", "string", "the rule that decided"},
			{"index", "int", "how many calls this rule had matched, from 1"},
		}},
		{Link, "something on a connection between two services", []Field{
			{"op", "string", "connect, refused, established, close, reset, stall, cut, drop, duplicate, reorder, heal, fired"},
			{"client", "string", "who connected"},
			{"server", "string", "who was connected to"},
			{"interface", "string", "the interface's name"},
			{"flow", "string", "client>server.interface#n, n counting that pair's connections from 1"},
			{"direction", "string", "up (client to server) or down"},
			{"direct", "bool", "no relay stands between the two"},
			{"bytes", "int", "bytes concerned"},
			{"up", "int", "bytes carried to the server, at the close"},
			{"down", "int", "bytes carried to the client, at the close"},
			{"errno", "string", "what the client was told"},
			{"rule", "string", "the rule that acted, where one did"},
			{"index", "int", "the datagram's number in its flow and direction, from 0, which is left out"},
			{"fired", "int", "how often the rule has acted so far, for fired"},
		}},
		{Message, "a request on a connection between two services, or its answer; what the protocol's rules can match become fields too", []Field{
			{"op", "string", "request, fired (a rule acted on it), answer, failed (a rule could not act), blind (messages can't be told apart any more)"},
			{"client", "string", "who asked"},
			{"server", "string", "who was asked"},
			{"interface", "string", "the interface's name"},
			{"protocol", "string", "the interface's protocol"},
			{"flow", "string", "the connection, as in link events"},
			{"index", "int", "the request's number on its connection, from 1"},
			{"duration_ms", "int", "from the request's first bytes to the end of the answer, for answer"},
			{"rule", "string", "the rule that acted, where one did"},
			{"verb", "string", "what it did: error, response, delay, drop, duplicate, hold"},
			{"fired", "int", "how often the rule has acted so far, for fired"},
			{"message", "string", "why, for failed and blind"},
		}},
		{Fault, "a rule was put in force or lifted; what it did stands in syscall and link events", []Field{
			{"op", "string", "installed, lifted"},
			{"rule", "string", "the rule"},
			{"target", "string", "the service that it acts on, or the two ends of the connections"},
			{"assumption", "string", "the assumption that it belongs to"},
			{"fired", "int", "how often it has acted so far"},
			{"effect", "string", "what it does, in the words of the spec"},
		}},
		{StepSend, "the scenario asked a service for something", []Field{
			{"target", "string", "service.interface"},
			{"protocol", "string", "the interface's protocol"},
			{"method", "string", "the step"},
			{"args", "object", "its arguments"},
		}},
		{StepRecv, "a service answered the scenario", []Field{
			{"target", "string", "service.interface"},
			{"method", "string", "the step"},
			{"status", "int", "the protocol's status, where it has one"},
			{"ok", "bool", "the step succeeded"},
			{"error", "string", "why it did not"},
			{"body", "string", "the answer, cut to 2048 bytes"},
			{"duration_ms", "int", "how long it took"},
		}},
		{Choice, "an unknown was decided", []Field{
			{"name", "string", "the choice"},
			{"index", "int", "the option taken, from 0"},
			{"of", "int", "how many options there were"},
			{"option", "string", "the option in words"},
		}},
		{Property, "a monitor or property was decided", []Field{
			{"name", "string", "the property"},
			{"result", "string", "violated, satisfied, undecided, never_triggered"},
			{"message", "string", "why"},
			{"witness", "int", "seq of the event that decided it"},
		}},
		{Unmet, "a service did something that Squall does not mediate: tried to reach what nothing declares, or took chance from somewhere; of the latter the first of each category, and at the end how many", []Field{
			{"category", "string", "clock, rand, dns, network, children"},
			{"call", "string", "the system call, for clock, rand and children"},
			{"path", "string", "the program, for children"},
			{"count", "int", "how often in all, at the end"},
			{"code", "string", "reason code"},
			{"address", "string", "what it tried to reach"},
			{"message", "string", "in words"},
			{"errno", "string", "what it was told"},
		}},
		{Note, "something that the reader of a verdict has to know", []Field{
			{"code", "string", "reason code"},
			{"message", "string", "in words"},
		}},
	}
}
