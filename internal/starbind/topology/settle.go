package topology

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/spec"
)

// placeholder stands in a string for a part of an address.
type placeholder struct {
	ref         *reference
	iface, part string
}

// The brackets of a placeholder are characters that no address, path or flag has.
const (
	placeOpen  = "\u27e6squall:"
	placeClose = "\u27e7"
)

func (t *Topology) placeholder(r *reference, iface, part string) string {
	t.places = append(t.places, placeholder{r, iface, part})
	return placeOpen + strconv.Itoa(len(t.places)-1) + placeClose
}

// Service returns a declared service.
func (t *Topology) Service(name string) *Service {
	for _, s := range t.services {
		if s.Decl.Name == name {
			return s
		}
	}
	return nil
}

func (t *Topology) names() []string {
	var names []string
	for _, s := range t.services {
		names = append(names, s.Decl.Name)
	}
	return names
}

// fillService puts addresses in the place of their placeholders.
func (t *Topology) fillService(s *Service) {
	for i, a := range s.Decl.Args {
		s.Decl.Args[i] = t.fill(a)
	}
	for k, v := range s.Decl.Env {
		s.Decl.Env[k] = t.fill(v)
	}
	if s.Decl.Health != nil {
		s.Decl.Health.Address = t.fill(s.Decl.Health.Address)
	}
}

func (t *Topology) fill(text string) string {
	if !strings.Contains(text, placeOpen) {
		return text
	}
	return regexp.MustCompile(placeOpen+"([0-9]+)"+placeClose).ReplaceAllStringFunc(text, func(m string) string {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(m, placeOpen), placeClose))
		if err != nil || n >= len(t.places) {
			return m
		}
		return t.fillPlace(t.places[n])
	})
}

func (t *Topology) fillPlace(p placeholder) string {
	s := t.Service(p.ref.name)
	if s == nil {
		return "" // reported with the reference itself
	}
	var names []string
	for _, i := range s.Interfaces {
		names = append(names, i.Decl.Name)
		if i.Decl.Name == p.iface || (p.iface == "" && len(s.Interfaces) == 1) {
			part, ok := addressPart(p.part, i.Decl)
			if !ok {
				t.Report(p.ref.at, "", "ref: %s", noPart(i.Decl, p.part))
			}
			return part
		}
	}
	if p.iface == "" {
		t.Report(p.ref.at, "", "ref: service %q has %s; name the one whose %s is meant", p.ref.name, bind.Count(len(names), "interface"), p.part)
		return ""
	}
	t.Report(p.ref.at, source.Nearest(p.iface, names), "ref: service %q has no interface %q", p.ref.name, p.iface)
	return ""
}

// checkCycles reports services that wait for each other.
func (t *Topology) checkCycles() {
	const visiting, visited = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(s *Service)
	visit = func(s *Service) {
		state[s.Decl.Name] = visiting
		path = append(path, s.Decl.Name)
		for _, name := range s.Decl.DependsOn {
			next := t.Service(name)
			switch {
			case next == nil:
			case state[name] == visiting:
				from := slices.Index(path, name)
				t.Report(t.Index.CallAt(next.Decl.Position), "", "service %q: depends_on goes in a circle: %s", name,
					strings.Join(append(slices.Clone(path[from:]), name), " -> "))
			case state[name] == 0:
				visit(next)
			}
		}
		path = path[:len(path)-1]
		state[s.Decl.Name] = visited
	}
	for _, s := range t.services {
		if state[s.Decl.Name] == 0 {
			visit(s)
		}
	}
}

// checkVariables reports interfaces whose addresses would stand in one variable.
func (t *Topology) checkVariables() {
	seen := map[string]*spec.Interface{}
	for _, s := range t.services {
		for _, i := range s.Interfaces {
			name := s.Decl.Variable(i.Decl)
			if other := seen[name]; other != nil && other.Service != i.Decl.Service {
				t.Report(t.Index.CallAt(s.Decl.Position), "", "service %q: %s.%s and %s.%s would both be %sADDR in the environment; rename one",
					s.Decl.Name, other.Service, other.Name, i.Decl.Service, i.Decl.Name, name)
			}
			seen[name] = i.Decl
		}
	}
}
