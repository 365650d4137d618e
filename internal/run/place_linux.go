package run

import (
	"strconv"

	"github.com/squallhq/squall/internal/launch"
	"github.com/squallhq/squall/internal/link/dial"
)

// files is what a leaf's files are made of beside the machine's.
func (l *leaf) files(names []string) launch.Config {
	c := launch.Config{Hosts: hosts(names)}
	for _, v := range l.system.suite.Volumes {
		c.Volumes = append(c.Volumes, launch.Volume{Source: v.Source, Target: v.Target, ReadOnly: v.ReadOnly})
	}
	for _, s := range l.system.suite.Services {
		for _, face := range s.Interfaces {
			if face.Path != "" {
				c.Sockets = append(c.Sockets, face.Path)
			}
		}
	}
	return c
}

// addresses are the variables that tell each program where the others listen. On the machine's own network nothing
// resolves a service's name, so the host is a number.
func (s *system) addresses(shared bool) map[string]string {
	out := map[string]string{}
	for i, decl := range s.suite.Services {
		host := decl.Name
		if shared {
			host = dial.ServiceAddr(i + 1).String()
		}
		for _, face := range decl.Interfaces {
			name := decl.Variable(face)
			if face.Path != "" {
				out[name+"ADDR"] = face.Path
				continue
			}
			port := strconv.Itoa(face.Port)
			out[name+"ADDR"], out[name+"HOST"], out[name+"PORT"] = host+":"+port, host, port
		}
	}
	return out
}
