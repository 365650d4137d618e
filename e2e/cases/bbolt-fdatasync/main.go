// Keeps values in a bbolt database: "put KEY" and "get KEY".
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"

	"go.etcd.io/bbolt"
)

func main() {
	db, err := bbolt.Open("/tmp/"+os.Args[1]+".db", 0o600, &bbolt.Options{NoSync: os.Args[1] == "nosync"})
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists([]byte("b"))
			return err
		})
	}
	var l net.Listener
	if err == nil {
		l, err = net.Listen("tcp", ":7000")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for in := bufio.NewScanner(c); in.Scan(); {
				verb, key, _ := strings.Cut(in.Text(), " ")
				text, err := do(db, verb, []byte(key))
				if err != nil {
					text = "error " + err.Error()
				}
				fmt.Fprintln(c, text)
			}
		}()
	}
}

func do(db *bbolt.DB, verb string, key []byte) (text string, err error) {
	if verb == "put" {
		return "ok", db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("b")).Put(key, []byte("v")) })
	}
	err = db.View(func(tx *bbolt.Tx) error {
		text = string(tx.Bucket([]byte("b")).Get(key))
		return nil
	})
	return text, err
}
