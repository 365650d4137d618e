package bundle_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

func TestSecretNames(t *testing.T) {
	for name, want := range map[string]bool{
		"PASSWORD": true, "DB_PASSWORD": true, "dbPassword": true, "PGPASSWORD": true, "API_KEY": true, "api-key": true,
		"apikey": true, "AWS_SECRET_ACCESS_KEY": true, "GITHUB_TOKEN": true, "token": true, "Authorization": true,
		"Set-Cookie": true, "STRIPE_SIGNING_KEY": true, "DATABASE_DSN": true,
		"key": false, "KEYBOARD": false, "MONKEY": false, "author": false, "PATH": false, "primary_key": false,
		"partition_key": false, "keys": false, "passenger": false, "compass": false, "": false,
	} {
		if got := bundle.SecretName(name); got != want {
			t.Errorf("SecretName(%q) = %v", name, got)
		}
	}
}

func TestTextIsRedacted(t *testing.T) {
	r := bundle.NewRedactor([]string{"DB_PASSWORD=hunter2hunter2", "HOME=/home/me", "X_TOKEN=ab", "SSH_KEY=line-number-1\nline-number-2"})
	r.Add("added/value+1")
	for in, want := range map[string]string{
		"connect with hunter2hunter2 now":         "connect with [redacted] now",
		"aHVudGVyMmh1bnRlcjI=":                    "[redacted]",
		"?p=added%2Fvalue%2B1&q=2":                "?p=[redacted]&q=2",
		"line-number-2":                           "[redacted]",
		"/home/me and ab":                         "/home/me and ab",
		"postgres://shop:swordfish@db:5432/x":     "postgres://shop:[redacted]@db:5432/x",
		"http://db:5432/a@b":                      "http://db:5432/a@b",
		"--password=swordfish --port=80":          "--password=[redacted] --port=80",
		`{"api_key": "swordfish", "id": 3}`:       `{"api_key": "[redacted]", "id": 3}`,
		"Authorization: Bearer abcdef0123456":     "Authorization: Bearer [redacted]",
		"key=order:17 token=zebrafish2, n=1":      "key=order:17 token=[redacted], n=1",
		"order 17 was confirmed at 12:30, status": "order 17 was confirmed at 12:30, status",
		"": "",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	args := r.Args([]string{"psql", "--password", "swordfish9", "-h", "db", "--token-file", "/x"})
	if strings.Join(args, " ") != "psql --password [redacted] -h db --token-file [redacted]" {
		t.Errorf("args %q", args)
	}
}

func TestFieldsAreRedactedAndNumbersStay(t *testing.T) {
	r := bundle.NewRedactor(nil)
	in := map[string]any{
		"line": `got session-abcdef`, "token": "session-abcdef", "fencing_token": int64(17),
		"args": map[string]any{"password": "xyz", "list": []any{"a session-abcdef b", true, nil}},
	}
	out := r.Fields(in)
	args := out["args"].(map[string]any)
	switch {
	case out["line"] != "got [redacted]", out["token"] != bundle.Redacted, out["fencing_token"] != int64(17),
		args["password"] != bundle.Redacted, args["list"].([]any)[0] != "a [redacted] b":
		t.Errorf("got %v", out)
	}
	if in["token"] != "session-abcdef" {
		t.Error("the caller's fields were changed")
	}
}

// A secret that goes in at every place where text goes in must come out nowhere.
func TestNoSecretInAnyMember(t *testing.T) {
	const secret = "correct-horse/battery"
	path := filepath.Join(t.TempDir(), "run.squall")
	w, err := bundle.Create(path, bundle.NewRedactor([]string{"DB_PASSWORD=" + secret}))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.Plan(bundle.Plan{Source: "x.star", Leaves: []bundle.PlanLeaf{{ID: "aa", Scenario: "s"}},
		Assumptions: []bundle.PlanAssumption{{Name: "a", Doc: secret, Effects: []string{secret}}},
		Services:    []bundle.PlanService{{Name: "db", Binary: "/bin/" + secret}}}))
	l, err := w.Leaf("aa")
	must(err)
	must(l.Event(event.Event{Seq: 1, Service: "api", Kind: event.Stdout, Fields: map[string]any{
		"line": "pw " + secret, "deep": map[string]any{"list": []any{secret}}, "argv": []string{secret},
	}}))
	// The secret is torn between two writes, and stands at an end without a newline.
	must(l.Log("api", []byte("one "+secret[:9])))
	must(l.Log("api", []byte(secret[9:]+"\nlast "+secret)))
	must(l.Log("db", []byte(strings.Repeat("y", 64<<10-5)+secret[:6])))
	must(l.Log("db", []byte(secret[6:])))
	must(l.Close(bundle.Leaf{
		ID: "aa", Scenario: "s", Result: secret, Assurance: bundle.Assurance{LevelReason: secret},
		Verdict: verdict.Verdict{Outcome: verdict.Fail, Reasons: []verdict.Reason{{Code: verdict.AssertionFailed, Detail: secret, Subject: secret}},
			Warnings: []verdict.Reason{{Code: verdict.NoAssertions, Detail: secret}}},
		Properties: []bundle.PropertyRecord{{Name: "p", Message: secret}},
		Rules:      []bundle.RuleRecord{{ID: "r", Effect: secret}},
		Choices:    []bundle.ChoiceRecord{{Name: secret}},
	}, []bundle.Decision{{Rule: "r", Key: "db"}}))
	w.Replay(bundle.Replay{Source: "x.star", Args: []string{"--set", secret}})
	must(w.Close(bundle.Manifest{Complete: true, Environment: map[string]string{"DB_PASSWORD": secret, "NOTE": "uses " + secret}}))
	b, err := os.ReadFile(path)
	must(err)
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	must(err)
	seen := 0
	for _, f := range z.File {
		in, err := f.Open()
		must(err)
		content, err := io.ReadAll(in)
		must(err)
		if strings.HasSuffix(f.Name, ".zst") {
			d, err := zstd.NewReader(bytes.NewReader(content))
			must(err)
			content, err = io.ReadAll(d)
			must(err)
			d.Close()
		}
		if bytes.Contains(content, []byte(secret)) || bytes.Contains(content, []byte("battery")) {
			t.Errorf("%s has the secret: %.200s", f.Name, content)
		}
		seen += bytes.Count(content, []byte(bundle.Redacted))
	}
	if seen < 12 {
		t.Errorf("only %d marks of redaction", seen)
	}
}
