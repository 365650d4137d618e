package main

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWithoutServers needs neither PostgreSQL nor Redis: nothing listens where they should be.
func TestWithoutServers(t *testing.T) {
	for _, buggy := range []bool{false, true} {
		s, err := openStore("postgres://shop@127.0.0.1:1/shop?sslmode=disable", "127.0.0.1:1", buggy)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			method, path, body string
			code               int
		}{
			{"GET", "/health", "", 503},
			{"GET", "/orders", "", 503},
			{"POST", "/orders", `{"item":"hat","qty":1}`, 503},
			{"POST", "/orders", `{"item":"hat"}`, 400},
			{"POST", "/orders/3/cancel", "", 503},
			{"POST", "/orders/x/cancel", "", 404},
		} {
			w := httptest.NewRecorder()
			routes(s).ServeHTTP(w, httptest.NewRequest(step.method, step.path, strings.NewReader(step.body)))
			if w.Code != step.code {
				t.Errorf("buggy=%v: %s %s: %d %s, want %d", buggy, step.method, step.path, w.Code, w.Body, step.code)
			}
		}
	}
}
