package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/bundle/bundletest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func shop(t testing.TB, o bundletest.Options) *bundle.Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.squall")
	if err := bundletest.Shop(path, o); err != nil {
		t.Fatal(err)
	}
	r, err := bundle.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func text(r *bundle.Reader) Text {
	return Text{
		Plan: r.Plan(), Verdicts: r.Verdicts(), Summary: r.Manifest().Summary, Events: r, Complete: r.Manifest().Complete,
		Bundle: ".squall/runs/0007/run.squall", Report: ".squall/runs/0007/report.html",
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", name, got)
	}
}

func TestTextIsAsPromised(t *testing.T) {
	var out bytes.Buffer
	if err := text(shop(t, bundletest.Options{})).Write(&out, Plain()); err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.txt", out.Bytes())
}
