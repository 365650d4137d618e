// Command site builds the documentation as HTML: every page of docs, in the order of docs/pages.txt.
//
//	go run ./scripts/site -o bin/docs
//
// It needs no network, and so do the pages.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	from := flag.String("docs", "docs", "where the pages are")
	to := flag.String("o", "bin/docs", "where the site is written")
	flag.Parse()
	n, err := build(*from, *to)
	if err != nil {
		fmt.Fprintf(os.Stderr, "site: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", n, *to)
}
