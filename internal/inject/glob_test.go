package inject

import (
	"regexp"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"/data/orders.wal", "/data/orders.wal", true},
		{"/data/orders.wal", "/data/orders.wal2", false},
		{"/data/orders.wal", "/x/data/orders.wal", false},
		{"/data/*", "/data/orders.wal", true},
		{"/data/*", "/data/a/orders.wal", false},
		{"/data/*", "/database", false},
		{"/data/**", "/data/a/b/orders.wal", true},
		{"/data/**", "/database/x", false},
		{"/data/**", "/data", false},
		{"/data/", "/data/a/b", true},
		{"/data/", "/data2/a", false},
		{"/data", "/data/a", false},
		{"/a/**/b", "/a/b", true},
		{"/a/**/b", "/a/x/y/b", true},
		{"/a/**/b", "/a/xb", false},
		{"/**/b", "/b", true},
		{"/**/b", "/ab", false},
		{"/a/**b", "/a/x/yb", true},
		{"*.wal", "/data/orders.wal", true},
		{"*.wal", "/data/orders.wal/x", false},
		{"data/*.wal", "/srv/data/x.wal", true},
		{"data/*.wal", "/srv/mydata/x.wal", false},
		{"/a?c", "/abc", true},
		{"/a?c", "/a/c", false},
		{`/a\*c`, "/a*c", true},
		{`/a\*c`, "/abc", false},
		{"/a.c", "/abc", false},
		{"/[ab]", "/[ab]", true},
		{"/[ab]", "/a", false},
		{"**", "/anything/at/all", true},
		{"/é*", "/été", true},
	} {
		if got := Compile(tc.pattern).Match(tc.path); got != tc.want {
			t.Errorf("Compile(%q).Match(%q) = %v", tc.pattern, tc.path, got)
		}
	}
}

// A pattern made to explode a backtracking matcher takes linear work here; with backtracking this
// test would not end.
func TestGlobIsNotExponential(t *testing.T) {
	g := Compile("/" + strings.Repeat("*a", 200))
	if g.Match("/" + strings.Repeat("a", 2000) + "b") {
		t.Error("must not match")
	}
}

// regexpFor is the same language in another formalism.
func regexpFor(pattern string) *regexp.Regexp {
	prefix := "^"
	if !strings.HasPrefix(pattern, "/") {
		prefix = "^/(?:[^/]*/)*"
	}
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	parts := regexp.MustCompile(`(?s)\\.|\*+|\?|[^\\*?]|\\`).FindAllString(pattern, -1)
	var b strings.Builder
	b.WriteString("(?s)" + prefix)
	for i := 0; i < len(parts); i++ {
		switch p := parts[i]; {
		case strings.HasPrefix(p, `\`) && len(p) > 1:
			b.WriteString(regexp.QuoteMeta(p[1:]))
		case p == "*":
			b.WriteString("[^/]*")
		case strings.HasPrefix(p, "**"):
			first := i == 0 || strings.HasSuffix(parts[i-1], "/")
			if first && i+1 < len(parts) && parts[i+1] == "/" {
				b.WriteString("(?:[^/]*/)*")
				i++
			} else {
				b.WriteString(".*")
			}
		case p == "?":
			b.WriteString("[^/]")
		default:
			b.WriteString(regexp.QuoteMeta(p))
		}
	}
	return regexp.MustCompile(b.String() + "$")
}

func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{
		{"/a/**/b", "/a/x/b"}, {"*.wal", "/x/y.wal"}, {"/a/", "/a/b"}, {"/**", "/"}, {`\*`, "/*"},
		{"**/", "/a/b"}, {"/a**/b", "/ab/c/b"}, {"/a/***/b", "/a/b"}, {"", "/"}, {`a\`, `/a\`},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 40 || len(path) > 60 {
			t.Skip("longer inputs teach nothing new and slow the reference down")
		}
		for _, s := range []string{pattern, path} {
			for i := range len(s) {
				if s[i] >= 0x80 {
					t.Skip("the reference works on runes, the matcher on bytes")
				}
			}
		}
		if got, want := Compile(pattern).Match(path), regexpFor(pattern).MatchString(path); got != want {
			t.Errorf("Compile(%q).Match(%q) = %v, the reference says %v", pattern, path, got, want)
		}
	})
}
