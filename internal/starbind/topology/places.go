package topology

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/calls"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/spec"
)

// longestSocket is what fits into a socket's address, see unix(7).
const longestSocket = 107

// aSocketPath is where a Unix socket may be.
func aSocketPath() bind.Kind {
	return bind.Parsed("an absolute path", func(v starlark.Value) (any, error) {
		s, ok := starlark.AsString(v)
		switch {
		case !ok:
			return nil, nil
		case strings.HasPrefix(s, "@"):
			return nil, fmt.Errorf("%q is an abstract socket, which only its own service could see; give it a path", s)
		case len(s) > longestSocket:
			return nil, fmt.Errorf("the path of a socket has at most %d bytes, this one %d", longestSocket, len(s))
		}
		return s, insideWorld(s)
	})
}

// insideWorld says why a path is none at which a world may have something of its own.
func insideWorld(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
		return fmt.Errorf("%q must be an absolute path, without . and .. in it", p)
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if p == dir || strings.HasPrefix(p, dir+"/") && !strings.HasPrefix(p, "/dev/shm/") {
			return fmt.Errorf("%q is in %s, which is the machine's", p, dir)
		}
	}
	return nil
}

func declareInterface(c *call) (starlark.Value, error) {
	decl := &spec.Interface{
		Name: bind.Arg[string](c.Call, "name"), Protocol: bind.Arg[string](c.Call, "protocol"), Port: bind.Arg[int](c.Call, "port"),
		Path: bind.Arg[string](c.Call, "path"), Position: c.Site.Start().String(),
	}
	switch {
	case c.Bad:
	case c.Has("port") && c.Has("path"):
		c.Errorf(c.Where("path"), "", "has a port and a path; declare two interfaces")
	case !c.Has("port") && !c.Has("path"):
		c.Errorf(c.Site.Span(), "", "needs a port, or path= for a Unix socket")
	case c.Has("path") && c.topology().Protocols[decl.Protocol].Datagram:
		c.Errorf(c.Where("path"), "", "path= is for protocols over streams, and %s has datagrams", decl.Protocol)
	}
	return &Interface{Opaque: value.Named("interface", decl.Name), Decl: decl}, nil
}

func (c *call) interfaces(s *Service) {
	t := c.topology()
	for i, got := range bind.ArgList[*Interface](c.Call, "interfaces") {
		at := c.Site.At(c.Site.ValueExpr("", i+1))
		decl := *got.Decl
		decl.Service = s.Decl.Name
		info := t.Protocols[decl.Protocol]
		for _, other := range s.Interfaces {
			if other.Decl.Name == decl.Name {
				c.Errorf(at, "", "interface %q is declared twice", decl.Name)
			}
			if decl.Port != 0 && other.Decl.Port == decl.Port && t.Protocols[other.Decl.Protocol].Datagram == info.Datagram {
				c.Errorf(at, "", "interfaces %q and %q have the same port %d", other.Decl.Name, decl.Name, decl.Port)
			}
		}
		if decl.Name == "name" {
			c.Errorf(at, "", `an interface can't have the name "name"`)
		}
		if other := t.socket(decl.Path, s); other != nil {
			c.Errorf(at, "", "%s.%s has the socket %s already", other.Service, other.Name, decl.Path)
		}
		v := &Interface{Opaque: value.Named("interface", decl.Service+"."+decl.Name), Decl: &decl}
		v.methods = methodEntries(info, v)
		s.Interfaces = append(s.Interfaces, v)
		s.Decl.Interfaces = append(s.Decl.Interfaces, &decl)
	}
}

// socket returns the interface that has a socket, among those of all services and of one that is being declared.
func (t *Topology) socket(path string, more *Service) *spec.Interface {
	if path == "" {
		return nil
	}
	for _, s := range append(slices.Clone(t.services), more) {
		for _, i := range s.Interfaces {
			if i.Decl.Path == path {
				return i.Decl
			}
		}
	}
	return nil
}

// nondeterminisms are the words of nondeterministic_ok.
func nondeterminisms() []string {
	var out []string
	for _, n := range spec.Nondeterminisms() {
		out = append(out, string(n))
	}
	return out
}

// parts takes what else a service has.
func (c *call) parts(decl *spec.Service) {
	if seed := bind.Arg[starlark.Callable](c.Call, "seed"); seed != nil {
		decl.Seed = c.topology().Body(decl.Name+"/seed", seed)
	}
	if bind.Arg[bool](c.Call, "reuse") {
		c.Errorf(c.Site.KeywordSpan("reuse"), "", "reuse=True has nothing to reuse: each leaf starts the service anew in a world of its own, which takes milliseconds")
	}
	if c.Has("reset") {
		c.Errorf(c.Site.KeywordSpan("reset"), "", "reset= has nothing to undo: each leaf starts the service anew in a world of its own; what it needs then goes into seed=")
	}
	decl.Ops = bind.Arg[map[string]spec.Op](c.Call, "ops")
	for _, name := range bind.ArgList[string](c.Call, "nondeterministic_ok") {
		if n := spec.Nondeterminism(name); !slices.Contains(decl.NondeterministicOK, n) {
			decl.NondeterministicOK = append(decl.NondeterministicOK, n)
		}
	}
	c.volumes(decl)
}

