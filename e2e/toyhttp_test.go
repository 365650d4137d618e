package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// hello is toyd's HTTP server. It answers "METHOD PATH n", n being how many requests it has seen, of which
// /seen tells without being one.
type hello struct{ seen atomic.Int64 }

func (h *hello) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/seen" {
		fmt.Fprint(w, h.seen.Load())
		return
	}
	if status, err := strconv.Atoi(os.Getenv("TOY_STATUS")); err == nil {
		w.WriteHeader(status)
	}
	if r.URL.Path == "/warm" {
		h.warm(w)
		return
	}
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %d", r.Method, r.URL.Path, h.seen.Add(1))
	if len(body) > 0 {
		fmt.Fprintf(w, " +%d", len(body))
	}
}

// warm answers 503 twice, then 200 once, and then 202 that it is UP.
func (h *hello) warm(w http.ResponseWriter) {
	switch n := h.seen.Add(1); {
	case n <= 2:
		w.WriteHeader(http.StatusServiceUnavailable)
	case n == 3:
		fmt.Fprint(w, "WARMING")
	default:
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, "UP")
	}
}

// browser is toyd's HTTP client: one for each name, with connections that are kept.
type browser struct {
	mu      sync.Mutex
	clients map[string]*http.Client
}

func (b *browser) client(name string) *http.Client {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clients == nil {
		b.clients = map[string]*http.Client{}
	}
	if b.clients[name] == nil {
		b.clients[name] = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: 2 * time.Second}
	}
	return b.clients[name]
}

// fetch NAME METHOD HOST:PORT/PATH [SIZE] makes a request with a body of so many bytes. It returns "STATUS BODY", whether
// the connection was "new" or "kept", and the milliseconds.
func (b *browser) fetch(a []string) (string, error) {
	var body io.Reader
	if len(a) > 3 {
		n, err := strconv.Atoi(a[3])
		if err != nil {
			return "", err
		}
		body = strings.NewReader(strings.Repeat("x", n))
	}
	req, err := http.NewRequest(a[1], "http://"+a[2], body)
	if err != nil {
		return "", err
	}
	how := "new"
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			if i.Reused {
				how = "kept"
			}
		},
	}))
	start := time.Now()
	resp, err := b.client(a[0]).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %s %s %d", resp.StatusCode, text, how, time.Since(start).Milliseconds()), nil
}

func serveHTTP(port string) error {
	if !strings.HasPrefix(port, "/") {
		return http.ListenAndServe(":"+port, &hello{})
	}
	l, err := net.Listen("unix", port)
	if err != nil {
		return err
	}
	return http.Serve(l, &hello{})
}
