package bundle

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/squallhq/squall/event"
)

// Query chooses events. Its terms must all hold. The zero Query chooses every event.
type Query struct{ terms []term }

// term compares one field with a value.
type term struct {
	field, op, value string
	number           float64
	numeric          bool
}

// queryOps are the comparisons, the longer ones first so that they are found before their beginnings.
func queryOps() []string { return []string{"!=", ">=", "<=", "=", ">", "<"} }

// ParseQuery reads terms such as kind=syscall, service=db, path=/data/*, status>=500 or errno!=ENOSPC. A
// field inside an object is reached by dots: fields.user.id. With = and != the value is a glob in which * stands for
// anything; with the others it is a number or, for the field at, a duration. kind (or type), service,
// seq and at are fields of every event.
func ParseQuery(terms []string) (Query, error) {
	var q Query
	for _, text := range terms {
		t, err := parseTerm(text)
		if err != nil {
			return Query{}, err
		}
		q.terms = append(q.terms, t)
	}
	return q, nil
}

func parseTerm(text string) (term, error) {
	at, op := -1, ""
	for _, o := range queryOps() {
		if i := strings.Index(text, o); i > 0 && (at < 0 || i < at) {
			at, op = i, o
		}
	}
	if at < 0 {
		return term{}, fmt.Errorf("bundle: query %q: write field=value, such as kind=syscall or status>=500", text)
	}
	t := term{field: strings.TrimSpace(text[:at]), op: op, value: strings.TrimSpace(text[at+len(op):])}
	if t.field == "type" {
		t.field = "kind"
	}
	if t.field == "kind" && t.ordered() {
		return term{}, fmt.Errorf("bundle: query %q: a kind can't be compared with %s", text, t.op)
	}
	if d, err := time.ParseDuration(t.value); err == nil && t.field == "at" {
		t.number, t.numeric = float64(d), true
	} else if n, err := strconv.ParseFloat(t.value, 64); err == nil && t.field != "at" {
		t.number, t.numeric = n, true
	}
	if t.ordered() && !t.numeric {
		return term{}, fmt.Errorf("bundle: query %q: %q is not a number%s", text, t.value, atHelp(t.field))
	}
	return t, nil
}

func atHelp(field string) string {
	if field == "at" {
		return ` with a unit; write at>1.5s`
	}
	return ""
}

// ordered tells that the term asks for more or less.
func (t term) ordered() bool { return t.op != "=" && t.op != "!=" }

// Match reports whether an event is chosen. A field that an event lacks matches no term, != included.
func (q Query) Match(e event.Event) bool {
	for _, t := range q.terms {
		v, ok := fieldOf(e, t.field)
		if !ok || !t.match(v) {
			return false
		}
	}
	return true
}

// Unknown returns the fields that the query asks for and none of the given events has.
func (q Query) Unknown(events []event.Event) []string {
	var out []string
	for _, t := range q.terms {
		seen := false
		for _, e := range events {
			if _, seen = fieldOf(e, t.field); seen {
				break
			}
		}
		if !seen {
			out = append(out, t.field)
		}
	}
	return out
}

func fieldOf(e event.Event, name string) (any, bool) {
	switch name {
	case "kind":
		return string(e.Kind), true
	case "service":
		return e.Service, true
	case "seq":
		return e.Seq, true
	case "at":
		return int64(e.At), true
	}
	var v any = e.Fields
	for part := range strings.SplitSeq(name, ".") {
		members, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = members[part]; !ok {
			return nil, false
		}
	}
	return v, true
}

func (t term) match(v any) bool {
	n, isNumber := number(v)
	if t.ordered() {
		if !isNumber {
			return false
		}
		c := cmp.Compare(n, t.number)
		return (t.op[0] == '>' && c > 0) || (t.op[0] == '<' && c < 0) || (len(t.op) == 2 && c == 0)
	}
	equal := isNumber && t.numeric && n == t.number || glob(t.value, fmt.Sprint(v))
	return equal == (t.op == "=")
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// glob matches a pattern in which * stands for anything. It takes time in proportion to the product of the lengths.
func glob(pattern, s string) bool {
	head, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return pattern == s
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	s = s[len(head):]
	parts := strings.Split(rest, "*")
	last := parts[len(parts)-1]
	for _, p := range parts[:len(parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, last)
}
