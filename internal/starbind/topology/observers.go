package topology

import (
	"fmt"
	"path/filepath"
	"slices"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/calls"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/spec"
)

// observer is what observe.stdout() and the like return.
type observer struct {
	value.Opaque
	// decl has a relative path until the service is known.
	decl []spec.Observer
	// messages has the messages to a service's interfaces recorded.
	messages bool
}

// decoder is what decoder() returns.
type decoder struct {
	value.Opaque
	decl spec.Decoder
}

// observerEntries are the builtins that say what is recorded of a service.
func observerEntries() []bind.Entry {
	lines := bind.Param{Name: "decoder", Kind: aDecoder(), Preset: `decoder("json")`, Doc: "how fields are found in its lines"}
	stream := func(name string, kind spec.ObserverKind) bind.Entry {
		return bind.Entry{
			Name: "observe." + string(kind), Phases: bind.AtLoad,
			Doc:     "says how standard " + name + " is read. It is recorded for every service, so this may be left out where its lines are JSON, or plain text.",
			Example: `observe = [observe.` + string(kind) + `(decoder = decoder("logfmt"))]`,
			Params:  []bind.Param{lines},
			Do: do(func(c *call) (starlark.Value, error) {
				return c.observer(spec.Observer{Kind: kind, Decoder: decoderOf(c)}), nil
			}),
		}
	}
	return []bind.Entry{
		stream("output", spec.Stdout),
		stream("error", spec.Stderr),
		{
			Name: "observe.file", Phases: bind.AtLoad,
			Doc:     "records the lines that are added to a file, as events of type file. Lines that were there before the service started are not. It is read every few milliseconds, before each answer that the scenario gets, and to its end before the leaf is judged. A file that is replaced, or cut short, is read from its beginning.",
			Example: `observe = [observe.file("data/audit.log", decoder = decoder("logfmt"))]`,
			Params: []bind.Param{
				{Name: "path", Kind: bind.String(), Required: true, Doc: "its path as the service sees it; a relative one is relative to the service's dir"}, lines,
			},
			Do: do(func(c *call) (starlark.Value, error) {
				if bind.Arg[string](c.Call, "path") == "" && !c.Bad {
					c.Errorf(c.Where("path"), "", "the path is empty")
				}
				return c.observer(spec.Observer{Kind: spec.LogFile, Path: bind.Arg[string](c.Call, "path"), Decoder: decoderOf(c)}), nil
			}),
		},
		{
			Name: "observe.syscalls", Phases: bind.AtLoad,
			Doc:     "records system calls of the service that no rule changes, as events of type syscall with the decision allow. They are recorded when they are made: what came of them is not known. Each costs what a call costs that a rule looks at.",
			Example: `observe = [observe.syscalls("fsync", "rename", path = "/var/lib/db/**")]`,
			Params:  append([]bind.Param{{Name: "calls", Kind: calls.Call(), Variadic: true, Required: true, Doc: "families of calls, or calls"}}, callFilter()...),
			Do: do(func(c *call) (starlark.Value, error) {
				return c.observer(observedCalls(c, bind.ArgList[string](c.Call, "calls"))...), nil
			}),
		},
		{
			Name: "observe.messages", Phases: bind.AtLoad,
			Doc:     "has the requests to the service's interfaces, and their answers, recorded as events of kind message. It is so anyway where a rule may act on them; elsewhere it costs a relay in each connection.",
			Example: `observe = [observe.messages()]`,
			Do: do(func(*call) (starlark.Value, error) {
				return &observer{Opaque: value.Named("observer", "messages"), messages: true}, nil
			}),
		},
		{
			Name: "decoder", Phases: bind.AtLoad, Pure: true,
			Doc:     "says how the fields of an event are found in a line. json: the members of an object. logfmt: key=value pairs, with quotes where there are spaces. regex: the named groups of pattern, where it matches. In the last two, text that reads as a number, true or false becomes that. A line that is not so has the field line only.",
			Example: `decoder("regex", pattern = r"^\[(?P<level>\w+)\] (?P<msg>.*)")`,
			Params: []bind.Param{
				{Name: "format", Kind: bind.Choice("json", "logfmt", "regex"), Required: true, Doc: `"json", "logfmt" or "regex"`},
				{Name: "pattern", Kind: bind.String(), Doc: "of regex, the expression (RE2), with (?P<name>...) for each field"},
			},
			Do: do(makeDecoder),
		},
		{
			Name: "trace", Phases: bind.InBody, Reach: bind.InjectsTrace,
			Doc:     "records system calls of a service while a function runs, as observe.syscalls does for the whole leaf, and returns what the function returned.",
			Example: `trace(db, syscalls = ["fsync"], run = create_order)`,
			Params: append([]bind.Param{
				{Name: "service", Kind: ServiceKind(), Required: true, Doc: "the service"},
				{Name: "syscalls", Kind: bind.List(calls.Call()), Required: true, Doc: "families of calls, or calls"},
				{Name: "run", Kind: bind.Function(0), Required: true, Doc: "a function without parameters"},
			}, callFilter()...),
			Do: do(doTrace),
		},
	}
}

func callFilter() []bind.Param {
	return []bind.Param{
		{Name: "on", Kind: calls.Descriptor(), Preset: "what the call is mostly for", Doc: `kinds of descriptor: "file", "socket", "pipe", "tty", "other", a list of them, or "any"`},
		{Name: "path", Kind: calls.Glob(), Preset: "any", Doc: `glob over the file's absolute path; * does not cross /, ** does`},
	}
}

