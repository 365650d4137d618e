package bind

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/source"
)

// Names of kinds that binding treats in a special way.
const (
	nameOfName  = "a name"
	nameOfValue = "a value"
)

// Scalar makes a kind of a conversion that needs nothing but the value.
func Scalar(name string, fn func(v starlark.Value) (any, bool)) Kind {
	return Kind{name, func(_ *Call, v starlark.Value, _ source.Span, _ syntax.Expr) (any, bool) { return fn(v) }}
}

// Parsed makes a kind of a conversion that says what is wrong.
func Parsed(name string, fn func(v starlark.Value) (any, error)) Kind {
	return Kind{name, func(c *Call, v starlark.Value, at source.Span, _ syntax.Expr) (any, bool) {
		got, err := fn(v)
		if err != nil {
			c.Errorf(at, "", "%s", err)
			return nil, false
		}
		return got, got != nil
	}}
}

// String is a string.
func String() Kind {
	return Scalar("a string", func(v starlark.Value) (any, bool) {
		s, ok := starlark.AsString(v)
		return s, ok
	})
}

// Value is any value.
func Value() Kind {
	return Scalar(nameOfValue, func(v starlark.Value) (any, bool) { return v, true })
}

// Or takes what fn takes, and otherwise what another kind takes.
func Or(name string, fn func(v starlark.Value) (any, bool), other Kind) Kind {
	return Kind{name, func(c *Call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
		if got, ok := fn(v); ok {
			return got, true
		}
		return other.Convert(c, v, at, e)
	}}
}

// Bool is True or False.
func Bool() Kind {
	return Scalar("True or False", func(v starlark.Value) (any, bool) {
		b, ok := v.(starlark.Bool)
		return bool(b), ok
	})
}

// Name is for what becomes part of file names, LeafIDs and, for services, host names.
func Name() Kind {
	return Parsed(nameOfName, func(v starlark.Value) (any, error) {
		s, ok := starlark.AsString(v)
		if !ok {
			return nil, nil
		}
		if !Word(s, "") {
			return nil, fmt.Errorf("%q is not a name: a letter, then letters, digits, _ and -, at most 63", s)
		}
		return s, nil
	})
}

// Int is an integer from low to high; math.MaxInt32 is no upper bound.
func Int(low, high int) Kind {
	name := fmt.Sprintf("an integer from %d to %d", low, high)
	if high == math.MaxInt32 {
		name = fmt.Sprintf("an integer of at least %d", low)
	}
	return Scalar(name, func(v starlark.Value) (any, bool) {
		if _, ok := v.(starlark.Int); !ok {
			return nil, false
		}
		i, err := starlark.AsInt32(v)
		return i, err == nil && i >= low && i <= high
	})
}

// Duration is a string with a unit, or what duration() returned.
func Duration() Kind {
	return Parsed(`a duration such as "200ms"`, func(v starlark.Value) (any, error) {
		switch v := v.(type) {
		case startime.Duration:
			return time.Duration(v), nil
		case starlark.String:
			return parseDuration(string(v))
		case starlark.Int, starlark.Float:
			return nil, fmt.Errorf("a duration needs a unit: %q or %q", v.String()+"ms", v.String()+"s")
		}
		return nil, nil
	})
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		return 0, fmt.Errorf(`%q is not a duration; write it as "200ms", "1.5s" or "2m"`, s)
	}
	if d < 0 {
		return 0, fmt.Errorf("a duration can't be negative: %q", s)
	}
	return d, nil
}

// Probability is in (0, 1].
func Probability() Kind {
	return Parsed(`a probability such as "10%" or 0.1`, func(v starlark.Value) (any, error) {
		var p float64
		switch v := v.(type) {
		case starlark.String:
			text, percent := strings.CutSuffix(strings.TrimSpace(string(v)), "%")
			f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil || !percent {
				return nil, fmt.Errorf(`%s is not a probability; write it as "10%%" or 0.1`, v)
			}
			p = f / 100
		case starlark.Float:
			p = float64(v)
		case starlark.Int:
			p = float64(v.Float())
		default:
			return nil, nil
		}
		if !(p > 0 && p <= 1) {
			return nil, fmt.Errorf("probability %s is outside (0, 1]", v)
		}
		return p, nil
	})
}

// Rate converts to bytes per second.
func Rate() Kind {
	return Parsed(`a rate such as "1mbit" or "2MB/s"`, func(v starlark.Value) (any, error) {
		s, ok := starlark.AsString(v)
		if !ok {
			if _, number := v.(starlark.Int); number {
				return nil, fmt.Errorf(`a rate needs a unit: "%smbit" or "%sMB/s"`, v, v)
			}
			return nil, nil
		}
		return parseRate(s)
	})
}

