package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestSingleNode runs a cluster of one: it elects itself and commits.
func TestSingleNode(t *testing.T) {
	n, err := newNode(options{name: "localhost", peers: "localhost", raftPort: freePort(t), heartbeat: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.raft.Shutdown().Error(); err != nil {
			t.Error(err)
		}
	}()
	for deadline := time.Now().Add(10 * time.Second); n.raft.State() != raft.Leader; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no leader after 10 s")
		}
	}
	srv := httptest.NewServer(n.routes())
	defer srv.Close()
	for i, data := range []string{"a", "b"} {
		resp, err := http.Post(srv.URL+"/apply?data="+url.QueryEscape(data), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("apply %s: %s", data, resp.Status)
		}
		var state struct {
			Role, Hash string
			Writes     int
		}
		resp, err = http.Get(srv.URL + "/state")
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(resp.Body).Decode(&state)
		resp.Body.Close()
		if err != nil || state.Role != "Leader" || state.Writes != i+1 || len(state.Hash) != 16 {
			t.Fatalf("state %+v, %v", state, err)
		}
	}
}

func TestForeignName(t *testing.T) {
	_, err := newNode(options{name: "n4", peers: "n1,n2,n3"})
	if err == nil || !strings.Contains(err.Error(), "n4") {
		t.Errorf("got %v", err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var port int
	if _, err := fmt.Sscanf(l.Addr().String(), "[::]:%d", &port); err != nil {
		t.Fatal(err)
	}
	return port
}
