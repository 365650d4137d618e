package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// node is a Raft node and what it keeps.
type node struct {
	options
	raft    *raft.Raft
	machine *machine
}

func newNode(o options) (*node, error) {
	if !slices.Contains(o.members(), o.name) {
		return nil, fmt.Errorf("node %s is not among the peers %s", o.name, o.peers)
	}
	l, err := listen(o)
	if err != nil {
		return nil, err
	}
	logger := hclog.New(&hclog.LoggerOptions{Name: o.name, Level: hclog.Warn, Output: os.Stderr})
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.name)
	c.HeartbeatTimeout, c.ElectionTimeout = o.heartbeat, o.heartbeat
	c.LeaderLeaseTimeout = o.heartbeat / 2
	c.CommitTimeout = o.heartbeat / 10
	c.Logger = logger
	trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: l, MaxPool: 3, Timeout: 2 * o.heartbeat, Logger: logger,
	})
	n := &node{options: o, machine: &machine{}}
	store := &logStore{InmemStore: raft.NewInmemStore()}
	n.raft, err = raft.NewRaft(c, n.machine, store, store, raft.NewDiscardSnapshotStore(), trans)
	if err != nil {
		return nil, err
	}
	go n.tellLeadership()
	var servers []raft.Server
	for _, name := range o.members() {
		servers = append(servers, raft.Server{ID: raft.ServerID(name), Address: raft.ServerAddress(o.address(name))})
	}
	return n, n.raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error()
}

// tellLeadership prints when this node begins and ceases to lead.
func (n *node) tellLeadership() {
	for leads := range n.raft.LeaderCh() {
		tell("leadership", "leads", leads)
	}
}

func (n *node) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"status": "up"})
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		_, leader := n.raft.LeaderWithID()
		count, hash := n.machine.state()
		answer(w, http.StatusOK, map[string]any{
			"name": n.name, "role": n.raft.State().String(), "term": n.raft.CurrentTerm(), "leader": leader,
			"commit": n.raft.CommitIndex(), "applied": n.raft.AppliedIndex(), "writes": count, "hash": hash,
		})
	})
	mux.HandleFunc("POST /apply", func(w http.ResponseWriter, r *http.Request) { n.apply(w, r.FormValue("data")) })
	return mux
}

func (n *node) apply(w http.ResponseWriter, data string) {
	f := n.raft.Apply([]byte(data), time.Second)
	// The bug: whoever asked is told that the write is safe before it is, if this node leads.
	early := n.ackEarly && n.raft.State() == raft.Leader
	if !early {
		if err := f.Error(); err != nil {
			answer(w, http.StatusServiceUnavailable, map[string]any{"error": err.Error()})
			return
		}
	}
	tell("acknowledged", "data", data)
	answer(w, http.StatusOK, map[string]any{"data": data})
}

func answer(w http.ResponseWriter, code int, v map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// An error here means that the client is gone; nobody is left to be told.
	_ = json.NewEncoder(w).Encode(v)
}

// tell prints an event with its fields, given as names and values in turn.
func tell(event string, fields ...any) {
	m := map[string]any{"event": event}
	for i := 0; i < len(fields); i += 2 {
		m[fields[i].(string)] = fields[i+1]
	}
	line, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", line)
}
