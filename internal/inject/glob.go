package inject

import "strings"

// Glob is a compiled pattern over absolute paths.
//
//   - "?" is one byte that is not "/", "*" is any number of them, "**" crosses "/" too.
//   - "a/**/b" also matches "a/b", and "**/a" also "a" at the root.
//   - A pattern that ends in "/" means everything below that directory.
//   - A pattern that does not begin with "/" may begin at any directory: "*.wal".
//   - "\" takes the next byte as it stands.
type Glob struct{ tokens []token }

type token struct {
	kind tokenKind
	lit  byte
}

type tokenKind int

const (
	literal  tokenKind = iota
	one                // ?
	star               // *
	deepStar           // **
	deepDirs           // **/ : nothing, or whole directories
)

// Compile reads a pattern; every string is one.
func Compile(pattern string) Glob {
	var g Glob
	if !strings.HasPrefix(pattern, "/") {
		g.tokens = append(g.tokens, token{literal, '/'}, token{kind: deepDirs})
	}
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			g.tokens = append(g.tokens, token{literal, pattern[i]})
		case c == '?':
			g.tokens = append(g.tokens, token{kind: one})
		case c == '*':
			n := len(pattern[i:]) - len(strings.TrimLeft(pattern[i:], "*"))
			atStart := i == 0 || pattern[i-1] == '/'
			i += n - 1
			switch {
			case n == 1:
				g.tokens = append(g.tokens, token{kind: star})
			case atStart && i+1 < len(pattern) && pattern[i+1] == '/':
				g.tokens = append(g.tokens, token{kind: deepDirs})
				i++
			default:
				g.tokens = append(g.tokens, token{kind: deepStar})
			}
		default:
			g.tokens = append(g.tokens, token{literal, c})
		}
	}
	return g
}

// Match reports whether the whole of path fits. It takes time proportional to the product of the
// lengths, whatever the pattern: the set of reachable tokens is carried along the path.
func (g Glob) Match(path string) bool {
	now := make([]bool, len(g.tokens)+1)
	next := make([]bool, len(g.tokens)+1)
	g.enter(now, 0)
	for i := 0; i < len(path); i++ {
		clear(next)
		for t, on := range now[:len(g.tokens)] {
			if on {
				g.step(next, t, path[i])
			}
		}
		now, next = next, now
	}
	return now[len(g.tokens)]
}

// enter marks token t as reachable, and what can be reached from it without a byte.
func (g Glob) enter(set []bool, t int) {
	for ; ; t++ {
		set[t] = true
		if t == len(g.tokens) || g.tokens[t].kind < star {
			return
		}
	}
}

// step marks what is reachable from token t after byte c.
func (g Glob) step(set []bool, t int, c byte) {
	switch tok := g.tokens[t]; tok.kind {
	case literal:
		if c == tok.lit {
			g.enter(set, t+1)
		}
	case one:
		if c != '/' {
			g.enter(set, t+1)
		}
	case star:
		if c != '/' {
			g.enter(set, t)
		}
	case deepStar:
		g.enter(set, t)
	case deepDirs:
		// Within a directory's name the token stays without its empty way out, so that what
		// follows begins right after a "/".
		if c == '/' {
			g.enter(set, t)
		} else {
			set[t] = true
		}
	}
}