func (c *call) observer(list ...spec.Observer) *observer {
	for i := range list {
		list[i].Position = c.Site.Start().String()
	}
	return &observer{Opaque: value.Named("observer", c.Entry.Name+"(...)"), decl: list}
}

func decoderOf(c *call) spec.Decoder {
	if d := bind.Arg[*decoder](c.Call, "decoder"); d != nil {
		return d.decl
	}
	return spec.Decoder{}
}

func makeDecoder(c *call) (starlark.Value, error) {
	d := spec.Decoder{Format: bind.Arg[string](c.Call, "format"), Pattern: bind.Arg[string](c.Call, "pattern")}
	switch {
	case c.Bad:
	case d.Format == "regex" && !c.Has("pattern"):
		c.Errorf(c.Site.Span(), "", "regex needs pattern=")
	case d.Format != "regex" && c.Has("pattern"):
		c.Errorf(c.Site.KeywordSpan("pattern"), "", "pattern= is for regex")
	default:
		if _, err := d.Compile(); err != nil {
			c.Errorf(c.Where("pattern"), "", "%s", err)
		}
	}
	return &decoder{value.Named("decoder", fmt.Sprintf("decoder(%q)", d.Format)), d}, nil
}

// observedCalls makes an observer for each family, since each has its own kinds of descriptor.
func observedCalls(c *call, names []string) []spec.Observer {
	var out []spec.Observer
	for _, name := range names {
		family, ok := fault.FamilyOf(name)
		if !ok {
			continue // reported by its kind
		}
		o := spec.Observer{Kind: spec.Syscalls, Calls: slices.Clone(family.Calls), Path: bind.Arg[string](c.Call, "path"), Position: c.Site.Start().String()}
		for _, k := range family.On {
			o.On = append(o.On, string(k))
		}
		if c.Has("on") {
			if o.On = bind.ArgList[string](c.Call, "on"); slices.Contains(o.On, "any") {
				o.On = nil
			}
			if family.Descriptor < 0 && len(o.On) > 0 {
				c.Errorf(c.Where("on"), "", "on= does not apply to %s, which has no descriptor", name)
			}
		}
		if o.Path != "" && family.Path < 0 && (family.Descriptor < 0 || len(o.On) > 0 && !slices.Contains(o.On, string(fault.File))) {
			c.Errorf(c.Where("path"), "", "path= does not apply to %s, which has no file", name)
		}
		out = append(out, o)
	}
	return out
}

// tracer is what a world's view may offer to record system calls for a while.
type tracer interface {
	// Trace records calls of a service until stop is called.
	Trace(service string, calls []spec.Observer) (stop func(), err error)
}

func doTrace(c *call) (starlark.Value, error) {
	t, ok := c.scope.World().Events().(tracer)
	if !ok {
		return nil, fmt.Errorf("trace: this world records no system calls")
	}
	stop, err := t.Trace(bind.Arg[string](c.Call, "service"), observedCalls(c, bind.ArgList[string](c.Call, "syscalls")))
	if err != nil {
		return nil, c.Worldly(err)
	}
	defer stop()
	return starlark.Call(c.Thread, bind.Arg[starlark.Callable](c.Call, "run"), nil, nil)
}

func anObserver() bind.Kind {
	return bind.Scalar("one of observe.*()", func(v starlark.Value) (any, bool) {
		switch v := v.(type) {
		case *observer:
			return v, true
		case *decoder:
			list := []spec.Observer{{Kind: spec.Stdout, Decoder: v.decl}, {Kind: spec.Stderr, Decoder: v.decl}}
			return &observer{Opaque: v.Opaque, decl: list}, true
		}
		return nil, false
	})
}

func aDecoder() bind.Kind {
	return bind.Scalar("a decoder()", func(v starlark.Value) (any, bool) {
		d, ok := v.(*decoder)
		return d, ok
	})
}

// observers takes what a service has to be observed.
func (c *call) observers(decl *spec.Service) {
	dir := decl.Dir
	if dir == "" {
		dir = c.topology().Root
	}
	seen := map[string]bool{}
	for _, o := range bind.ArgList[*observer](c.Call, "observe") {
		for _, one := range o.decl {
			if one.Kind == spec.LogFile && !filepath.IsAbs(one.Path) {
				one.Path = filepath.Join(dir, one.Path)
			}
			key := string(one.Kind) + " " + one.Path
			if one.Kind != spec.Syscalls && seen[key] {
				c.Errorf(c.Where("observe"), "", "%s is observed twice", key)
				continue
			}
			seen[key] = true
			decl.Observe = append(decl.Observe, one)
		}
	}
}

// observeMessages marks the interfaces whose messages are to be recorded.
func (c *call) observeMessages(s *Service) {
	wanted := func(o *observer) bool { return o.messages }
	if !slices.ContainsFunc(bind.ArgList[*observer](c.Call, "observe"), wanted) {
		return
	}
	found := false
	for _, i := range s.Interfaces {
		i.Decl.Messages = i.Decl.Path == "" && c.topology().Protocols[i.Decl.Protocol].Messages != nil
		found = found || i.Decl.Messages
	}
	if !found && !c.Bad {
		c.Errorf(c.Where("observe"), "", "no interface of %s has messages that can be told apart", s.Decl.Name)
	}
}