func parseRate(s string) (int64, error) {
	m := regexp.MustCompile(`^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+(?:/s)?)\s*$`).FindStringSubmatch(s)
	bad := fmt.Errorf(`%q is not a rate; write it as "1mbit", "512kbit", "2MB/s" or "64KiB/s"`, s)
	if m == nil {
		return 0, bad
	}
	units := map[string]float64{
		"bit": 1. / 8, "kbit": 1e3 / 8, "mbit": 1e6 / 8, "gbit": 1e9 / 8,
		"b/s": 1, "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9,
		"kib/s": 1 << 10, "mib/s": 1 << 20, "gib/s": 1 << 30,
	}
	unit := strings.ToLower(m[2])
	per, ok := units[unit]
	if !ok {
		per, ok = units[strings.TrimSuffix(unit, "/s")]
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if !ok || err != nil {
		return 0, bad
	}
	if rate := n * per; rate >= 1 && rate < math.MaxInt64 {
		return int64(rate), nil
	}
	return 0, fmt.Errorf("a rate of %q is less than a byte a second, or too large", s)
}

// Function is a function that can be called with n positional arguments.
func Function(n int) Kind {
	return Parsed("a function", func(v starlark.Value) (any, error) {
		fn, ok := v.(starlark.Callable)
		if !ok {
			return nil, nil
		}
		if err := Arity(fn, n); err != nil {
			return nil, err
		}
		return fn, nil
	})
}

// Arity says why a function can't be called with n positional arguments.
func Arity(v starlark.Callable, n int) error {
	fn, ok := v.(*starlark.Function)
	if !ok {
		return nil
	}
	positional := fn.NumParams() - fn.NumKwonlyParams()
	if fn.HasKwargs() {
		positional--
	}
	if fn.HasVarargs() {
		positional--
	}
	required := 0
	for i := range positional {
		if fn.ParamDefault(i) == nil {
			required++
		}
	}
	if n >= required && (n <= positional || fn.HasVarargs()) {
		return nil
	}
	return fmt.Errorf("%s takes %s, but is called with %d", fn.Name(), Count(positional, "parameter"), n)
}

// List is a list or tuple whose elements have kind k.
func List(k Kind) Kind {
	return Kind{"a list, each element " + k.Name, func(c *Call, v starlark.Value, _ source.Span, e syntax.Expr) (any, bool) {
		seq, ok := v.(starlark.Sequence)
		if _, dict := v.(*starlark.Dict); dict || !ok {
			return nil, false
		}
		list := []any{}
		i, n := 0, seq.Len()
		for item := range starlark.Elements(seq) {
			if got, ok := c.Convert(k, "each element", item, source.Element(e, i, n)); ok {
				list = append(list, got)
			}
			i++
		}
		return list, true
	}}
}

// StringDict is a dict of strings; ints, bools and the like are written out.
func StringDict() Kind {
	return Kind{"a dict of strings", func(c *Call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
		d, ok := v.(*starlark.Dict)
		if !ok {
			return nil, false
		}
		m := map[string]string{}
		for i, item := range d.Items() {
			where := c.Site.At(source.Element(e, i, d.Len()))
			key, ok := starlark.AsString(item[0])
			if !ok {
				c.Errorf(where, "", "each key must be a string, got %s", Describe(item[0]))
				continue
			}
			switch value := item[1].(type) {
			case starlark.String:
				m[key] = string(value)
			case starlark.Int, starlark.Float, starlark.Bool:
				m[key] = value.String()
			case Broken:
				c.Bad = true
			default:
				c.Errorf(where, "", "the value of %q must be a string, got %s", key, Describe(value))
			}
		}
		return m, true
	}}
}

// Choice is one of some words.
func Choice(words ...string) Kind {
	return Kind{"one of " + strings.Join(words, ", "), func(c *Call, v starlark.Value, at source.Span, _ syntax.Expr) (any, bool) {
		s, ok := starlark.AsString(v)
		if !ok {
			return nil, false
		}
		for _, w := range words {
			if w == s {
				return s, true
			}
		}
		c.Errorf(at, source.Nearest(s, words), "%q is not one of %s", s, strings.Join(words, ", "))
		return nil, false
	}}
}

// maxWord bounds names, so that they fit where file names and host names go.
const maxWord = 63

// Word reports whether a name begins with a letter, or one of first, and goes on with letters, digits,
// _ and -. A specification of a thousand scenarios is loaded anew for each leaf, so this has to be quick.
func Word(name, first string) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 && !strings.ContainsRune(first, r) || i > 0 && !strings.ContainsRune("0123456789_-", r)) {
			return false
		}
	}
	return name != "" && len(name) <= maxWord
}
