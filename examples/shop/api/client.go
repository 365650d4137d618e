package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// errNo says that db understood and has no such order.
var errNo = errors.New("no such order")

// client talks to db. Connections are made when they are needed and kept for the next request.
type client struct {
	addr    string
	timeout time.Duration

	mu   sync.Mutex
	idle []*conn
}

type conn struct {
	net.Conn
	in *bufio.Reader
}

// do sends one request and returns what follows OK. A connection on which anything went wrong is
// not used again. No request is sent twice: it may have been carried out.
func (c *client) do(request string) (string, error) {
	deadline := time.Now().Add(c.timeout)
	cn, err := c.get(deadline)
	if err != nil {
		return "", err
	}
	line, err := cn.roundTrip(request, deadline)
	if err != nil {
		cn.Close()
		return "", fmt.Errorf("db: %w", err)
	}
	c.put(cn)
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "OK":
		return rest, nil
	case "NO":
		return "", errNo
	}
	return "", fmt.Errorf("db: %s", rest)
}

func (c *client) get(deadline time.Time) (*conn, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		cn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return cn, nil
	}
	c.mu.Unlock()
	d := net.Dialer{Deadline: deadline}
	nc, err := d.Dial("tcp", c.addr)
	if err != nil {
		return nil, err
	}
	return &conn{nc, bufio.NewReader(nc)}, nil
}

func (c *client) put(cn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, cn)
}

func (c *conn) roundTrip(request string, deadline time.Time) (string, error) {
	if err := c.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(c, request); err != nil {
		return "", err
	}
	line, err := c.in.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}
