package verdict

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

func TestWorst(t *testing.T) {
	for _, tc := range []struct {
		in   []Outcome
		want Outcome
	}{
		{nil, Inconclusive},
		{[]Outcome{Pass, Pass}, Pass},
		{[]Outcome{Pass, Inconclusive}, Inconclusive},
		{[]Outcome{Inconclusive, Fail, Pass}, Fail},
		{[]Outcome{""}, Inconclusive},
	} {
		if got := Worst(tc.in...); got != tc.want {
			t.Errorf("Worst(%v) = %s, want %s", tc.in, got, tc.want)
		}
	}
}

// Every Code constant has exactly one row, and every row says what to do.
func TestTableIsComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[Code]int{}
	for _, r := range Codes() {
		rows[r.Code]++
		if r.Sentence == "" || r.Mend == "" || r.Outcome == "" {
			t.Errorf("%s: a row needs an outcome, a sentence and a mend", r.Code)
		}
	}
	consts := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for _, v := range spec.Values {
			lit, ok := v.(*ast.BasicLit)
			if !ok {
				continue
			}
			consts++
			code, _ := strconv.Unquote(lit.Value)
			if rows[Code(code)] != 1 {
				t.Errorf("code %q has %d rows, want 1", code, rows[Code(code)])
			}
		}
		return true
	})
	if consts != len(rows) {
		t.Errorf("%d constants, %d rows", consts, len(rows))
	}
}
