package dial

import (
	"net/netip"
	"testing"

	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

func shop() []*spec.Service {
	face := func(service, name string, port int) *spec.Interface {
		return &spec.Interface{Service: service, Name: name, Port: port}
	}
	return []*spec.Service{
		{Name: "api", Interfaces: []*spec.Interface{face("api", "http", 8080)}},
		{Name: "db", Interfaces: []*spec.Interface{face("db", "sql", 5432), face("db", "admin", 9000)}},
		{Name: "cache", Interfaces: []*spec.Interface{face("cache", "redis", 6379), face("cache", "admin", 9000)}},
	}
}

func TestResolve(t *testing.T) {
	db := Route{Action: Link, Server: "db", Interface: "sql", Port: 5432}
	native := Route{Action: Native}
	refused := func(errno int, code verdict.Code) Route { return Route{Action: Refuse, Errno: errno, Code: code} }
	tests := []struct {
		name, client, to string
		own              int
		datagram         bool
		want             Route
	}{
		{"by name", "api", "127.77.0.2:5432", 0, false, db},
		{"by name, mapped", "api", "[::ffff:127.77.0.2]:5432", 0, false, db},
		{"by name, undeclared port", "api", "127.77.0.2:22", 0, false, refused(111, verdict.UndeclaredAddress)},
		{"localhost", "api", "127.0.0.1:5432", 0, false, db},
		{"localhost, mapped", "api", "[::ffff:127.0.0.1]:5432", 0, false, db},
		{"localhost, v6", "api", "[::1]:5432", 0, false, db},
		{"unspecified", "api", "0.0.0.0:5432", 0, false, db},
		{"unspecified, v6", "api", "[::]:5432", 0, false, db},
		{"own listener wins", "api", "127.0.0.1:5432", 5432, false, native},
		{"own declared port, not listening", "db", "127.0.0.1:9000", 0, false, native},
		{"ambiguous", "api", "127.0.0.1:9000", 0, false, refused(111, verdict.AmbiguousLocalhost)},
		{"ambiguous, own listener", "api", "127.0.0.1:9000", 9000, false, native},
		{"localhost, undeclared", "api", "127.0.0.1:1", 0, false, refused(111, verdict.UndeclaredAddress)},
		{"other loopback address", "api", "127.0.1.1:5432", 0, false, refused(111, verdict.UndeclaredAddress)},
		{"other loopback address, own listener", "api", "127.0.1.1:5432", 5432, false, native},
		{"own address", "db", "127.77.0.2:1", 0, false, native},
		{"unknown service", "api", "127.77.0.9:5432", 0, false, refused(111, verdict.UndeclaredAddress)},
		{"outside", "api", "192.0.2.1:80", 0, false, refused(101, verdict.UndeclaredAddress)},
		{"outside, v6", "api", "[2001:db8::1]:80", 0, false, refused(101, verdict.UndeclaredAddress)},
		{"port 0", "api", "192.0.2.1:0", 0, false, native},
		{"datagram", "api", "127.77.0.2:5432", 0, true, db},
		{"datagram, undeclared", "api", "192.0.2.1:9", 0, true, native},
		{"datagram, ambiguous", "api", "127.0.0.1:9000", 0, true, refused(111, verdict.AmbiguousLocalhost)},
		{"no such client", "driver", "127.77.0.2:5432", 0, false, db},
	}
	r := NewResolver(shop())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ap := netip.MustParseAddrPort(tt.to)
			a := Addr{Family: familyINET, AddrPort: ap}
			if ap.Addr().Is6() {
				a.Family = familyINET6
			}
			parsed, err := ParseAddr(a.Raw())
			if err != nil || parsed != a {
				t.Fatalf("ParseAddr(Raw(%v)) = %v, %v", a, parsed, err)
			}
			got := r.Resolve(tt.client, parsed, tt.datagram, func(port int) bool { return port == tt.own })
			if got != tt.want {
				t.Errorf("Resolve(%s, %s) = %+v, want %+v", tt.client, tt.to, got, tt.want)
			}
		})
	}
}

func TestResolveOtherFamilies(t *testing.T) {
	r := NewResolver(shop())
	never := func(int) bool { t.Error("asked for own listeners"); return false }
	for family, want := range map[int]Action{familyUnspec: Forget, familyUnix: Native, 16: Native} {
		if got := r.Resolve("api", Addr{Family: family}, false, never); got.Action != want {
			t.Errorf("family %d: %v, want %v", family, got.Action, want)
		}
	}
}

func TestParseAddrShort(t *testing.T) {
	for _, raw := range [][]byte{nil, {2}, {2, 0, 0, 80}, {10, 0, 0, 80, 0, 0, 0, 0}} {
		if _, err := ParseAddr(raw); err != ErrShortAddress {
			t.Errorf("ParseAddr(%v): %v", raw, err)
		}
	}
}
