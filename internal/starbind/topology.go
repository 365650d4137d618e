package starbind

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/spec"
)

func durationValue(c *call, name string) starlark.Value {
	return startime.Duration(arg[time.Duration](c, name))
}

// topologyEntries are the builtins that say what the system is.
func topologyEntries(ld *loader) []entry {
	return []entry{
		{
			name: "service", phases: atLoad,
			doc:     "declares a program of the system. Its interfaces are attributes of the result; a service with one interface has that interface's attributes too.",
			example: "db = service(\"db\",\n    interface(\"pg\", \"postgres\", 5432),\n    binary = \"./bin/db\",\n    env = {\"PGDATA\": \"/tmp/pg\"},\n    healthcheck = tcp(\"localhost:5432\"),\n)",
			params: []param{
				{name: "name", kind: aName(), required: true, doc: "its name, which is also its host name for all others"},
				{name: "interfaces", kind: anInterface(), variadic: true, doc: "where it listens"},
				{name: "binary", kind: aString(), doc: "the program: a path relative to the main file's directory, or a name to be found on PATH"},
				{name: "args", kind: listOf(aText()), doc: "arguments; numbers are written out"},
				{name: "env", kind: aStringDict(), doc: "environment, added to PATH, HOME, LANG and TMPDIR"},
				{name: "dir", kind: aString(), preset: "the main file's directory", doc: "working directory, relative to the main file's"},
				{name: "depends_on", kind: listOf(aService()), doc: "services that must be ready before it starts"},
				{name: "healthcheck", kind: aHealthcheck(), doc: "how it shows that it is ready: tcp() or http()"},
				{name: "stop_timeout", kind: aDuration(), preset: `"2s"`, doc: "how long after SIGTERM it gets SIGKILL"},
				{name: "observe", kind: listOf(anObserver()), preset: "standard output and error, decoded as JSON where they are", doc: "what is recorded of it"},
				{name: "image", kind: aValue(), unsupported: true}, {name: "build", kind: aValue(), unsupported: true},
				{name: "remote", kind: aValue(), unsupported: true},
			},
			do: declareService,
		},
		{
			name: "interface", phases: atLoad, pure: true,
			doc:     "says where a service listens. Attributes of the result, once it belongs to a service: addr (\"name:port\"), host, port (all strings), and the methods of its protocol.",
			example: `interface("http", "http", 8080)`,
			params: []param{
				{name: "name", kind: aName(), required: true, doc: "its name: the service's attribute"},
				{name: "protocol", kind: aProtocol(ld), required: true, doc: "what is spoken there"},
				{name: "port", kind: anInt(1, 65535), required: true, doc: "the port, inside the service's own network"},
			},
			do: func(c *call) (starlark.Value, error) {
				decl := &spec.Interface{
					Name: arg[string](c, "name"), Protocol: arg[string](c, "protocol"), Port: arg[int](c, "port"),
					Position: c.site.start().String(),
				}
				return &iface{opaque: opaque{"interface", decl.Name}, decl: decl}, nil
			},
		},
		{
			name: "ref", phases: anywhere,
			doc:     "names a service that is declared later, so that services may know each other.",
			example: `env = {"PEERS": ref("n2").raft.addr}`,
			params:  []param{{name: "service", kind: aString(), required: true, doc: "its name"}},
			do: func(c *call) (starlark.Value, error) {
				return refer(c)
			},
		},
		{
			name: "tcp", phases: atLoad, pure: true,
			doc:     "is a healthcheck: the service is ready when it accepts a connection.",
			example: `healthcheck = tcp("localhost:5432", timeout = "20s")`,
			params: []param{
				{name: "addr", kind: aString(), required: true, doc: `host:port; localhost is the service's own`},
				{name: "timeout", kind: aDuration(), preset: `"10s"`, doc: "how long it may take"},
			},
			do: func(c *call) (starlark.Value, error) { return healthcheck(c, "tcp", arg[string](c, "addr")) },
		},
		{
			name: "http", phases: atLoad, pure: true,
			doc:     "is a healthcheck: the service is ready when a GET is answered with a status from 200 to 399.",
			example: `healthcheck = http("localhost:8080/health")`,
			params: []param{
				{name: "url", kind: aString(), required: true, doc: `host:port/path, with or without http://; localhost is the service's own`},
				{name: "timeout", kind: aDuration(), preset: `"10s"`, doc: "how long it may take"},
			},
			do: func(c *call) (starlark.Value, error) { return healthcheck(c, "http", arg[string](c, "url")) },
		},
		{
			name: "observe.stdout", phases: atLoad,
			doc:     "says that standard output is recorded. It is for every service, so this may be left out.",
			example: `observe = [observe.stdout(decoder = decoder("json"))]`,
			params:  []param{{name: "decoder", kind: anObserver(), doc: "how lines are read; see decoder"}},
			do:      func(*call) (starlark.Value, error) { return &observer{opaque{"observer", "stdout"}}, nil },
		},
		{
			name: "observe.stderr", phases: atLoad,
			doc:     "says that standard error is recorded. It is for every service, so this may be left out.",
			example: `observe = [observe.stderr()]`,
			params:  []param{{name: "decoder", kind: anObserver(), doc: "how lines are read; see decoder"}},
			do:      func(*call) (starlark.Value, error) { return &observer{opaque{"observer", "stderr"}}, nil },
		},
		{
			name: "decoder", phases: atLoad, pure: true,
			doc:     "names how lines are read: a line that is a JSON object has its members as fields.",
			example: `decoder("json")`,
			params:  []param{{name: "format", kind: aDecoder(), required: true, doc: `"json"`}},
			do:      func(*call) (starlark.Value, error) { return &observer{opaque{"decoder", "json"}}, nil },
		},
		{
			name: "determinism", phases: atLoad,
			doc:     "declares how reproducible runs must be. L0 and L1 are what every run gives; higher levels are refused.",
			example: `determinism(level = "L1")`,
			params:  []param{{name: "level", kind: aLevel(), required: true, doc: `"L0" or "L1"`}},
			do: func(c *call) (starlark.Value, error) {
				if c.env.loader.decls.level != "" {
					c.errorf(c.site.span(), "", "is declared already")
				}
				c.env.loader.decls.level = arg[string](c, "level")
				return starlark.None, nil
			},
		},
	}
}

