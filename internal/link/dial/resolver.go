package dial

import (
	"net/netip"

	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// Action is what becomes of a connection.
type Action int

// The actions.
const (
	// Native lets the kernel carry the call out.
	Native Action = iota
	// Forget lets the kernel dissolve the socket's association.
	Forget
	// Link leads to a declared interface.
	Link
	// Refuse answers with Route.Errno.
	Refuse
)

// Error numbers of Linux that a Route may hold.
const (
	errnoNetUnreach  = 101
	errnoConnRefused = 111
)

// Route is the Resolver's answer.
type Route struct {
	Action Action
	// Server, Interface and Port are set for Link.
	Server, Interface string
	Port              int
	// Errno and Code are set for Refuse.
	Errno int
	Code  verdict.Code
}

// Resolver knows which address leads where. It is immutable.
type Resolver struct {
	byAddr map[netip.Addr]*spec.Service
	byName map[string]*spec.Service
	byPort map[int][]*spec.Interface
}

// NewResolver returns the resolver of a system. The n-th service, counting from 1, has the
// address ServiceAddr(n).
func NewResolver(services []*spec.Service) *Resolver {
	r := &Resolver{
		byAddr: make(map[netip.Addr]*spec.Service),
		byName: make(map[string]*spec.Service),
		byPort: make(map[int][]*spec.Interface),
	}
	for i, s := range services {
		r.byAddr[ServiceAddr(i+1)] = s
		r.byName[s.Name] = s
		for _, face := range s.Interfaces {
			if face.Path != "" {
				continue // a Unix socket is reached by its path
			}
			r.byPort[face.Port] = append(r.byPort[face.Port], face)
		}
	}
	return r
}

// Resolve says where client gets to at an address. own reports whether client itself listens at
// a port; it is asked only where that matters. With datagram, what nothing declares is left to the
// kernel: connecting such a socket sends nothing, and programs do it to learn their own address.
func (r *Resolver) Resolve(client string, to Addr, datagram bool, own func(port int) bool) Route {
	switch to.Family {
	case familyUnspec:
		return Route{Action: Forget}
	case familyINET, familyINET6:
	default:
		return Route{Action: Native}
	}
	ip, port := to.AddrPort.Addr().Unmap().WithZone(""), int(to.AddrPort.Port())
	if !to.AddrPort.IsValid() || port == 0 {
		return Route{Action: Native}
	}
	route := r.lookup(client, ip, port, own)
	if datagram && route.Code == verdict.UndeclaredAddress {
		return Route{Action: Native}
	}
	return route
}

func (r *Resolver) lookup(client string, ip netip.Addr, port int, own func(port int) bool) Route {
	if s := r.byAddr[ip]; s != nil {
		if s.Name == client {
			return Route{Action: Native}
		}
		if face := interfaceAt(s, port); face != nil {
			return linkTo(face)
		}
		return Route{Action: Refuse, Errno: errnoConnRefused, Code: verdict.UndeclaredAddress}
	}
	// Linux takes the unspecified address for the loopback one.
	if !ip.IsLoopback() && !ip.IsUnspecified() {
		return Route{Action: Refuse, Errno: errnoNetUnreach, Code: verdict.UndeclaredAddress}
	}
	if own(port) {
		return Route{Action: Native}
	}
	// A port that the program declares is its own also while it does not listen yet.
	if s := r.byName[client]; s != nil && interfaceAt(s, port) != nil {
		return Route{Action: Native}
	}
	localhost := ip == loopback4() || ip == loopback6() || ip.IsUnspecified()
	faces := r.byPort[port]
	switch {
	case !localhost || len(faces) == 0:
		return Route{Action: Refuse, Errno: errnoConnRefused, Code: verdict.UndeclaredAddress}
	case len(faces) > 1:
		return Route{Action: Refuse, Errno: errnoConnRefused, Code: verdict.AmbiguousLocalhost}
	}
	return linkTo(faces[0])
}

func linkTo(face *spec.Interface) Route {
	return Route{Action: Link, Server: face.Service, Interface: face.Name, Port: face.Port}
}

func interfaceAt(s *spec.Service, port int) *spec.Interface {
	for _, face := range s.Interfaces {
		if face.Port == port {
			return face
		}
	}
	return nil
}
