// Writes and reads a file, by package os or by system calls: "os write", "syscall read".
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"syscall"
)

const path = "/tmp/file"

func main() {
	l, err := net.Listen("tcp", ":7000")
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
				text, err := do(in.Text())
				if err != nil {
					text = "error " + err.Error()
				}
				fmt.Fprintln(c, text)
			}
		}()
	}
}

func do(line string) (string, error) {
	switch line {
	case "os write":
		return "ok", os.WriteFile(path, []byte("text"), 0o600)
	case "os read":
		b, err := os.ReadFile(path)
		return "ok " + string(b), err
	case "syscall write":
		fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		defer syscall.Close(fd)
		_, err = syscall.Write(fd, []byte("text"))
		return "ok", err
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer syscall.Close(fd)
	b := make([]byte, 16)
	n, err := syscall.Read(fd, b)
	return "ok " + string(b[:max(n, 0)]), err
}
