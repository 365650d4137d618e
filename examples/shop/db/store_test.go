package main

import (
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, dir string, buggy bool) *store {
	t.Helper()
	s, err := openStore(dir, buggy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func TestOrdersSurvive(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, false)
	if err := s.fill(2); err != nil {
		t.Fatal(err)
	}
	if n, err := s.put("a red hat", 3); n != 3 || err != nil {
		t.Fatalf("put: %d, %v", n, err)
	}
	if err := s.cancel(1); err != nil {
		t.Fatal(err)
	}
	if err := s.cancel(9); err != errNoOrder {
		t.Fatalf("cancel of an unknown order: %v", err)
	}
	want := s.list()

	// A torn record at the end was never confirmed; recovery takes it away.
	name := filepath.Join(dir, "orders.wal")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"op":"put","ord`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	got := open(t, dir, false).list()
	if len(got) != 3 || !got[0].Cancelled || got[2] != want[2] {
		t.Fatalf("recovered %v, want %v", got, want)
	}
}

// TestFullDisk writes to a file that cannot take anything, as on a full disk.
func TestFullDisk(t *testing.T) {
	for _, buggy := range []bool{false, true} {
		s := open(t, t.TempDir(), buggy)
		if err := s.fill(1); err != nil {
			t.Fatal(err)
		}
		full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
		if err != nil {
			t.Skip("needs /dev/full:", err)
		}
		s.file.Close()
		s.file = full
		n, err := s.put("hat", 1)
		if buggy != (err == nil) {
			t.Errorf("buggy=%v: put gave %d, %v", buggy, n, err)
		}
		if err := s.cancel(1); err == nil || s.orders[1].Cancelled {
			t.Errorf("buggy=%v: cancel gave %v", buggy, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	s := open(t, t.TempDir(), false)
	for _, step := range []struct{ request, answer string }{
		{"PING", "OK"},
		{"LIST", "OK []"},
		{"PUT 2 red hat", "OK 1"},
		{"PUT 0 hat", "ERR PUT takes a quantity and an item"},
		{"PUT 2", "ERR PUT takes a quantity and an item"},
		{"CANCEL 7", "NO no such order"},
		{"CANCEL x", "ERR CANCEL takes an order"},
		{"CANCEL 1", "OK 1"},
		{"CANCEL 1", "OK 1"},
		{"LIST", `OK [{"order":1,"item":"red hat","qty":2,"cancelled":true}]`},
		{"FLUSH", "ERR unknown request"},
	} {
		if got := answer(s, step.request); got != step.answer {
			t.Errorf("%s: got %q, want %q", step.request, got, step.answer)
		}
	}
}
