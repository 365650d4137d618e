// Command node is one of three nodes that keep the same list of writes by Raft
// (the hashicorp/raft library, unmodified), in memory.
//
//	GET  /state         role, term, leader, commit and applied index, and the hash over all writes
//	POST /apply?data=x  200 once the write is committed, 503 where it could not be
//
// What happens is printed on standard output, one JSON object a line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	name, peers string
	listen      string
	raftPort    int
	heartbeat   time.Duration
	ackEarly    bool
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.name, "name", "n1", "this node: its host name")
	flag.StringVar(&o.peers, "peers", "n1,n2,n3", "all nodes, this one among them")
	flag.StringVar(&o.listen, "http", ":8000", "where the control interface listens")
	flag.IntVar(&o.raftPort, "raft-port", 7000, "where every node listens for the others")
	flag.DurationVar(&o.heartbeat, "heartbeat", 300*time.Millisecond, "how long a follower waits for its leader")
	flag.BoolVar(&o.ackEarly, "ack-early", false, "acknowledge a write once it is proposed (a seeded bug)")
	flag.Parse()
	log.SetPrefix(o.name + ": ")
	if err := run(o); err != nil {
		log.Fatal(err)
	}
}

func run(o options) error {
	n, err := newNode(o)
	if err != nil {
		return err
	}
	srv := &http.Server{Addr: o.listen, Handler: n.routes()}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { srv.Close() })
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return n.raft.Shutdown().Error()
}

// members returns the names of all nodes.
func (o options) members() []string { return strings.Split(o.peers, ",") }

// address returns where a node listens for the others.
func (o options) address(name string) string { return fmt.Sprintf("%s:%d", name, o.raftPort) }
