// Command db is the store of the example shop: orders in memory, behind a
// write-ahead file that is forced to disk before an answer is given.
//
// It speaks lines over TCP, one answer for each request:
//
//	PING               OK
//	PUT <qty> <item>   OK <order>
//	CANCEL <order>     OK <order>, or NO <why> where there is no such order
//	LIST               OK <JSON array of orders>
//
// Anything that went wrong is answered by ERR <why>.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("db: ")
	buggy := flag.Bool("buggy", os.Getenv("SHOP_BUGGY") == "1",
		"confirm a new order although writing it failed (a seeded bug; SHOP_BUGGY=1 sets it too)")
	flag.Parse()
	if err := run(*buggy); err != nil {
		log.Fatal(err)
	}
}

func run(buggy bool) error {
	first, err := strconv.Atoi(getenv("SHOP_SAMPLE_ORDERS", "0"))
	if err != nil {
		return fmt.Errorf("SHOP_SAMPLE_ORDERS: %w", err)
	}
	s, err := openStore(getenv("DATA_DIR", dataDir()), buggy)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.fill(first); err != nil {
		return err
	}
	l, err := net.Listen("tcp", ":"+getenv("PORT", "5432"))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { l.Close() })
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		go serve(c, s)
	}
}

// dataDir is /data where that can be written, else a temporary directory.
func dataDir() string {
	f, err := os.CreateTemp("/data", ".probe-*")
	if err != nil {
		return os.TempDir()
	}
	f.Close()
	os.Remove(f.Name())
	return "/data"
}

// serve answers the requests of one connection until it ends.
func serve(c net.Conn, s *store) {
	defer c.Close()
	in := bufio.NewScanner(c)
	for in.Scan() {
		if _, err := fmt.Fprintln(c, answer(s, in.Text())); err != nil {
			return
		}
	}
}

func answer(s *store, request string) string {
	verb, rest, _ := strings.Cut(request, " ")
	switch verb {
	case "PING":
		return "OK"
	case "PUT":
		count, item, _ := strings.Cut(rest, " ")
		qty, err := strconv.Atoi(count)
		if err != nil || qty < 1 || item == "" {
			return "ERR PUT takes a quantity and an item"
		}
		return reply(s.put(item, qty))
	case "CANCEL":
		order, err := strconv.Atoi(rest)
		if err != nil {
			return "ERR CANCEL takes an order"
		}
		return reply(order, s.cancel(order))
	case "LIST":
		text, err := json.Marshal(s.list())
		if err != nil {
			return "ERR " + err.Error()
		}
		return "OK " + string(text)
	}
	return "ERR unknown request"
}

func reply(order int, err error) string {
	switch {
	case errors.Is(err, errNoOrder):
		return "NO " + err.Error()
	case err != nil:
		return "ERR " + err.Error()
	}
	return "OK " + strconv.Itoa(order)
}

func getenv(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
