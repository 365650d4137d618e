// Command pg starts PostgreSQL on a copy of a prepared database.
//
//	pg template DIR          prepares a database in DIR: the shop's table with 16 orders
//	pg run TEMPLATE DATA     copies TEMPLATE to DATA and becomes the server
//
// PostgreSQL refuses to run as root; root becomes the user postgres, or nobody, first.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// bin is where Debian puts PostgreSQL's programs.
const bin = "/usr/lib/postgresql/15/bin/"

const schema = `
CREATE TABLE orders (id bigserial PRIMARY KEY, item text NOT NULL, qty int NOT NULL, cancelled bool NOT NULL DEFAULT false);
INSERT INTO orders (item, qty) SELECT 'sample', 1 FROM generate_series(1, 16);
`

const config = `
listen_addresses = '*'
unix_socket_directories = ''
fsync = on
shared_buffers = 16MB
max_connections = 20
max_wal_senders = 0
wal_level = minimal
autovacuum = off
dynamic_shared_memory_type = sysv
restart_after_crash = on
`

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "template":
		err = template(args[1])
	case len(args) == 3 && args[0] == "run":
		err = serve(args[1], args[2])
	default:
		err = errors.New("usage: pg template DIR | pg run TEMPLATE DATA")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pg:", err)
		os.Exit(1)
	}
}

// template makes the database once, so that a leaf need not wait for initdb.
func template(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err == nil {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	// The database is made where its owner may write, and moved when it is whole.
	work, err := os.MkdirTemp("", "squall-pg-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	owner, err := ordinary()
	if err != nil {
		return err
	}
	if owner != nil {
		if err := os.Chown(work, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	data := filepath.Join(work, "data")
	command := func(input, name string, args ...string) error {
		cmd := exec.Command(bin+name, args...)
		cmd.Dir = work
		cmd.Stdin = strings.NewReader(input)
		if owner != nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		return nil
	}
	if err := command("", "initdb", "-D", data, "-U", "shop", "--auth=trust", "--no-sync", "--wal-segsize=1", "--locale=C.UTF-8"); err != nil {
		return err
	}
	if err := command("CREATE DATABASE shop\n", "postgres", "--single", "-D", data, "postgres"); err != nil {
		return err
	}
	if err := command(strings.ReplaceAll(schema, ";\n", ";\n\n"), "postgres", "--single", "-j", "-D", data, "shop"); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(f, config); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return copyTree(data, dir)
}

// serve becomes the server.
func serve(from, data string) error {
	if err := copyTree(from, data); err != nil {
		return err
	}
	// PostgreSQL insists on it, whatever became of the template on its way.
	if err := os.Chmod(data, 0o700); err != nil {
		return err
	}
	owner, err := ordinary()
	if err != nil {
		return err
	}
	if owner != nil {
		if err := become(*owner, data); err != nil {
			return err
		}
	}
	return fmt.Errorf("exec: %w", syscall.Exec(bin+"postgres", []string{"postgres", "-D", data}, os.Environ()))
}

// ordinary returns whom root has to become, or nil for anybody else.
func ordinary() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return &syscall.Credential{Uid: 65534, Gid: 65534}, nil
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// become gives data to a user and becomes it.
func become(c syscall.Credential, data string) error {
	err := filepath.WalkDir(data, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, int(c.Uid), int(c.Gid))
	})
	if err != nil {
		return err
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := syscall.Setgid(int(c.Gid)); err != nil {
		return fmt.Errorf("setgid: %w", err)
	}
	if err := syscall.Setuid(int(c.Uid)); err != nil {
		return fmt.Errorf("setuid: %w", err)
	}
	return nil
}

// copyTree copies files and directories with their permissions.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(target, info.Mode().Perm())
		}
		content, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, info.Mode().Perm())
	})
}
