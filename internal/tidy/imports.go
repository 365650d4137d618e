package tidy

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// level is a row of the layer table: packages that stand on the same level.
type level struct {
	number int
	// packages are directories; one that ends in /... has its subtree with it, and stands for one
	// unit whose parts may import each other.
	packages []string
	// apart says that the units of the level must not import each other.
	apart bool
}

// levels is the layer table. A package may import what stands below it.
func levels() []level {
	return []level{
		{0, []string{"verdict", "event/...", "internal/vtime", "internal/seed", "internal/sys/..."}, true},
		{1, []string{"fault/...", "property/...", "protocol", "spec/...", "bundle/..."}, false},
		{2, []string{"internal/intercept/...", "internal/link/...", "internal/launch/...", "internal/resolve/..."}, true},
		{3, []string{"internal/inject", "internal/sched", "internal/plan", "internal/explore", "internal/check/...", "internal/retention"}, false},
		{4, []string{"internal/run/...", "internal/replay", "protocol/all"}, false},
		{5, []string{"."}, false},
		{6, []string{"internal/starbind/...", "internal/policy", "internal/leaks", "internal/sweep", "internal/pyhost", "internal/report/..."}, true},
		{7, []string{"internal/cli/..."}, false},
		{command, []string{"cmd/squall"}, false},
		{tools, []string{"e2e/...", "internal/tidy/...", "scripts/...", "bench/...", "docs/...", "internal/docs"}, true},
	}
}

// Packages from edge on see the product from outside: the facade and the language, not the
// mechanisms between. The main package puts the parts together and may see all.
const (
	language = 1
	facade   = 5
	edge     = 6
	command  = 8
	tools    = 9
)

// place returns the level and the unit of a directory; ok is false where the table lacks it.
func place(dir string) (l level, unit string, ok bool) {
	if name, found := strings.CutPrefix(dir, "protocol/"); found && name != "all" {
		first, _, _ := strings.Cut(name, "/")
		return levels()[2], "protocol/" + first, true
	}
	for _, l := range levels() {
		for _, p := range l.packages {
			tree, whole := strings.CutSuffix(p, "/...")
			if dir == tree || (whole && strings.HasPrefix(dir, tree+"/")) {
				return l, tree, true
			}
		}
	}
	return level{}, "", false
}

// layers wants imports to go down only, one importer of Starlark, and example programs that need
// nothing but the standard library. Test files may import what they like.
func layers(f *File) []Finding {
	if f.Test() {
		return nil
	}
	from, unit, known := place(f.Dir())
	example := strings.HasPrefix(f.Dir(), "examples/")
	if !known && !example {
		return []Finding{{"layers", f.Path, 0, f.Dir(), f.Dir() + " does not stand in the layer table (internal/tidy/imports.go)"}}
	}
	var all []Finding
	for _, s := range f.AST.Imports {
		p, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			continue
		}
		if why := forbidden(p, from, unit, example); why != "" {
			all = append(all, f.find("layers", s.Pos(), p, "import of %s: %s", p, why))
		}
	}
	return all
}

// forbidden returns why a unit may not import p, or "".
func forbidden(p string, from level, unit string, example bool) string {
	first, _, _ := strings.Cut(p, "/")
	switch {
	case !strings.Contains(first, "."):
		return ""
	case example:
		return "examples of this module use the standard library only"
	case strings.HasPrefix(p, "go.starlark.net") && unit != "internal/starbind":
		return "only internal/starbind knows Starlark"
	case p == Module || strings.HasPrefix(p, Module+"/"):
		return upward(path.Clean("./"+strings.TrimPrefix(p, Module)), from, unit)
	}
	return ""
}

// upward returns why a unit may not import a directory of the module, or "".
func upward(dir string, from level, unit string) string {
	to, other, known := place(dir)
	inside := from.number == edge || from.number == edge+1
	switch {
	case !known:
		return "it does not stand in the layer table (internal/tidy/imports.go)"
	case other == unit:
		return ""
	case to.number > from.number, to.number == from.number && from.apart:
		return fmt.Sprintf("level %d may not import level %d", from.number, to.number)
	case inside && to.number > language && to.number < facade:
		return "an edge sees the facade and the language only"
	}
	return ""
}

// clock wants time to be read, and chance to be drawn, in one place each. Examples are programs
// under test, and tools are not part of the product; both do as they like.
func clock(f *File) []Finding {
	l, _, known := place(f.Dir())
	if f.Test() || !known || l.number == tools || f.Dir() == "internal/vtime" || f.Dir() == "internal/seed" {
		return nil
	}
	var all []Finding
	local := map[string]bool{}
	for _, s := range f.AST.Imports {
		switch p, _ := strconv.Unquote(s.Path.Value); p {
		case "math/rand", "math/rand/v2", "crypto/rand":
			all = append(all, f.find("clock", s.Pos(), p, "%s: draw from internal/seed", p))
		case "time":
			name := "time"
			if s.Name != nil {
				name = s.Name.Name
			}
			local[name] = true
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if ok && local[x.Name] && slices.Contains(clockReaders(), s.Sel.Name) {
			all = append(all, f.find("clock", s.Pos(), s.Sel.Name, "time.%s: take a vtime.Clock", s.Sel.Name))
		}
		return true
	})
	return all
}

func clockReaders() []string {
	return []string{"Now", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Since", "Until"}
}

// unsafeName matches a file name that ends in _unsafe, before what the build needs to stand there.
var unsafeName = regexp.MustCompile(`_unsafe(_(linux|darwin))?(_(amd64|arm64))?(_test)?\.(go|s)$`)

// unsafeFiles wants package unsafe, linknames (which need its import) and assembly to show in
// the file's name.
func unsafeFiles(t *Tree) []Finding {
	var all []Finding
	for _, f := range t.Go {
		for _, s := range f.AST.Imports {
			if s.Path.Value == `"unsafe"` && !unsafeName.MatchString(path.Base(f.Path)) {
				all = append(all, f.find("unsafe", s.Pos(), "unsafe", "unsafe outside a file named *_unsafe.go"))
			}
		}
	}
	for _, x := range t.Text {
		if path.Ext(x.Path) == ".s" && !unsafeName.MatchString(path.Base(x.Path)) {
			all = append(all, Finding{"unsafe", x.Path, 0, "", "assembly outside a file named *_unsafe.s"})
		}
	}
	return all
}