func aText() kind {
	return scalar("a string or a number", func(v starlark.Value) (any, bool) {
		switch v := v.(type) {
		case starlark.String:
			return string(v), true
		case starlark.Int, starlark.Float:
			return v.String(), true
		}
		return nil, false
	})
}

func aProtocol(ld *loader) kind {
	return kind{"a protocol's name", func(c *call, v starlark.Value, at span, _ syntax.Expr) (any, bool) {
		s, ok := starlark.AsString(v)
		if !ok {
			return nil, false
		}
		if _, known := ld.protocols[s]; known {
			return s, true
		}
		names := make([]string, 0, len(ld.protocols))
		for name := range ld.protocols {
			names = append(names, name)
		}
		slices.Sort(names)
		near := nearest(s, names)
		c.errorf(at, near, "unknown protocol %q (known: %s)", s, strings.Join(names, ", "))
		return nil, false
	}}
}

func anInterface() kind {
	return scalar("an interface()", func(v starlark.Value) (any, bool) {
		i, ok := v.(*iface)
		return i, ok
	})
}

// aService is a service, or a reference to one; it converts to the name.
func aService() kind {
	return scalar("a service", func(v starlark.Value) (any, bool) {
		switch v := v.(type) {
		case *service:
			return v.decl.Name, true
		case *reference:
			return v.name, true
		}
		return nil, false
	})
}

func aHealthcheck() kind {
	return scalar("tcp() or http()", func(v starlark.Value) (any, bool) {
		h, ok := v.(*health)
		return h, ok
	})
}

func anObserver() kind {
	return scalar("observe.stdout(), observe.stderr() or a decoder()", func(v starlark.Value) (any, bool) {
		o, ok := v.(*observer)
		return o, ok
	})
}

func aDecoder() kind {
	return parsed("a decoder's name", func(v starlark.Value) (any, error) {
		switch s, ok := starlark.AsString(v); {
		case !ok:
			return nil, nil
		case s == "json":
			return s, nil
		case s == "logfmt" || s == "regex":
			return nil, fmt.Errorf("%q is not supported yet", s)
		default:
			return nil, fmt.Errorf("unknown format %q; known: json", s)
		}
	})
}

