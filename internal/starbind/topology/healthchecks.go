package topology

import (
	"cmp"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/spec"
)

// healthEntries are the builtins that say how a service shows that it is ready.
func healthEntries() []bind.Entry {
	timeout := bind.Param{Name: "timeout", Kind: bind.Duration(), Preset: `"10s"`, Doc: "how long it may take"}
	return []bind.Entry{
		{
			Name: "ready", Phases: bind.AtLoad, Pure: true,
			Doc: "is a healthcheck: the service is ready when an interface of its answers the question of its protocol. That is SELECT 1 for postgres and PING for redis, with the credentials from the service's env, " +
				"and GET / for http, which any status below 500 answers. Of tcp it is a connection.",
			Example: `healthcheck = ready(timeout = "20s")`,
			Params: []bind.Param{
				{Name: "interface", Kind: bind.String(), Preset: "the first", Doc: "the name of the interface"},
				timeout,
			},
			Do: do(func(c *call) (starlark.Value, error) {
				return c.healthcheck("ready", bind.Arg[string](c.Call, "interface")), nil
			}),
		},
		{
			Name: "tcp", Phases: bind.AtLoad, Pure: true,
			Doc:     "is a healthcheck: the service is ready when it accepts a connection.",
			Example: `healthcheck = tcp("localhost:5432", timeout = "20s")`,
			Params: []bind.Param{
				{Name: "addr", Kind: bind.String(), Required: true, Doc: `host:port; localhost is the service's own`}, timeout,
			},
			Do: do(func(c *call) (starlark.Value, error) {
				return c.healthcheck("tcp", bind.Arg[string](c.Call, "addr")), nil
			}),
		},
		{
			Name: "http", Phases: bind.AtLoad, Pure: true,
			Doc:     "is a healthcheck: the service is ready when a GET is answered as expected.",
			Example: `healthcheck = http("localhost:8080/health", expect_status = 200, expect_body = "UP")`,
			Params: []bind.Param{
				{Name: "url", Kind: bind.String(), Required: true, Doc: `host:port/path, with or without http://; localhost is the service's own`}, timeout,
				{Name: "expect_status", Kind: someStatuses(), Preset: "200 to 399", Doc: "the status, or a list of them"},
				{Name: "expect_body", Kind: bind.String(), Preset: "any", Doc: "text that the answer's body contains"},
			},
			Do: do(func(c *call) (starlark.Value, error) {
				h := c.healthcheck("http", bind.Arg[string](c.Call, "url"))
				h.decl.Statuses, h.decl.Body = bind.Arg[[]int](c.Call, "expect_status"), bind.Arg[string](c.Call, "expect_body")
				return h, nil
			}),
		},
	}
}

// someStatuses is a status of HTTP, or a list of some.
func someStatuses() bind.Kind {
	one := bind.Int(100, 599)
	return kindOf("a status from 100 to 599, or a list of them", func(c *call, v starlark.Value, _ source.Span, e syntax.Expr) (any, bool) {
		if n, err := starlark.AsInt32(v); err == nil {
			return []int{n}, n >= 100 && n <= 599
		}
		got, ok := bind.List(one).Convert(c.Call, v, c.Site.At(e), e)
		if !ok {
			return nil, false
		}
		var out []int
		for _, n := range got.([]any) {
			out = append(out, n.(int))
		}
		if len(out) == 0 && !c.Bad {
			c.Errorf(c.Site.At(e), "", "expect_status is an empty list")
		}
		return out, true
	})
}

func aHealthcheck() bind.Kind {
	return bind.Scalar("ready(), tcp() or http()", func(v starlark.Value) (any, bool) {
		h, ok := v.(*health)
		return h, ok
	})
}

func (c *call) healthcheck(kind, address string) *health {
	if kind == "http" && !strings.Contains(address, "://") {
		address = "http://" + address
	}
	h := &health{value.Named("healthcheck", kind+"("+strconv.Quote(address)+")"), spec.Health{
		Kind: kind, Address: address, Timeout: bind.Arg[time.Duration](c.Call, "timeout"), Position: c.Site.Start().String(),
	}, c.Site.At(c.Site.ValueExpr(c.Entry.Params[0].Name, 0))}
	if strings.Contains(address, placeOpen) {
		return h
	}
	switch kind {
	case "tcp":
		host, port, err := net.SplitHostPort(address)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || host == "" || n < 1 || n > 65535 {
			c.Errorf(h.at, "", `%q is not an address; write it as "localhost:5432"`, address)
		}
	case "http":
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" {
			c.Errorf(h.at, "", `%q is not a URL; write it as "localhost:8080/health"`, address)
		}
	}
	return h
}

// health takes the healthcheck of a service.
func (c *call) health(s *Service) {
	h := bind.Arg[*health](c.Call, "healthcheck")
	if h == nil {
		return
	}
	check := h.decl
	s.Decl.Health = &check
	if check.Kind != "ready" || s.partial {
		return
	}
	var names []string
	for _, i := range s.Interfaces {
		if names = append(names, i.Decl.Name); i.Decl.Name != cmp.Or(check.Address, i.Decl.Name) {
			continue
		}
		if c.topology().Protocols[i.Decl.Protocol].Datagram {
			c.Report(h.at, "", "ready: "+i.Decl.Protocol+" has no question that every server answers; without a healthcheck, the service is ready when it has the port")
		}
		s.Decl.Health.Address = i.Decl.Name
		return
	}
	if len(names) == 0 {
		c.Report(h.at, "", "ready: it asks an interface, and "+s.Decl.Name+" has none")
		return
	}
	c.Report(h.at, source.Nearest(check.Address, names), "ready: service "+strconv.Quote(s.Decl.Name)+" has no interface "+strconv.Quote(check.Address))
}
