package postgres

import (
	"slices"
	"strings"
)

// canonical brings SQL, and patterns of it, into one form: words in lower case, one space between tokens and none
// around * and dots, no comments, ? for every parameter, no semicolon at the end. Literals and quoted
// names stay as they are. * takes no spaces so that a pattern's * stands for anything, and nothing, wherever it is.
func canonical(sql string) string {
	var b strings.Builder
	var tokens scanner
	tokens.text = sql
	last := ""
	ends := 0
	for {
		tok := tokens.next()
		if tok == "" {
			return b.String()[:b.Len()-ends]
		}
		before := b.Len()
		if apart(last, tok) {
			b.WriteByte(' ')
		}
		b.WriteString(tok)
		if last = tok; tok == ";" {
			ends += b.Len() - before
		} else {
			ends = 0
		}
	}
}

// apart says whether a space stands between two tokens.
func apart(last, tok string) bool {
	glued := func(s string) bool { return s == "*" || s == "." }
	switch {
	case last == "":
		return false
	case strings.HasSuffix(last, "/") && tok == "*":
		// Together they would begin a comment.
		return true
	}
	return !glued(last) && !glued(tok)
}

// scanner cuts SQL into tokens in their canonical form.
type scanner struct {
	text string
	at   int
}

// next returns a token, or "" at the end.
func (s *scanner) next() string {
	s.skip()
	if s.at == len(s.text) {
		return ""
	}
	begin := s.at
	c := s.text[s.at]
	switch {
	case c == '\'' || c == '"':
		s.quoted(c, false)
	case c == '$' && s.dollar():
	case c == '$' && s.digit(s.at+1):
		for s.at++; s.digit(s.at); s.at++ {
		}
		return "?"
	case word(c):
		return s.word()
	case operator(c):
		for s.at < len(s.text) && operator(s.text[s.at]) && (s.at == begin || !s.comment()) {
			s.at++
		}
	default:
		s.at++
	}
	return s.text[begin:s.at]
}

// word reads a word. A string with escapes is one together with its E.
func (s *scanner) word() string {
	begin := s.at
	for s.at < len(s.text) && (word(s.text[s.at]) || s.text[s.at] == '$') {
		s.at++
	}
	name := lower(s.text[begin:s.at])
	if name == "e" && s.at < len(s.text) && s.text[s.at] == '\'' {
		from := s.at
		s.quoted('\'', true)
		return name + s.text[from:s.at]
	}
	return name
}

// lower folds ASCII only: what PostgreSQL does with other letters depends on its locale.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// skip passes over white space and comments.
func (s *scanner) skip() {
	for s.at < len(s.text) {
		switch {
		case strings.IndexByte(" \t\r\n\f\v", s.text[s.at]) >= 0:
			s.at++
		case strings.HasPrefix(s.text[s.at:], "--"):
			end := strings.IndexByte(s.text[s.at:], '\n')
			if end < 0 {
				end = len(s.text) - s.at
			}
			s.at += end
		case strings.HasPrefix(s.text[s.at:], "/*"):
			s.block()
		default:
			return
		}
	}
}

// block passes over a comment, in which others may be nested.
func (s *scanner) block() {
	depth := 0
	for s.at < len(s.text) {
		switch {
		case strings.HasPrefix(s.text[s.at:], "/*"):
			depth++
			s.at += 2
		case strings.HasPrefix(s.text[s.at:], "*/"):
			s.at += 2
			if depth--; depth == 0 {
				return
			}
		default:
			s.at++
		}
	}
}

func (s *scanner) comment() bool {
	return strings.HasPrefix(s.text[s.at:], "--") || strings.HasPrefix(s.text[s.at:], "/*")
}

// quoted passes over what stands in quotes, which are doubled inside.
func (s *scanner) quoted(quote byte, escapes bool) {
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '\\' && escapes && s.at+1 < len(s.text):
			s.at++
		case c == quote && s.at+1 < len(s.text) && s.text[s.at+1] == quote:
			s.at++
		case c == quote:
			s.at++
			return
		}
	}
}

// dollar passes over $tag$ … $tag$, if one begins here.
func (s *scanner) dollar() bool {
	end := s.at + 1
	for end < len(s.text) && word(s.text[end]) && (end > s.at+1 || !s.digit(end)) {
		end++
	}
	if end >= len(s.text) || s.text[end] != '$' {
		return false
	}
	tag := s.text[s.at : end+1]
	s.at = end + 1
	if i := strings.Index(s.text[s.at:], tag); i >= 0 {
		s.at += i + len(tag)
	} else {
		s.at = len(s.text)
	}
	return true
}

func (s *scanner) digit(i int) bool {
	return i < len(s.text) && s.text[i] >= '0' && s.text[i] <= '9'
}

func word(c byte) bool {
	return c == '_' || c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
}

// operator leaves * out, which is a token of its own.
func operator(c byte) bool { return strings.IndexByte("+-/<>=~!@#%^&|`?:", c) >= 0 }

// statement is the beginning of one: some tokens.
type statement []string

// has says whether a word stands at one of some places.
func (w statement) has(word string, at ...int) bool {
	return slices.ContainsFunc(at, func(i int) bool { return i < len(w) && w[i] == word })
}

// statements returns the beginnings of a query's statements.
func statements(query string) []statement {
	const length = 5
	var all []statement
	var words statement
	tokens := scanner{text: query}
	for {
		tok := tokens.next()
		if tok == "" || tok == ";" {
			if len(words) > 0 {
				all = append(all, words)
			}
			words = nil
			if tok == "" {
				return all
			}
			continue
		}
		if len(words) < length {
			words = append(words, tok)
		}
	}
}

// The states of a session between statements, as ReadyForQuery tells them.
const (
	idle   = 'I'
	inside = 'T'
	failed = 'E'
)

// after returns the state that a query leaves a session in, if none of it fails.
func after(state byte, query string) byte {
	if query == spoil && state == inside {
		return failed
	}
	for _, words := range statements(query) {
		state = words.after(state)
	}
	return state
}

func (w statement) after(state byte) byte {
	switch w[0] {
	case "begin", "start":
		if state == idle && (w[0] == "begin" || w.has("transaction", 1)) {
			return inside
		}
	case "prepare":
		if w.has("transaction", 1) {
			return idle
		}
	case "commit", "end", "rollback", "abort":
		switch {
		case w.has("prepared", 1) || state == idle:
		case w.has("to", 1, 2), w.has("chain", 2, 3) && !w.has("no", 1, 2):
			return inside
		default:
			return idle
		}
	}
	return state
}

// commits says whether a query begins by ending a transaction for good.
func commits(query string) bool {
	all := statements(query)
	if len(all) == 0 {
		return false
	}
	switch w := all[0]; w[0] {
	case "commit", "end":
		return !w.has("prepared", 1)
	case "prepare":
		return w.has("transaction", 1)
	}
	return false
}
