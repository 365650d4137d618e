package topology

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// serviceEntries are the builtins that declare services.
func serviceEntries(protocols map[string]protocol.Info) []bind.Entry {
	return []bind.Entry{
		{
			Name: "service", Phases: bind.AtLoad,
			Doc:     "declares a program of the system. Its interfaces are attributes of the result; a service with one interface has that interface's attributes too.",
			Example: "db = service(\"db\",\n    interface(\"pg\", \"postgres\", 5432),\n    binary = \"./bin/db\",\n    env = {\"PGDATA\": \"/tmp/pg\"},\n    healthcheck = tcp(\"localhost:5432\"),\n)",
			Params: []bind.Param{
				{Name: "name", Kind: bind.Name(), Required: true, Doc: "its name, which is also its host name for all others"},
				{Name: "interfaces", Kind: anInterface(), Variadic: true, Doc: "where it listens"},
				{Name: "binary", Kind: bind.String(), Doc: "the program: a path relative to the main file's directory, or a name to be found on PATH"},
				{Name: "args", Kind: bind.List(aText()), Doc: "arguments; numbers are written out"},
				{Name: "env", Kind: bind.StringDict(), Doc: "environment, added to PATH, HOME, LANG and TMPDIR"},
				{Name: "dir", Kind: bind.String(), Preset: "the main file's directory", Doc: "working directory, relative to the main file's"},
				{Name: "depends_on", Kind: bind.List(ServiceKind()), Doc: "services that must be ready before it starts"},
				{Name: "healthcheck", Kind: aHealthcheck(), Preset: "it listens everywhere", Doc: "how it shows that it is ready: ready(), http() or tcp()"},
				{Name: "stop_timeout", Kind: bind.Duration(), Preset: `"2s"`, Doc: "how long after SIGTERM it gets SIGKILL"},
				{Name: "observe", Kind: bind.List(anObserver()), Preset: "standard output and error, decoded as JSON where they are", Doc: "what is recorded of it"},
				{Name: "seed", Kind: bind.Function(0), Doc: "prepares it once it is ready, before anything that depends on it starts. A step in it whose last try fails leaves the leaf INCONCLUSIVE (seed-failed)"},
				{Name: "volumes", Kind: bind.StringDict(), Doc: `{machine's path: path in the world}, such as {"./conf": "/etc/app"}. All services of the leaf see it; what is written there is dropped with the leaf. With ":ro" behind it, as for every single file, writes are refused`},
				{Name: "ops", Kind: anOpDict(), Doc: "{name: op()}: names of its own for some system calls"},
				{Name: "nondeterministic_ok", Kind: bind.List(bind.Choice(nondeterminisms()...)), Doc: "sources of chance that it may use: " + strings.Join(nondeterminisms(), ", ")},
				{Name: "reuse", Kind: bind.Bool(), Preset: "False", Doc: "refused where True: each leaf starts the service anew in a world of its own"},
				{Name: "reset", Kind: bind.Function(0), Doc: "refused: nothing is left over that it could undo; what the service needs goes into seed"},
				{Name: "image", Kind: bind.Value(), Unsupported: true}, {Name: "build", Kind: bind.Value(), Unsupported: true},
				{Name: "remote", Kind: bind.Value(), Unsupported: true},
			},
			Do: do(declareService),
		},
		{
			Name: "interface", Phases: bind.AtLoad, Pure: true,
			Doc: "says where a service listens. Attributes of the result, once it belongs to a service: addr (\"name:port\"), host, port (all strings), and the methods of its protocol; of a Unix socket, addr and path. " +
				"Each program finds the same in its environment: SQUALL_<SERVICE>_<INTERFACE>_ADDR, _HOST and _PORT, in capitals and with _ for -.",
			Example: `interface("http", "http", 8080)`,
			Params: []bind.Param{
				{Name: "name", Kind: bind.Name(), Required: true, Doc: "its name: the service's attribute"},
				{Name: "protocol", Kind: aProtocol(protocols), Required: true, Doc: "what is spoken there"},
				{Name: "port", Kind: bind.Int(1, 65535), Doc: "the port, inside the service's own network; an interface has this or path"},
				{Name: "path", Kind: aSocketPath(), Doc: "the absolute path of a Unix socket. Its directory is made, and services and steps connect to it as they are: no rule acts on such connections"},
			},
			Do: do(declareInterface),
		},
		{
			Name: "ref", Phases: bind.Anywhere,
			Doc:     "names a service that is declared later, so that services may know each other.",
			Example: `env = {"PEERS": ref("n2").raft.addr}`,
			Params:  []bind.Param{{Name: "service", Kind: bind.String(), Required: true, Doc: "its name"}},
			Do: do(func(c *call) (starlark.Value, error) {
				return refer(c)
			}),
		},
		{
			Name: "determinism", Phases: bind.AtLoad,
			Doc: "declares how reproducible runs must be: L0, the same plan; L1, the same order of mediated events as well, and services' other sources of chance are detected and reported. " +
				"Nobody has to declare L1 to get it. Higher levels are refused.",
			Example: `determinism(level = "L1", strict = True, allow = ["clock", "rand"])`,
			Params: []bind.Param{
				{Name: "level", Kind: aLevel(), Required: true, Doc: `"L0" or "L1"`},
				{Name: "strict", Kind: bind.Bool(), Doc: "a leaf fails (determinism-leak) at the first use of a source of chance that neither allow nor the service's nondeterministic_ok names"},
				{Name: "allow", Kind: bind.List(bind.Choice("clock", "rand", "dns", "network", "files", "children")), Doc: "sources of chance that every service may use: clock, rand, dns, network, files, children"},
			},
			Do: do(declareDeterminism),
		},
	}
}

