// Package message stands in a connection and acts on its messages.
//
// A Conn decorates the relay's connection to a server. What the relay writes is cut into requests by
// the protocol's Conversation; for each that a rule can match, the port Decide is asked once, with the
// request's first frame. What the server answers is cut into answers, and the two are kept in step by a queue of
// expected answers, so that one given in the server's place stands where the server's would have:
//
//	relay ──Write──▶ Requests ─▶ Decide ─▶ forward ─────────────▶ server
//	                                └ answer ┐
//	relay ◀──Read─── out ◀── queue of expected answers ◀── Responses ◀── server
//
// A request that is delayed or held blocks Write, and with it everything behind it: the client
// feels backpressure as from a slow server. Answers that nobody reads stop the reading from the server once
// they fill a bounded buffer. Nothing else is kept, apart from the one request that is to be doubled.
//
// When a Conversation gives up, both ways pass bytes untouched from there on, and the caller is told, since
// rules are blind on such a connection.
package message
