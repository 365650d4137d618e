package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/static"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/spec"
)

// Service is a declared service as a value. Its attributes are its interfaces; those of its only
// interface may be used directly.
type Service struct {
	value.Opaque
	Decl       *spec.Service
	Interfaces []*Interface
	// partial is set where an interface could not be made; a report says why.
	partial bool
}

// Attr returns the name, an interface, or an attribute of the only interface.
func (s *Service) Attr(name string) (starlark.Value, error) {
	if name == "name" {
		return starlark.String(s.Decl.Name), nil
	}
	for _, i := range s.Interfaces {
		if i.Decl.Name == name {
			return i, nil
		}
	}
	if len(s.Interfaces) == 1 {
		if v, err := s.Interfaces[0].Attr(name); v != nil || err != nil {
			return v, err
		}
	}
	if s.partial {
		return bind.Broken{}, nil
	}
	return nil, starlark.NoSuchAttrError(fmt.Sprintf("service %q has no interface or method %q", s.Decl.Name, name))
}

// AttrNames lists what Attr knows.
func (s *Service) AttrNames() []string {
	names := []string{"name"}
	if len(s.Interfaces) == 1 {
		names = s.Interfaces[0].AttrNames()
	}
	for _, i := range s.Interfaces {
		names = append(names, i.Decl.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Interface is an interface of a service as a value. Its attributes are its address and the methods of
// its protocol.
type Interface struct {
	value.Opaque
	Decl    *spec.Interface
	methods []*bind.Entry
}

// Attr returns a part of the address or a method. All parts are strings: they are put together
// with others in environments and arguments.
func (i *Interface) Attr(name string) (starlark.Value, error) {
	if v, ok := addressPart(name, i.Decl); ok {
		return starlark.String(v), nil
	}
	if slices.Contains(addressParts(), name) && i.Decl.Service != "" {
		return nil, starlark.NoSuchAttrError(noPart(i.Decl, name))
	}
	switch name {
	case "name":
		return starlark.String(i.Decl.Name), nil
	case "protocol":
		return starlark.String(i.Decl.Protocol), nil
	}
	for _, m := range i.methods {
		if m.Name == i.Decl.Service+"."+i.Decl.Name+"."+name {
			return &bind.Builtin{Entry: m}, nil
		}
	}
	return nil, starlark.NoSuchAttrError(fmt.Sprintf("interface %s.%s (%s) has no method %q", i.Decl.Service, i.Decl.Name, i.Decl.Protocol, name))
}

// AttrNames lists what Attr knows.
func (i *Interface) AttrNames() []string {
	names := append(addressParts(), "name", "protocol")
	if i.Decl.Path != "" {
		names = []string{"addr", "internal_addr", "path", "name", "protocol"}
	}
	for _, m := range i.methods {
		names = append(names, m.Name[strings.LastIndexByte(m.Name, '.')+1:])
	}
	slices.Sort(names)
	return names
}

func (i *Interface) target() spec.Target {
	return spec.Target{Service: i.Decl.Service, Interface: i.Decl.Name, Protocol: i.Decl.Protocol, Port: i.Decl.Port, Path: i.Decl.Path}
}

// FixedAttrs says that the attributes are known before anything runs.
func (s *Service) FixedAttrs() {}

// FixedAttrs says that the attributes are known before anything runs.
func (i *Interface) FixedAttrs() {}

// FixedAttrs says that the attributes are known before anything runs.
func (r *reference) FixedAttrs() {}

// Target returns the service.
func (s *Service) Target() (service, iface string) { return s.Decl.Name, "" }

// Target returns the interface.
func (i *Interface) Target() (service, iface string) { return i.Decl.Service, i.Decl.Name }

// Target returns the service.
func (r *reference) Target() (service, iface string) { return r.name, "" }

// Target returns the interface.
func (r *interfaceReference) Target() (service, iface string) { return r.service.name, r.name }

func addressParts() []string { return []string{"addr", "internal_addr", "host", "port"} }

// addressPart is one part of an address. Services are reached by their names, from each other and
// from the scenario alike.
func addressPart(part string, i *spec.Interface) (string, bool) {
	port := strconv.Itoa(i.Port)
	if i.Path != "" {
		return i.Path, part == "path" || part == "addr" || part == "internal_addr"
	}
	switch part {
	case "addr", "internal_addr":
		return i.Service + ":" + port, true
	case "host":
		return i.Service, true
	case "port":
		return port, true
	}
	return "", false
}

// noPart says why an interface does not have a part of an address.
func noPart(i *spec.Interface, part string) string {
	if i.Path != "" {
		return fmt.Sprintf("%s.%s is the Unix socket %s, which has no %s; its addr is the path", i.Service, i.Name, i.Path, part)
	}
	return fmt.Sprintf("%s.%s is at port %d and has no %s", i.Service, i.Name, i.Port, part)
}

// reference is a service by name, perhaps declared later.
type reference struct {
	value.Opaque
	in   *Topology
	name string
	at   source.Span
}

// Attr returns an interface by name or, for the only interface, a part of its address.
func (r *reference) Attr(name string) (starlark.Value, error) {
	if name == "name" {
		return starlark.String(r.name), nil
	}
	if slices.Contains(addressParts(), name) {
		return starlark.String(r.in.placeholder(r, "", name)), nil
	}
	return &interfaceReference{value.Named("interface", "ref("+strconv.Quote(r.name)+")."+name), r, name}, nil
}

// AttrNames lists the parts that are known without the service.
func (r *reference) AttrNames() []string { return append(addressParts(), "name") }

// interfaceReference is an interface of a service that is perhaps declared later.
type interfaceReference struct {
	value.Opaque
	service *reference
	name    string
}

// Attr returns a part of the address, to be filled in when all is declared.
func (r *interfaceReference) Attr(name string) (starlark.Value, error) {
	if name == "path" || slices.Contains(addressParts(), name) {
		return starlark.String(r.service.in.placeholder(r.service, r.name, name)), nil
	}
	return nil, nil
}

// AttrNames lists what Attr knows.
func (r *interfaceReference) AttrNames() []string { return append(addressParts(), "path") }

// health is a healthcheck as a value.
type health struct {
	value.Opaque
	decl spec.Health
	at   source.Span
}

var (
	_ static.Fixed      = (*Service)(nil)
	_ static.Fixed      = (*Interface)(nil)
	_ static.Fixed      = (*reference)(nil)
	_ starlark.HasAttrs = (*interfaceReference)(nil)
	_ static.Target     = (*interfaceReference)(nil)
)
