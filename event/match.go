package event

import "strings"

// Field returns a field by its name or, where there is none of that name, by its way through objects:
// "args.path". It is nil where there is none.
func (e Event) Field(name string) any { return At(e.Fields, name) }

// At does the same for an object.
func At(object map[string]any, name string) any {
	if v, found := object[name]; found {
		return v
	}
	outer, inner, dotted := strings.Cut(name, ".")
	next, ok := object[outer].(map[string]any)
	if !dotted || !ok {
		return nil
	}
	return At(next, inner)
}

// Glob reports whether text fits a pattern in which * stands for any text.
func Glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}
