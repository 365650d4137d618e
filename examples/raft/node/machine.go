package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// machine is the replicated state: a hash over all writes in their order. Two nodes that have
// applied the same number of entries must have the same one.
type machine struct {
	mu    sync.Mutex
	count int
	hash  [sha256.Size]byte
}

// Apply adds a write to the chain.
func (m *machine) Apply(l *raft.Log) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	m.hash = sha256.Sum256(append(m.hash[:], l.Data...))
	tell("applied", "data", string(l.Data), "number", m.count, "hash", hex.EncodeToString(m.hash[:8]))
	return nil
}

// state returns how many writes there are and the hash over them.
func (m *machine) state() (count int, hash string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count, hex.EncodeToString(m.hash[:8])
}

// Snapshot is never needed: the log of a leaf is short.
func (*machine) Snapshot() (raft.FSMSnapshot, error) {
	return nil, errors.New("this machine takes no snapshots")
}

// Restore is the counterpart of Snapshot.
func (*machine) Restore(io.ReadCloser) error {
	return errors.New("this machine takes no snapshots")
}

// logStore says which writes are taken out of the log again: those that a later leader overrules.
type logStore struct{ *raft.InmemStore }

// DeleteRange implements raft.LogStore.
func (s *logStore) DeleteRange(first, last uint64) error {
	for i := first; i <= last; i++ {
		var l raft.Log
		if s.GetLog(i, &l) == nil && l.Type == raft.LogCommand {
			tell("discarded", "data", string(l.Data))
		}
	}
	return s.InmemStore.DeleteRange(first, last)
}

// layer makes the connections between nodes. Nodes go by their names; each connection asks anew
// what a name means.
type layer struct {
	net.Listener
	name string
}

func listen(o options) (*layer, error) {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(o.raftPort))
	if err != nil {
		return nil, err
	}
	return &layer{l, o.address(o.name)}, nil
}

// Dial implements raft.StreamLayer.
func (*layer) Dial(a raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", string(a), timeout)
}

// Addr returns the address by which the others know this node.
func (l *layer) Addr() net.Addr { return nameAddr(l.name) }

type nameAddr string

func (nameAddr) Network() string  { return "tcp" }
func (a nameAddr) String() string { return string(a) }
