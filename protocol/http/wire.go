package http

import (
	"encoding/json"
	"fmt"
	"io"
	nethttp "net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// host is what the client calls the service: it is inside the service's network, where that is localhost.
func host(target spec.Target) string {
	if target.Path != "" {
		return "localhost"
	}
	return "localhost:" + strconv.Itoa(target.Port)
}

// request makes the request of a step.
func request(target spec.Target, op spec.Operation) (*nethttp.Request, error) {
	path, _ := protocol.Text(op, "path")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	u, err := url.Parse("http://" + host(target) + path)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", path, err)
	}
	body, kind, err := encode(op.Args["body"])
	if err != nil {
		return nil, err
	}
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := nethttp.NewRequest(strings.ToUpper(op.Method), u.String(), content)
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("User-Agent", "squall")
	return req, setHeaders(req, op.Args["headers"])
}

func setHeaders(req *nethttp.Request, arg any) error {
	headers, ok := arg.(map[string]any)
	if !ok && arg != nil {
		return fmt.Errorf("headers: got %T, want a map", arg)
	}
	for name, v := range headers {
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("header %s: got %T, want a string", name, v)
		}
		if strings.EqualFold(name, "Host") {
			req.Host = text
			continue
		}
		req.Header.Set(name, text)
	}
	return nil
}

// encode returns a body as text, and its media type.
func encode(body any) (text, kind string, err error) {
	const asJSON = "application/json"
	switch v := body.(type) {
	case nil:
		return "", "", nil
	case []byte:
		text = string(v)
	case string:
		text = v
	default:
		out, err := json.Marshal(v)
		if err != nil {
			return "", "", fmt.Errorf("body: %w", err)
		}
		return string(out), asJSON, nil
	}
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[") {
		if json.Valid([]byte(t)) {
			return text, asJSON, nil
		}
	}
	return text, "text/plain; charset=utf-8", nil
}

// response reads an answer. With an error it returns what there was.
func response(resp *nethttp.Response) (spec.Response, error) {
	headers := map[string]any{}
	for name, values := range resp.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	r := spec.Response{Status: resp.StatusCode, Fields: map[string]any{"headers": headers}}
	body, err := io.ReadAll(io.LimitReader(resp.Body, protocol.BodyLimit+1))
	if len(body) > protocol.BodyLimit {
		body = body[:protocol.BodyLimit]
		r.Fields["truncated"] = true
	}
	r.Body = string(body)
	r.OK = resp.StatusCode < 400
	if !r.OK {
		r.Error = strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, nethttp.StatusText(resp.StatusCode)))
	}
	return r, err
}
