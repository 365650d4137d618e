package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// fakeDB answers each request with what answers has for it, and hangs on any other.
func fakeDB(t *testing.T, answers map[string]string) *client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for in := bufio.NewScanner(c); in.Scan(); {
					if a, ok := answers[in.Text()]; ok {
						fmt.Fprintln(c, a)
					}
				}
			}()
		}
	}()
	return &client{addr: l.Addr().String(), timeout: 100 * time.Millisecond}
}

func TestRoutes(t *testing.T) {
	h := routes(fakeDB(t, map[string]string{
		"PUT 2 hat": "OK 17", "PUT 3 hat": "ERR no space left", "PUT 4 hat": "OK soon",
		"CANCEL 3": "OK 3", "CANCEL 4": "NO no such order", "LIST": `OK [{"order":1}]`,
	}))
	for _, step := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", "/health", "", 200, `"up"`},
		{"POST", "/orders", `{"item":"hat","qty":2}`, 201, `"order":17`},
		{"POST", "/orders", `{"item":"hat","qty":3}`, 503, `no space left`},
		{"POST", "/orders", `{"item":"hat","qty":4}`, 503, `db answered`},
		{"POST", "/orders", `{"item":"slow","qty":1}`, 503, `timeout`},
		{"POST", "/orders", `{"item":"a\nb","qty":1}`, 400, `an order has`},
		{"POST", "/orders", `{"item":"hat"}`, 400, `an order has`},
		{"POST", "/orders", `nonsense`, 400, `an order has`},
		{"POST", "/orders/3/cancel", "", 200, `"cancelled"`},
		{"POST", "/orders/4/cancel", "", 404, `no such order`},
		{"POST", "/orders/x/cancel", "", 404, `no such order`},
		{"GET", "/orders", "", 200, `"orders":[{"order":1}]`},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(step.method, step.path, strings.NewReader(step.body)))
		if w.Code != step.code || !strings.Contains(w.Body.String(), step.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", step.method, step.path, step.body, w.Code, w.Body, step.code, step.want)
		}
	}
}

func TestDatabaseDown(t *testing.T) {
	db := fakeDB(t, nil)
	db.addr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	routes(db).ServeHTTP(w, httptest.NewRequest("GET", "/orders", http.NoBody))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503", w.Code)
	}
}

func TestConnectionIsKept(t *testing.T) {
	db := fakeDB(t, map[string]string{"PING": "OK"})
	for range 2 {
		if _, err := db.do("PING"); err != nil {
			t.Fatal(err)
		}
	}
	if len(db.idle) != 1 {
		t.Errorf("%d idle connections, want 1", len(db.idle))
	}
}
