package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/squallhq/squall/spec"
)

func TestSeedsComeAfterWhatTheyNeed(t *testing.T) {
	services := []*spec.Service{
		{Name: "api", DependsOn: []string{"db", "cache"}}, {Name: "web", DependsOn: []string{"api"}}, {Name: "db"}, {Name: "other"}, {Name: "cache", DependsOn: []string{"db"}},
	}
	if got, want := ordered(services), []string{"db", "other", "cache", "api", "web"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestStepsOfASeed(t *testing.T) {
	take := func(s *steps, at string, ok bool) {
		s.taken(spec.Target{Service: "db", Interface: "pg"}, spec.Operation{Method: "exec", Position: at}, spec.Response{OK: ok, Error: "no table"})
	}
	s := &steps{}
	take(s, "1:1", false)
	take(s, "2:1", true)
	take(s, "3:1", false)
	take(s, "3:1", true)
	if err := s.failed(); err == nil || err.Error() != "db.pg.exec failed: no table" || place(err) != "1:1" {
		t.Errorf("one failed and was not tried again: %v at %s", err, place(err))
	}
	take(s, "1:1", true)
	if err := s.failed(); err != nil {
		t.Errorf("each came right: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	s := &system{suite: &spec.Suite{Services: []*spec.Service{
		{Name: "db-1", Interfaces: []*spec.Interface{{Name: "pg", Port: 5432}, {Name: "sock", Path: "/run/pg"}}},
		{Name: "API", Interfaces: []*spec.Interface{{Name: "http", Port: 80}}},
	}}}
	for shared, host := range map[bool]string{false: "API", true: "127.77.0.2"} {
		env := s.addresses(shared)
		if env["SQUALL_API_HTTP_ADDR"] != host+":80" || env["SQUALL_API_HTTP_HOST"] != host || env["SQUALL_API_HTTP_PORT"] != "80" ||
			env["SQUALL_DB_1_SOCK_ADDR"] != "/run/pg" || !strings.HasSuffix(env["SQUALL_DB_1_PG_ADDR"], ":5432") || len(env) != 7 {
			t.Errorf("shared %v: %v", shared, env)
		}
	}
}
