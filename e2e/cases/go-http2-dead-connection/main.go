// A server of HTTP/2 without TLS, and a client that makes a request for each line that it is sent, on one connection.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
)

func main() {
	if os.Args[1] == "server" {
		empty := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		fmt.Fprintln(os.Stderr, http.ListenAndServe(":8080", h2c.NewHandler(empty, &http2.Server{})))
		os.Exit(1)
	}
	transport := &http2.Transport{
		AllowHTTP: true,
		DialTLSContext: func(ctx context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, address)
		},
	}
	if os.Args[1] == "right" {
		transport.ReadIdleTimeout, transport.PingTimeout = 500*time.Millisecond, 500*time.Millisecond
	}
	client := &http.Client{Transport: transport}
	l, err := net.Listen("tcp", ":7000")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for in := bufio.NewScanner(c); in.Scan(); {
				fmt.Fprintln(c, ask(client))
			}
		}()
	}
}

func ask(client *http.Client) string {
	resp, err := client.Get("http://server:8080/")
	if err != nil {
		return "error " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	resp.Body.Close()
	return fmt.Sprint(resp.StatusCode)
}
