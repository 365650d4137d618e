package launch

import (
	"slices"
	"testing"
)

func TestStatuses(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) {
			var got []Exit
			inside(t, launcher(t), WorldConfig{Mode: m}, &got, "statuses")
			want := []Exit{{Code: 0}, {Code: 7}, {143, "SIGTERM"}, {137, "SIGKILL"}, {Code: 9}}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestOrphansAreReaped(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) {
			var got struct {
				Exit, After, Ms int
				Before          bool
			}
			inside(t, launcher(t), WorldConfig{Mode: m}, &got, "orphans", t.TempDir())
			if got.Exit != 3 || !got.Before || got.After != 0 {
				t.Errorf("%+v", got)
			}
			if got.Ms > 500 {
				t.Errorf("killing all took %d ms", got.Ms)
			}
		})
	}
}

func TestKillAllOfNothing(t *testing.T) {
	for _, m := range modes() {
		inside(t, launcher(t), WorldConfig{Mode: m}, nil, "killall")
	}
}

func TestStop(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) {
			got := map[string]string{}
			inside(t, launcher(t), WorldConfig{Mode: m}, &got, "stops", t.TempDir())
			left := "0"
			for name, want := range map[string]string{
				"obeys":     "5  forced=false left=" + left,
				"ignores":   "137 SIGKILL forced=true left=" + left,
				"dies":      "143 SIGTERM forced=false left=" + left,
				"bystander": "<nil>",
			} {
				if got[name] != want {
					t.Errorf("%s: got %q, want %q", name, got[name], want)
				}
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a ) (b) S 7 41 40 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 1 2"
	p, err := parseStat([]byte(line))
	if err != nil || p != (process{pid: 42, parent: 7, group: 41, session: 40, threads: 1, state: 'S', start: "12345"}) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "42", "42 (a) S 1", "x (a) S 7 41 40 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestDescendants(t *testing.T) {
	all := []process{
		{pid: 1}, {pid: 2, parent: 1, state: 'S'}, {pid: 3, parent: 2, state: 'Z', threads: 1},
		{pid: 4, parent: 3, state: 'R'}, {pid: 5, parent: 9, state: 'S'}, {pid: 6, parent: 1, state: 'Z', threads: 2},
	}
	var got, alive []int
	for _, p := range descendants(all, 1) {
		got = append(got, p.pid)
		if p.alive() {
			alive = append(alive, p.pid)
		}
	}
	if !slices.Equal(got, []int{2, 6, 3, 4}) || !slices.Equal(alive, []int{2, 6, 4}) {
		t.Errorf("got %v, alive %v", got, alive)
	}
}
