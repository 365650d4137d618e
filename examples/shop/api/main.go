// Command api is the front of the example shop: orders over HTTP, kept by db.
//
//	GET  /health              200
//	POST /orders              201 and the order, from {"item": ..., "qty": ...}
//	POST /orders/{id}/cancel  200, or 404
//	GET  /orders              200 and all orders
//
// Where db cannot be reached or cannot do it, the answer is 503. What was
// promised to a client is printed on standard output too, one JSON object a line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("api: ")
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	timeout, err := time.ParseDuration(getenv("DB_TIMEOUT", "2s"))
	if err != nil {
		return fmt.Errorf("DB_TIMEOUT: %w", err)
	}
	db := &client{addr: getenv("DB_ADDR", "localhost:5432"), timeout: timeout}
	srv := &http.Server{Addr: ":" + getenv("PORT", "8080"), Handler: routes(db)}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { srv.Close() })
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func routes(db *client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		send(w, http.StatusOK, map[string]any{"status": "up"})
	})
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Item string `json:"item"`
			Qty  int    `json:"qty"`
		}
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in)
		if err != nil || in.Item == "" || in.Qty < 1 || strings.ContainsAny(in.Item, "\r\n") {
			send(w, http.StatusBadRequest, map[string]any{"error": "an order has an item and a qty of 1 or more"})
			return
		}
		change(w, db, fmt.Sprintf("PUT %d %s", in.Qty, in.Item), http.StatusCreated, "confirmed")
	})
	mux.HandleFunc("POST /orders/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			send(w, http.StatusNotFound, map[string]any{"error": "no such order"})
			return
		}
		change(w, db, fmt.Sprintf("CANCEL %d", id), http.StatusOK, "cancelled")
	})
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, _ *http.Request) {
		text, err := db.do("LIST")
		if err != nil {
			refuse(w, err)
			return
		}
		send(w, http.StatusOK, map[string]any{"orders": json.RawMessage(text)})
	})
	return mux
}

// change asks db to change an order. The client hears of it only after db has said that it is done.
func change(w http.ResponseWriter, db *client, request string, code int, status string) {
	text, err := db.do(request)
	if err != nil {
		refuse(w, err)
		return
	}
	order, err := strconv.Atoi(text)
	if err != nil {
		refuse(w, fmt.Errorf("db answered %q", text))
		return
	}
	fmt.Printf("{\"status\":%q,\"order\":%d}\n", status, order)
	send(w, code, map[string]any{"status": status, "order": order})
}

func refuse(w http.ResponseWriter, err error) {
	code := http.StatusServiceUnavailable
	if errors.Is(err, errNo) {
		code = http.StatusNotFound
	}
	log.Print(err)
	send(w, code, map[string]any{"error": err.Error()})
}

func send(w http.ResponseWriter, code int, answer map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// An error here means that the client is gone; nobody is left to be told.
	_ = json.NewEncoder(w).Encode(answer)
}

func getenv(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