func aLevel() kind {
	return parsed("a level", func(v starlark.Value) (any, error) {
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

func refer(c *call) (starlark.Value, error) {
	ld := c.env.loader
	name := arg[string](c, "service")
	if s := ld.decls.service(name); s != nil {
		return s, nil
	}
	if c.env.phase != atLoad {
		c.errorf(c.where("service"), nearest(name, ld.decls.serviceNames()), "no service %q is declared", name)
		return nil, nil
	}
	r := &reference{opaque{"service", "ref(" + strconv.Quote(name) + ")"}, ld, name, c.where("service")}
	ld.decls.references = append(ld.decls.references, r)
	return r, nil
}

func healthcheck(c *call, kind, address string) (starlark.Value, error) {
	if kind == "http" && !strings.Contains(address, "://") {
		address = "http://" + address
	}
	h := &health{opaque{"healthcheck", kind + "(" + strconv.Quote(address) + ")"}, spec.Health{
		Kind: kind, Address: address, Timeout: arg[time.Duration](c, "timeout"), Position: c.site.start().String(),
	}, c.site.at(c.site.valueExpr(c.entry.params[0].name, 0))}
	if strings.Contains(address, placeOpen) {
		return h, nil
	}
	switch kind {
	case "tcp":
		host, port, err := net.SplitHostPort(address)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || host == "" || n < 1 || n > 65535 {
			c.errorf(h.at, "", `%q is not an address; write it as "localhost:5432"`, address)
		}
	case "http":
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" {
			c.errorf(h.at, "", `%q is not a URL; write it as "localhost:8080/health"`, address)
		}
	}
	return h, nil
}

func declareService(c *call) (starlark.Value, error) {
	ld := c.env.loader
	name := arg[string](c, "name")
	decl := &spec.Service{
		Name: name, Args: argList[string](c, "args"), Env: arg[map[string]string](c, "env"),
		DependsOn: argList[string](c, "depends_on"), StopTimeout: arg[time.Duration](c, "stop_timeout"),
		Position: c.site.start().String(),
	}
	s := &service{opaque: opaque{"service", fmt.Sprintf("service(%q)", name)}, decl: decl, partial: c.bad}
	if name == "driver" || name == "localhost" || name == "squall" {
		c.errorf(c.where("name"), "", "the name is taken by Squall itself")
	}
	if before := ld.decls.service(name); before != nil {
		c.firstUse("service", name, before.decl.Position)
		return before, nil
	}
	c.interfaces(s)
	c.binary(decl)
	if h := arg[*health](c, "healthcheck"); h != nil {
		check := h.decl
		decl.Health = &check
	}
	if dir := arg[string](c, "dir"); dir != "" {
		decl.Dir = ld.absolute(dir)
		if info, err := os.Stat(decl.Dir); err != nil || !info.IsDir() {
			c.errorf(c.where("dir"), "", "%q is not a directory", dir)
		}
	}
	slices.Sort(decl.DependsOn)
	decl.DependsOn = slices.Compact(decl.DependsOn)
	ld.decls.services = append(ld.decls.services, s)
	return s, nil
}

func (c *call) interfaces(s *service) {
	ld := c.env.loader
	for i, got := range argList[*iface](c, "interfaces") {
		at := c.site.at(c.site.valueExpr("", i+1))
		decl := *got.decl
		decl.Service = s.decl.Name
		info := ld.protocols[decl.Protocol]
		for _, other := range s.ifaces {
			if other.decl.Name == decl.Name {
				c.errorf(at, "", "interface %q is declared twice", decl.Name)
			}
			if other.decl.Port == decl.Port && ld.protocols[other.decl.Protocol].Datagram == info.Datagram {
				c.errorf(at, "", "interfaces %q and %q have the same port %d", other.decl.Name, decl.Name, decl.Port)
			}
		}
		if decl.Name == "name" {
			c.errorf(at, "", `an interface can't have the name "name"`)
		}
		v := &iface{opaque: opaque{"interface", decl.Service + "." + decl.Name}, decl: &decl}
		v.methods = methodEntries(info, v)
		s.ifaces = append(s.ifaces, v)
		s.decl.Interfaces = append(s.decl.Interfaces, &decl)
	}
}

// binary finds the program. Whether it can run is known before anything starts.
func (c *call) binary(decl *spec.Service) {
	ld := c.env.loader
	name := arg[string](c, "binary")
	if name == "" {
		if !c.has("binary") && !c.bad {
			c.errorf(c.site.span(), "", "needs binary=")
		} else if c.has("binary") {
			c.errorf(c.where("binary"), "", "binary is empty")
		}
		return
	}
	if !strings.Contains(name, "/") {
		local := filepath.Join(ld.root, name)
		if info, err := os.Stat(local); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			decl.Binary = local
			return
		}
		found, err := exec.LookPath(name)
		if err != nil {
			c.errorf(c.where("binary"), "", "no program %q beside the spec or on PATH", name)
			return
		}
		decl.Binary, _ = filepath.Abs(found)
		return
	}
	decl.Binary = ld.absolute(name)
	info, err := os.Stat(decl.Binary)
	switch {
	case err != nil:
		c.errorf(c.where("binary"), "", "binary %q: %v", name, bareCause(err))
	case !info.Mode().IsRegular():
		c.errorf(c.where("binary"), "", "binary %q is not a file", name)
	case info.Mode()&0o111 == 0:
		c.errorf(c.where("binary"), "", "binary %q is not executable; chmod +x it", name)
	}
}

func bareCause(err error) error {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err
	}
	return err
}
