// A server that answers 200, and a client that makes a request for each line that it is sent, on one kept connection.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

func main() {
	if os.Args[1] == "server" {
		fmt.Fprintln(os.Stderr, http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		})))
		os.Exit(1)
	}
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
				fmt.Fprintln(c, ask(in.Text()))
			}
		}()
	}
}

func ask(how string) string {
	method, _, _ := strings.Cut(how, "_")
	req, err := http.NewRequest(strings.ToUpper(method), "http://server:8080/", nil)
	if method == "post" {
		req, err = http.NewRequest("POST", "http://server:8080/", strings.NewReader("order"))
	}
	if err != nil {
		return "error " + err.Error()
	}
	if how == "post_with_key" {
		req.Header.Set("Idempotency-Key", "17")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "error " + err.Error()
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return fmt.Sprint(resp.StatusCode)
}
