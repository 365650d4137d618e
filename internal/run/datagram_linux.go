package run

import "github.com/squallhq/squall/internal/intercept"

// datagram leads a datagram with an address where the system's declaration says.
func (s *service) datagram(session intercept.Session, c intercept.Call) {
	reply(session, c, intercept.Reply{})
}
