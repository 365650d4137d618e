// Package http is HTTP/1.1 without TLS.
package http

import "github.com/squallhq/squall/protocol"

// Protocol is HTTP/1.1.
type Protocol struct{}

// Info describes it.
func (Protocol) Info() protocol.Info {
	path := protocol.Param{Name: "path", Type: "string", Doc: "the path and the query; \"/\" where it is left out"}
	headers := protocol.Param{Name: "headers", Type: "map", Doc: "request headers"}
	body := protocol.Param{Name: "body", Type: "bytes", Doc: "the request's body; a dict is sent as JSON"}
	plain, full := []protocol.Param{path, headers}, []protocol.Param{path, body, headers}
	return protocol.Info{
		Name: "http",
		Doc:  "HTTP/1.1, each request on a connection of its own; redirects are not followed",
		Methods: []protocol.Method{
			{Name: "get", Doc: "GET", Params: full},
			{Name: "head", Doc: "HEAD", Params: plain},
			{Name: "post", Doc: "POST", Params: full},
			{Name: "put", Doc: "PUT", Params: full},
			{Name: "patch", Doc: "PATCH", Params: full},
			{Name: "delete", Doc: "DELETE", Params: full},
		},
	}
}
