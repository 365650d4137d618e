package intercept

import (
	"net/netip"
	"testing"
)

func TestDecodeSockaddr(t *testing.T) {
	v6 := append([]byte{10, 0, 0x1f, 0x90, 0, 0, 0, 0}, make([]byte, 15)...)
	v6 = append(v6, 1)
	addr := netip.MustParseAddrPort
	for _, c := range []struct {
		name string
		in   []byte
		want Sockaddr
		bad  bool
	}{
		{"v4", []byte{2, 0, 0x1f, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, Sockaddr{Family: FamilyInet, Addr: addr("127.0.0.1:8080")}, false},
		{"v4 cut", []byte{2, 0, 0x1f, 0x90, 127, 0, 0}, Sockaddr{Family: FamilyInet}, true},
		{"v6 without a scope", v6, Sockaddr{Family: FamilyInet6, Addr: addr("[::1]:8080")}, false},
		{"v6 with a scope", append(v6[:24:24], 3, 0, 0, 0), Sockaddr{Family: FamilyInet6, Addr: addr("[::1%3]:8080")}, false},
		{"v6 cut", v6[:23], Sockaddr{Family: FamilyInet6}, true},
		{"unix", []byte("\x01\x00/run/s\x00junk"), Sockaddr{Family: FamilyUnix, Path: "/run/s"}, false},
		{"unix without an end", []byte("\x01\x00/run/s"), Sockaddr{Family: FamilyUnix, Path: "/run/s"}, false},
		{"abstract", []byte("\x01\x00\x00a\x00b"), Sockaddr{Family: FamilyUnix, Path: "@a\x00b"}, false},
		{"unnamed", []byte{1, 0}, Sockaddr{Family: FamilyUnix}, false},
		{"unspec", []byte{0, 0}, Sockaddr{}, false},
		{"another", []byte{16, 0, 1}, Sockaddr{Family: 16}, false},
		{"too short", []byte{2}, Sockaddr{}, true},
	} {
		got, err := DecodeSockaddr(c.in)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
}

func FuzzDecodeSockaddr(f *testing.F) {
	f.Add([]byte{2, 0, 0, 1, 1, 2, 3, 4})
	f.Add([]byte("\x01\x00/run/s"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeSockaddr(b)
		inet := a.Family == FamilyInet || a.Family == FamilyInet6
		if err == nil && inet && !a.Addr.IsValid() {
			t.Errorf("%v: a family without its address: %+v", b, a)
		}
	})
}
