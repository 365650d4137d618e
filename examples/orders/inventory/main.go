// Command inventory keeps stock, with a write-ahead file. It speaks lines over TCP:
//
//	CHECK sku          the quantity, or NONE
//	RESERVE sku n      OK and what is left, or ERR and why
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

// stock is what there is. A reservation counts once it is on disk.
type stock struct {
	mu   sync.Mutex
	left map[string]int
	wal  string
}

func main() {
	s := &stock{left: map[string]int{"widget": 100, "gadget": 50, "gizmo": 25}, wal: os.Getenv("WAL")}
	ln, err := net.Listen("tcp", ":"+os.Getenv("PORT"))
	if err != nil {
		log.Fatal(err)
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			log.Print(err)
			continue
		}
		go s.serve(conn)
	}
}

func (s *stock) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		fmt.Fprintln(conn, s.answer(strings.Fields(lines.Text())))
	}
}

func (s *stock) answer(words []string) string {
	switch {
	case len(words) == 2 && words[0] == "CHECK":
		s.mu.Lock()
		defer s.mu.Unlock()
		if n, ok := s.left[words[1]]; ok {
			return strconv.Itoa(n)
		}
		return "NONE"
	case len(words) == 3 && words[0] == "RESERVE":
		n, err := strconv.Atoi(words[2])
		if err != nil || n < 1 {
			return "ERR quantity"
		}
		return s.reserve(words[1], n)
	}
	return "ERR what?"
}

func (s *stock) reserve(sku string, n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left[sku] < n {
		return "ERR not enough"
	}
	if err := s.append(fmt.Sprintf("RESERVE %s %d\n", sku, n)); err != nil {
		return "ERR " + err.Error()
	}
	s.left[sku] -= n
	return fmt.Sprintf("OK %d", s.left[sku])
}

// append opens the file for each entry, so that each is an open, a write, an fsync and a close.
func (s *stock) append(entry string) error {
	f, err := os.OpenFile(s.wal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(entry); err != nil {
		return err
	}
	return f.Sync()
}
