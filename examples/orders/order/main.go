// Command order takes orders over HTTP and reserves stock with inventory.
//
//	GET  /health
//	GET  /inventory/{sku}    the quantity that is left
//	POST /orders             {"sku": "widget", "qty": 1}
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	http.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	http.HandleFunc("GET /inventory/{sku}", check)
	http.HandleFunc("POST /orders", order)
	log.Fatal(http.ListenAndServe(":"+os.Getenv("PORT"), nil))
}

// ask sends one line to inventory, on a connection of its own, and returns the answer.
func ask(line string) (string, error) {
	conn, err := net.DialTimeout("tcp", os.Getenv("INVENTORY"), 2*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	fmt.Fprintln(conn, line)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

func check(w http.ResponseWriter, r *http.Request) {
	sku := r.PathValue("sku")
	left, err := ask("CHECK " + sku)
	switch {
	case err != nil:
		reply(w, http.StatusServiceUnavailable, map[string]any{"error": reason(err)})
	case left == "NONE":
		reply(w, http.StatusNotFound, map[string]any{"error": "no such thing"})
	default:
		reply(w, http.StatusOK, map[string]any{"sku": sku, "left": left})
	}
}

func order(w http.ResponseWriter, r *http.Request) {
	var req struct {
		SKU string `json:"sku"`
		Qty int    `json:"qty"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.SKU == "" {
		reply(w, http.StatusBadRequest, map[string]any{"error": "sku and qty are needed"})
		return
	}
	answer, err := ask(fmt.Sprintf("RESERVE %s %d", req.SKU, max(req.Qty, 1)))
	if err != nil {
		reply(w, http.StatusServiceUnavailable, map[string]any{"status": "failed", "error": reason(err)})
		return
	}
	left, ok := strings.CutPrefix(answer, "OK ")
	if !ok {
		reply(w, http.StatusConflict, map[string]any{"status": "failed", "error": answer})
		return
	}
	reply(w, http.StatusOK, map[string]any{"status": "confirmed", "left": left})
}

// reason leaves addresses out of an error: the port that a connection came from differs each time.
func reason(err error) string {
	var at *net.OpError
	if errors.As(err, &at) {
		return at.Op + ": " + at.Err.Error()
	}
	return err.Error()
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Print(err)
	}
}
