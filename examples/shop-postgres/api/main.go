// Command api is the front of the shop of examples/shop, on PostgreSQL and Redis.
//
//	GET  /health              200 once PostgreSQL answers
//	POST /orders              201 and the order, from {"item": ..., "qty": ...}
//	POST /orders/{id}/cancel  200, or 404
//	GET  /orders              200 and all orders
//
// Orders are kept in PostgreSQL. Redis has the last list until an order changes; the shop works
// without it. Where PostgreSQL cannot do it, the answer is 503.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// patience is how long a request may take, all in all.
const patience = 5 * time.Second

func main() {
	log.SetFlags(0)
	log.SetPrefix("api: ")
	buggy := flag.Bool("write-behind", os.Getenv("SHOP_WRITE_BEHIND") == "1",
		"confirm an order that PostgreSQL refused once it stands in Redis, to be written some day (a seeded bug)")
	flag.Parse()
	if err := run(*buggy); err != nil {
		log.Fatal(err)
	}
}

func run(buggy bool) error {
	s, err := openStore(os.Getenv("DATABASE_URL"), os.Getenv("REDIS_ADDR"), buggy)
	if err != nil {
		return err
	}
	srv := &http.Server{Addr: ":8080", Handler: routes(s)}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { srv.Close() })
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func routes(s *store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context()); err != nil {
			send(w, http.StatusServiceUnavailable, map[string]any{"error": err.Error()})
			return
		}
		send(w, http.StatusOK, map[string]any{"status": "up"})
	})
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var in order
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in)
		if err != nil || in.Item == "" || in.Qty < 1 {
			send(w, http.StatusBadRequest, map[string]any{"error": "an order has an item and a qty of 1 or more"})
			return
		}
		ctx, done := context.WithTimeout(r.Context(), patience)
		defer done()
		id, err := s.put(ctx, in)
		changed(w, id, err, http.StatusCreated, "confirmed")
	})
	mux.HandleFunc("POST /orders/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil {
			changed(w, 0, errNoOrder, 0, "")
			return
		}
		ctx, done := context.WithTimeout(r.Context(), patience)
		defer done()
		changed(w, id, s.cancel(ctx, id), http.StatusOK, "cancelled")
	})
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		ctx, done := context.WithTimeout(r.Context(), patience)
		defer done()
		text, err := s.list(ctx)
		if err != nil {
			changed(w, 0, err, 0, "")
			return
		}
		send(w, http.StatusOK, map[string]any{"orders": json.RawMessage(text)})
	})
	return mux
}

// changed answers with what became of a change, and prints what was promised.
func changed(w http.ResponseWriter, id int64, err error, code int, status string) {
	switch {
	case errors.Is(err, errNoOrder):
		send(w, http.StatusNotFound, map[string]any{"error": err.Error()})
	case err != nil:
		log.Print(err)
		send(w, http.StatusServiceUnavailable, map[string]any{"error": err.Error()})
	default:
		fmt.Printf("{\"status\":%q,\"order\":%d}\n", status, id)
		send(w, code, map[string]any{"status": status, "order": id})
	}
}

func send(w http.ResponseWriter, code int, answer map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// An error here means that the client is gone; nobody is left to be told.
	_ = json.NewEncoder(w).Encode(answer)
}
