package bundle

import (
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/event"
)

func TestQuery(t *testing.T) {
	e := event.Event{
		Seq: 7, At: 1500 * time.Millisecond, Service: "db", Kind: event.Syscall,
		Fields: map[string]any{
			"path": "/data/wal/1", "errno": "ENOSPC", "delay_ms": int64(200), "ratio": 0.5, "ok": true,
			"data": map[string]any{"user": map[string]any{"id": int64(3)}},
		},
	}
	for _, c := range []struct {
		query string
		want  bool
	}{
		{"", true},
		{"kind=syscall", true},
		{"type=sys*", true},
		{"kind!=syscall", false},
		{"service=db kind=syscall", true},
		{"service=db kind=link", false},
		{"path=/data/*", true},
		{"path=*wal*", true},
		{"path=*wal", false},
		{"path=/data/*/2", false},
		{"path=/data/*/1", true},
		{"path=a*a", false},
		{"errno!=ENOENT", true},
		{"delay_ms>=200", true},
		{"delay_ms>200", false},
		{"delay_ms<=200", true},
		{"delay_ms=200", true},
		{"delay_ms=200.0", true},
		{"delay_ms!=200", false},
		{"ratio<1", true},
		{"ok=true", true},
		{"seq>6 seq<8", true},
		{"at>1s", true},
		{"at<1s", false},
		{"data.user.id=3", true},
		{"data.user.id>3", false},
		{"data.user.name=x", false},
		{"path.deeper=x", false},
		{"missing!=x", false},
		{"path>3", false},
	} {
		q, err := ParseQuery(strings.Fields(c.query))
		if err != nil {
			t.Errorf("%s: %v", c.query, err)
			continue
		}
		if got := q.Match(e); got != c.want {
			t.Errorf("%s: got %v, want %v", c.query, got, c.want)
		}
	}
}

func TestQueryErrors(t *testing.T) {
	for query, want := range map[string]string{
		"syscall":   "write field=value",
		"=x":        "write field=value",
		"at>3":      "write at>1.5s",
		"bytes>abc": `"abc" is not a number`,
		"kind>link": "a kind can't be compared",
	} {
		if _, err := ParseQuery([]string{query}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", query, err, want)
		}
	}
}

func TestQueryUnknown(t *testing.T) {
	q, err := ParseQuery([]string{"kind=link", "statsu=500"})
	if err != nil {
		t.Fatal(err)
	}
	got := q.Unknown([]event.Event{{Kind: event.Link, Fields: map[string]any{"status": int64(500)}}})
	if len(got) != 1 || got[0] != "statsu" {
		t.Errorf("got %v, want statsu", got)
	}
}
