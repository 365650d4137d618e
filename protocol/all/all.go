// Package all is the one list of wire protocols.
package all

import (
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/http"
	"github.com/squallhq/squall/protocol/postgres"
	"github.com/squallhq/squall/protocol/redis"
	"github.com/squallhq/squall/protocol/tcp"
	"github.com/squallhq/squall/protocol/udp"
)

// List returns every protocol, by name.
func List() []protocol.Protocol {
	return []protocol.Protocol{http.Protocol{}, postgres.Protocol{}, redis.Protocol{}, tcp.Protocol{}, udp.Protocol{}}
}

// Infos describes every protocol.
func Infos() []protocol.Info {
	var out []protocol.Info
	for _, p := range List() {
		info := p.Info()
		if s, ok := p.(protocol.Speaker); ok {
			m := s.Messages()
			info.Messages = &m
		}
		out = append(out, info)
	}
	return out
}

// Find returns the protocol of a name.
func Find(name string) (protocol.Protocol, bool) {
	for _, p := range List() {
		if p.Info().Name == name {
			return p, true
		}
	}
	return nil, false
}
