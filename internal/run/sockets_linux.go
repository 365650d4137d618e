package run

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/run/args"
	"github.com/squallhq/squall/verdict"
)

// connectSocket lets a program connect to a Unix socket of its own, or to one that is declared. One of another service
// is refused as an undeclared port is: what goes on there could not be seen, and no rule would act on it.
func (s *service) connectSocket(session intercept.Session, c intercept.Call, address []byte) {
	to, err := intercept.DecodeSockaddr(address)
	if err != nil || to.Path == "" || to.Path[0] == '@' || s.l.job.Shared {
		s.reply(session, c, intercept.Reply{})
		return
	}
	at := resolved(args.Absolute(session, c, unix.AT_FDCWD, to.Path))
	owner := s.l.system.undeclared(at, s.Name)
	if owner == "" {
		s.reply(session, c, intercept.Reply{})
		return
	}
	s.l.undeclared(s.Name, 0, map[string]any{
		"address": to.Path, "errno": fault.ErrnoName(int(unix.ECONNREFUSED)), "code": string(verdict.UndeclaredIOWarning),
		"message": fmt.Sprintf("%s tried to reach the Unix socket %s of %s, which no interface(path=) declares; it was refused", s.Name, to.Path, owner),
	})
	s.reply(session, c, intercept.Reply{Answer: true, Errno: int(unix.ECONNREFUSED)})
}

// undeclared returns the service other than client that has a socket at a path without saying so, or "".
func (s *system) undeclared(path, client string) string {
	for _, decl := range s.suite.Services {
		for _, face := range decl.Interfaces {
			if face.Path != "" && resolved(face.Path) == path {
				return ""
			}
		}
	}
	own := func(name string) bool {
		for _, p := range s.net.spaces[name].Sockets() {
			if resolved(p) == path {
				return true
			}
		}
		return false
	}
	if own(client) {
		return ""
	}
	for _, decl := range s.suite.Services {
		if decl.Name != client && own(decl.Name) {
			return decl.Name
		}
	}
	return ""
}

// resolved resolves the links of the directory in which a socket is.
func resolved(path string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path
	}
	return filepath.Join(dir, filepath.Base(path))
}
