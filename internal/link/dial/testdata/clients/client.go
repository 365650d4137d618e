// A Go client. It prints one JSON object about a request.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	host, port := os.Args[1], os.Args[2]
	limit, _ := strconv.ParseFloat(os.Args[3], 64)
	began := time.Now()
	since := func() int64 { return time.Since(began).Milliseconds() }
	out := map[string]any{"error": "", "connect_ms": int64(-1), "peer": ""}
	req, _ := http.NewRequest("GET", "http://"+net.JoinHostPort(host, port)+"/", nil)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			out["connect_ms"], out["peer"] = since(), i.Conn.RemoteAddr().String()
		},
	}))
	client := http.Client{Timeout: time.Duration(limit * float64(time.Second))}
	res, err := client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
	}
	var timeout net.Error
	switch {
	case err == nil:
	case errors.Is(err, syscall.ETIMEDOUT):
		out["error"] = "ETIMEDOUT"
	case errors.Is(err, syscall.ECONNREFUSED):
		out["error"] = "ECONNREFUSED"
	case errors.Is(err, syscall.ECONNRESET):
		out["error"] = "ECONNRESET"
	case errors.As(err, &timeout) && timeout.Timeout():
		out["error"] = "timeout"
	default:
		out["error"] = err.Error()
	}
	out["total_ms"] = since()
	b, _ := json.Marshal(out)
	fmt.Println(string(b))
}