func aText() bind.Kind {
	return bind.Scalar("a string or a number", func(v starlark.Value) (any, bool) {
		switch v := v.(type) {
		case starlark.String:
			return string(v), true
		case starlark.Int, starlark.Float:
			return v.String(), true
		}
		return nil, false
	})
}

func aProtocol(protocols map[string]protocol.Info) bind.Kind {
	return kindOf("a protocol's name", func(c *call, v starlark.Value, at source.Span, _ syntax.Expr) (any, bool) {
		s, ok := starlark.AsString(v)
		if !ok {
			return nil, false
		}
		if _, known := protocols[s]; known {
			return s, true
		}
		names := make([]string, 0, len(protocols))
		for name := range protocols {
			names = append(names, name)
		}
		slices.Sort(names)
		near := source.Nearest(s, names)
		c.Errorf(at, near, "unknown protocol %q (known: %s)", s, strings.Join(names, ", "))
		return nil, false
	})
}

func anInterface() bind.Kind {
	return bind.Scalar("an interface()", func(v starlark.Value) (any, bool) {
		i, ok := v.(*Interface)
		return i, ok
	})
}

// ServiceKind is a service, or a reference to one; it converts to the name.
func ServiceKind() bind.Kind {
	return bind.Scalar("a service", func(v starlark.Value) (any, bool) {
		switch v := v.(type) {
		case *Service:
			return v.Decl.Name, true
		case *reference:
			return v.name, true
		}
		return nil, false
	})
}

func aLevel() bind.Kind {
	return bind.Parsed("a level", func(v starlark.Value) (any, error) {
		switch s, ok := starlark.AsString(v); {
		case !ok:
			return nil, nil
		case s == "L0" || s == "L1":
			return s, nil
		case len(s) == 2 && s[0] == 'L' && s[1] >= '2' && s[1] <= '5':
			return nil, fmt.Errorf("level %q is not supported yet", s)
		default:
			return nil, fmt.Errorf("unknown level %q; known: L0, L1", s)
		}
	})
}

