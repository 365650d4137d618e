package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

var errNoOrder = errors.New("no such order")

// order is one order, as it is listed.
type order struct {
	Order     int    `json:"order"`
	Item      string `json:"item"`
	Qty       int    `json:"qty"`
	Cancelled bool   `json:"cancelled,omitempty"`
}

// record is one line of the write-ahead file: the new state of an order.
type record struct {
	Op string `json:"op"`
	order
}

func newRecord(op string, number int, item string, qty int) record {
	return record{op, order{Order: number, Item: item, Qty: qty}}
}

func (r record) line() ([]byte, error) {
	line, err := json.Marshal(r)
	return append(line, '\n'), err
}

// store keeps orders in memory and every change of them in a file.
type store struct {
	buggy bool

	mu     sync.Mutex
	file   *os.File
	size   int64 // length of the file up to the last whole record
	orders map[int]order
	last   int
}

// openStore reads what dir has and is ready to write more.
func openStore(dir string, buggy bool) (*store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "orders.wal"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	s := &store{buggy: buggy, file: f, orders: map[int]order{}}
	if err := s.recover(); err != nil {
		f.Close()
		return nil, fmt.Errorf("recover %s: %w", f.Name(), err)
	}
	return s, nil
}

func (s *store) close() { s.file.Close() }

// recover applies the records of the file. What follows the last whole one was never confirmed.
func (s *store) recover() error {
	text, err := os.ReadFile(s.file.Name())
	if err != nil {
		return err
	}
	for {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			break
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		s.apply(r)
		s.size += int64(len(line)) + 1
		text = rest
	}
	return s.file.Truncate(s.size)
}

// fill makes n orders in an empty store, so that there is something to list and to cancel. They
// are written in one go: what counts at start-up is how soon the store is ready.
func (s *store) fill(n int) error {
	var lines []byte
	for order := s.last + 1; order <= n; order++ {
		r := newRecord("put", order, "sample", 1)
		line, err := r.line()
		if err != nil {
			return err
		}
		lines = append(lines, line...)
		s.apply(r)
	}
	return s.write(lines)
}

// put makes an order and returns its number.
func (s *store) put(item string, qty int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := newRecord("put", s.last+1, item, qty)
	err := s.persist(r)
	if err != nil && !s.buggy {
		return 0, err
	}
	s.apply(r)
	return r.Order, nil
}

// cancel marks an order as cancelled; one that is already stays so.
func (s *store) cancel(number int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[number]
	if !ok {
		return errNoOrder
	}
	if o.Cancelled {
		return nil
	}
	o.Cancelled = true
	r := record{"cancel", o}
	if err := s.persist(r); err != nil {
		return err
	}
	s.apply(r)
	return nil
}

// list returns all orders, the oldest first.
func (s *store) list() []order {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]order, 0, len(s.orders))
	for _, o := range s.orders {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b order) int { return a.Order - b.Order })
	return all
}

func (s *store) apply(r record) {
	s.orders[r.Order] = r.order
	s.last = max(s.last, r.Order)
}

// persist brings a record to disk. Only then does it say so on standard output.
func (s *store) persist(r record) error {
	line, err := r.line()
	if err != nil {
		return err
	}
	if err := s.write(line); err != nil {
		log.Printf("%s of order %d: %v", r.Op, r.Order, err)
		return err
	}
	fmt.Printf("{\"event\":\"persisted\",\"op\":%q,\"order\":%d}\n", r.Op, r.Order)
	return nil
}

// write appends lines to the file and forces them to disk. After a failure the file is as before.
func (s *store) write(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	if _, err := s.file.WriteAt(lines, s.size); err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	if err := s.file.Sync(); err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	s.size += int64(len(lines))
	return nil
}
