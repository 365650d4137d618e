// Package leak counts what services do that a level of determinism does not hold: where they take chance from.
package leak

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// categories are the sources of chance that can be seen. Files are not among them: a service sees none but its world's.
func categories() []spec.Nondeterminism {
	return []spec.Nondeterminism{spec.Clock, spec.Random, spec.DNS, spec.OutsideIO, spec.Children}
}

// Word is a source's name in a specification's allow.
func Word(n spec.Nondeterminism) string {
	switch n {
	case spec.OutsideIO:
		return "network"
	case spec.ForeignFS:
		return "files"
	}
	return string(n)
}

// Book counts for all services of a leaf.
type Book struct {
	contract spec.Determinism
	// blind says why no clock is watched here; "" where clocks are.
	blind    string
	services []*Counts
	closed   atomic.Bool
	broken   atomic.Bool
}

// Counts counts for one service. Counting is cheap, since a program may ask for chance in a loop.
type Counts struct {
	book    *Book
	service string
	// allowed are the sources that the service may use.
	allowed []spec.Nondeterminism
	watched map[spec.Nondeterminism]*count
}

type count struct {
	n  atomic.Int64
	mu sync.Mutex
	// first says what was seen first, in the event witness.
	first   string
	witness int64
}

// NewBook returns the book of a leaf. With blind, which says why, clocks are not looked at.
func NewBook(contract spec.Determinism, services []*spec.Service, blind string) *Book {
	b := &Book{contract: contract, blind: blind}
	for _, s := range services {
		c := &Counts{book: b, service: s.Name, allowed: s.NondeterministicOK, watched: map[spec.Nondeterminism]*count{}}
		for _, n := range categories() {
			allowed := slices.Contains(contract.Allow, n) || slices.Contains(s.NondeterministicOK, n)
			if contract.Level != "L0" && !allowed && (n != spec.Clock || blind == "") {
				c.watched[n] = &count{}
			}
		}
		b.services = append(b.services, c)
	}
	return b
}

// Of returns the counts of a service.
func (b *Book) Of(service string) *Counts {
	for _, c := range b.services {
		if c.service == service {
			return c
		}
	}
	return &Counts{book: b, service: service}
}

// Strict tells that a leak fails the leaf.
func (b *Book) Strict() bool { return b.contract.Strict }

// Broken tells that a leak has failed the leaf.
func (b *Book) Broken() bool { return b != nil && b.broken.Load() }

// Reasons are what the leaks mean for the verdict: nothing, unless the contract is strict.
func (b *Book) Reasons() []verdict.Reason {
	var out []verdict.Reason
	for _, r := range b.Records() {
		if b.contract.Strict && r.Witness > 0 {
			out = append(out, verdict.Reason{Code: verdict.DeterminismLeak, Detail: r.First, Subject: r.Service, Witness: r.Witness})
		}
	}
	return out
}

// Close ends the counting: what services do when they are told to end is no part of the leaf.
func (b *Book) Close() { b.closed.Store(true) }

// Watches reports whether a source counts as a leak.
func (c *Counts) Watches(n spec.Nondeterminism) bool { return c.watched[n] != nil }

// Add counts one use of a source and reports whether it is the first, which the caller then records with First.
func (c *Counts) Add(n spec.Nondeterminism) bool {
	w := c.watched[n]
	return w != nil && !c.book.closed.Load() && w.n.Add(1) == 1
}

// First says what the first use was, and which event records it.
func (c *Counts) First(n spec.Nondeterminism, what string, witness int64) {
	w := c.watched[n]
	if w == nil {
		return
	}
	w.mu.Lock()
	w.first, w.witness = what, witness
	w.mu.Unlock()
	if c.book.contract.Strict {
		c.book.broken.Store(true)
	}
}

// Records are the leaks so far, by category and service.
func (b *Book) Records() []bundle.Leak {
	var out []bundle.Leak
	for _, n := range categories() {
		for _, c := range b.services {
			w := c.watched[n]
			if w == nil || w.n.Load() == 0 {
				continue
			}
			w.mu.Lock()
			out = append(out, bundle.Leak{Service: c.service, Category: Word(n), Count: w.n.Load(), First: w.first, Witness: w.witness})
			w.mu.Unlock()
		}
	}
	return out
}

// Level is the level that the leaf achieved, and HELD or DEGRADED with the reason.
func (b *Book) Level() (level, reason string) {
	if b.contract.Level == "L0" {
		return "L0", "HELD"
	}
	parts := b.unseen()
	byCategory := map[string][]string{}
	for _, r := range b.Records() {
		times := "once"
		if r.Count > 1 {
			times = fmt.Sprintf("%d times", r.Count)
		}
		byCategory[r.Category] = append(byCategory[r.Category], r.Service+" "+times)
	}
	for _, n := range categories() {
		if who := byCategory[Word(n)]; len(who) > 0 {
			parts = append(parts, Word(n)+": "+strings.Join(who, ", "))
		}
	}
	if len(parts) == 0 {
		return "L1", "HELD"
	}
	return "L1", "DEGRADED(" + strings.Join(parts, "; ") + ")"
}

// unseen says what a service may use without being seen, where that is not allowed anyway.
func (b *Book) unseen() []string {
	var out, vdso []string
	for _, n := range []spec.Nondeterminism{spec.Clock, spec.Random} {
		needed := slices.ContainsFunc(b.services, func(c *Counts) bool { return c.Watches(n) || n == spec.Clock && b.blindTo(c) })
		switch {
		case !needed:
		case n == spec.Clock && b.blind != "":
			out = append(out, "clock: not looked at, "+b.blind)
		default:
			vdso = append(vdso, Word(n))
		}
	}
	if len(vdso) > 0 {
		out = append(out, strings.Join(vdso, " and ")+": what the vDSO answers is not seen")
	}
	return out
}

// blindTo tells that a service's clocks would be watched if that were possible.
func (b *Book) blindTo(c *Counts) bool {
	return b.blind != "" && !slices.Contains(b.contract.Allow, spec.Clock) && !slices.Contains(c.allowed, spec.Clock)
}