func declareDeterminism(c *call) (starlark.Value, error) {
	d := &c.topology().determinism
	if d.Level != "" {
		c.Errorf(c.Site.Span(), "", "is declared already")
	}
	d.Level, d.Strict = bind.Arg[string](c.Call, "level"), bind.Arg[bool](c.Call, "strict")
	if d.Level == "L0" && d.Strict {
		c.Errorf(c.Site.KeywordSpan("strict"), "", "L0 promises the plan only, which no service can break: strict=True needs level L1")
	}
	for _, name := range bind.ArgList[string](c.Call, "allow") {
		n := spec.Nondeterminism(name)
		switch name {
		case "network":
			n = spec.OutsideIO
		case "files":
			n = spec.ForeignFS
		}
		if !slices.Contains(d.Allow, n) {
			d.Allow = append(d.Allow, n)
		}
	}
	return starlark.None, nil
}

func refer(c *call) (starlark.Value, error) {
	t := c.topology()
	name := bind.Arg[string](c.Call, "service")
	if s := t.Service(name); s != nil {
		return s, nil
	}
	if c.scope.Phase() != bind.AtLoad {
		c.Errorf(c.Where("service"), source.Nearest(name, t.names()), "no service %q is declared", name)
		return nil, nil
	}
	r := &reference{value.Named("service", "ref("+strconv.Quote(name)+")"), t, name, c.Where("service")}
	t.references = append(t.references, r)
	return r, nil
}

func declareService(c *call) (starlark.Value, error) {
	t := c.topology()
	name := bind.Arg[string](c.Call, "name")
	decl := &spec.Service{
		Name: name, Args: bind.ArgList[string](c.Call, "args"), Env: bind.Arg[map[string]string](c.Call, "env"),
		DependsOn: bind.ArgList[string](c.Call, "depends_on"), StopTimeout: bind.Arg[time.Duration](c.Call, "stop_timeout"),
		Position: c.Site.Start().String(),
	}
	s := &Service{Opaque: value.Named("service", fmt.Sprintf("service(%q)", name)), Decl: decl, partial: c.Bad}
	if name == "driver" || name == "localhost" || name == "squall" {
		c.Errorf(c.Where("name"), "", "the name is taken by Squall itself")
	}
	if before := t.Service(name); before != nil {
		c.FirstUse("service", name, before.Decl.Position)
		return before, nil
	}
	c.interfaces(s)
	c.observeMessages(s)
	c.binary(decl)
	c.health(s)
	c.parts(decl)
	if dir := bind.Arg[string](c.Call, "dir"); dir != "" {
		decl.Dir = t.absolute(dir)
		if info, err := os.Stat(decl.Dir); err != nil || !info.IsDir() {
			c.Errorf(c.Where("dir"), "", "%q is not a directory", dir)
		}
	}
	c.observers(decl)
	slices.Sort(decl.DependsOn)
	decl.DependsOn = slices.Compact(decl.DependsOn)
	t.services = append(t.services, s)
	return s, nil
}

// binary finds the program. Whether it can run is known before anything starts.
func (c *call) binary(decl *spec.Service) {
	t := c.topology()
	name := bind.Arg[string](c.Call, "binary")
	if name == "" {
		if !c.Has("binary") && !c.Bad {
			c.Errorf(c.Site.Span(), "", "needs binary=")
		} else if c.Has("binary") {
			c.Errorf(c.Where("binary"), "", "binary is empty")
		}
		return
	}
	if !strings.Contains(name, "/") {
		local := filepath.Join(t.Root, name)
		if info, err := os.Stat(local); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			decl.Binary = local
			return
		}
		found, err := exec.LookPath(name)
		if err != nil {
			c.Errorf(c.Where("binary"), "", "no program %q beside the spec or on PATH", name)
			return
		}
		decl.Binary, _ = filepath.Abs(found)
		return
	}
	decl.Binary = t.absolute(name)
	info, err := os.Stat(decl.Binary)
	switch {
	case err != nil:
		c.Errorf(c.Where("binary"), "", "binary %q: %v", name, bareCause(err))
	case !info.Mode().IsRegular():
		c.Errorf(c.Where("binary"), "", "binary %q is not a file", name)
	case info.Mode()&0o111 == 0:
		c.Errorf(c.Where("binary"), "", "binary %q is not executable; chmod +x it", name)
	}
}

func bareCause(err error) error {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err
	}
	return err
}