// volumes takes what the world shows of the machine at another place.
func (c *call) volumes(decl *spec.Service) {
	t := c.topology()
	wanted := bind.Arg[map[string]string](c.Call, "volumes")
	at := c.Where("volumes")
	for _, from := range slices.Sorted(maps.Keys(wanted)) {
		to, mode, _ := strings.Cut(wanted[from], ":")
		v := spec.Volume{Service: decl.Name, Target: to, ReadOnly: mode == "ro", Position: decl.Position}
		switch mode {
		case "", "ro":
		case "rw":
			c.Errorf(at, "", `volumes: %q: nothing that a leaf writes reaches the machine, so there is no :rw; without it, writes stay in the leaf`, wanted[from])
			continue
		default:
			c.Errorf(at, "", `volumes: %q: what follows the path may be :ro only`, wanted[from])
			continue
		}
		if err := insideWorld(to); err != nil {
			c.Errorf(at, "", "volumes: %s", err)
			continue
		}
		source, err := filepath.EvalSymlinks(t.absolute(from))
		if err != nil {
			c.Errorf(at, "", "volumes: %q: %v", from, bareCause(err))
			continue
		}
		if info, err := os.Stat(source); err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			c.Errorf(at, "", "volumes: %q is neither a directory nor a file", from)
			continue
		}
		v.Source = source
		c.addVolume(v)
	}
}

// addVolume adds one unless it is there already. Services share their files, so no two things are at one place.
func (c *call) addVolume(v spec.Volume) {
	d := c.topology()
	i := slices.IndexFunc(d.volumes, func(other spec.Volume) bool { return other.Target == v.Target })
	if i < 0 {
		d.volumes = append(d.volumes, v)
		return
	}
	if other := d.volumes[i]; other.Source != v.Source || other.ReadOnly != v.ReadOnly {
		c.Errorf(c.Where("volumes"), "", "volumes: %s has something else at %s; the services of a leaf share their files", other.Service, v.Target)
	}
}

// opValue is what op() returns.
type opValue struct {
	value.Opaque
	decl spec.Op
}

// opEntries is the builtin that names calls.
func opEntries() []bind.Entry {
	return []bind.Entry{{
		Name: "op", Phases: bind.AtLoad, Pure: true,
		Doc:     "says which system calls make up something that a service does, for ops= of service(). The name may stand wherever that of a family of calls may, for this service.",
		Example: `ops = {"persist": op(syscalls = ["write", "fsync"], path = "/data/*.wal")}`,
		Params: []bind.Param{
			{Name: "syscalls", Kind: bind.List(calls.Call()), Required: true, Doc: "families of calls, or calls"},
			{Name: "path", Kind: calls.Glob(), Preset: "any", Doc: `glob over the file's absolute path; * does not cross /, ** does`},
		},
		Do: do(func(c *call) (starlark.Value, error) {
			o := spec.Op{Calls: bind.ArgList[string](c.Call, "syscalls"), Path: bind.Arg[string](c.Call, "path"), Position: c.Site.Start().String()}
			if len(o.Calls) == 0 && !c.Bad {
				c.Errorf(c.Where("syscalls"), "", "names no system call")
			}
			if o.Path != "" {
				observedCalls(c, o.Calls) // says where a call has no file
			}
			return &opValue{value.Named("op", "op(...)"), o}, nil
		}),
	}}
}

// anOpDict is a dict of op() by names that are no calls.
func anOpDict() bind.Kind {
	return kindOf("a dict {name: op()}", func(c *call, v starlark.Value, _ source.Span, e syntax.Expr) (any, bool) {
		d, ok := v.(*starlark.Dict)
		if !ok {
			return nil, false
		}
		out := map[string]spec.Op{}
		for i, item := range d.Items() {
			key, value := source.Element(e, i, d.Len()), syntax.Expr(nil)
			if entry, ok := key.(*syntax.DictEntry); ok {
				key, value = entry.Key, entry.Value
			}
			name, ok := starlark.AsString(item[0])
			op, isOp := item[1].(*opValue)
			switch {
			case item[1] == starlark.Value(bind.Broken{}):
				c.Bad = true
			case !ok || !bind.Word(name, "_") || strings.Contains(name, "-"):
				c.Errorf(c.Site.At(key), "", "ops: each key must be a name, as it stands before = in fault(): letters, digits and _")
			case slices.Contains(calls.Names(), name) || name == "syscalls":
				c.Errorf(c.Site.At(key), "", "ops: %q is the name of a system call already", name)
			case !isOp:
				c.Errorf(c.Site.At(value), "", "ops: the value of %q must be op(), got %s", name, bind.Describe(item[1]))
			default:
				out[name] = op.decl
			}
		}
		return out, true
	})
}
