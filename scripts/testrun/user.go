package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// asUser is the first argument by which go test calls this program for each test binary.
const asUser = "as-user"

// nobody is the ordinary user: the one that has no rights on any Debian system.
const nobody = 65534

// user is an ordinary user with a place of his own and a copy of the tree.
type user struct{ dir string }

func newUser(tree string) (*user, error) {
	dir, err := os.MkdirTemp("", "squall-user-")
	if err != nil {
		return nil, err
	}
	u := &user{dir}
	if err := u.fill(tree); err != nil {
		u.close()
		return nil, fmt.Errorf("a place for an ordinary user: %w", err)
	}
	return u, nil
}

func (u *user) fill(tree string) error {
	for _, d := range []string{u.home(), u.temp(), u.binaries()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := copyTree(tree, u.tree()); err != nil {
		return err
	}
	if err := os.Chmod(u.dir, 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(u.dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, nobody, nobody)
	})
}

func (u *user) tree() string     { return filepath.Join(u.dir, "tree") }
func (u *user) home() string     { return filepath.Join(u.dir, "home") }
func (u *user) temp() string     { return filepath.Join(u.dir, "tmp") }
func (u *user) binaries() string { return filepath.Join(u.dir, "binaries") }

// command is what go test puts before each test binary.
func (u *user) command() string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s %s %s", self, asUser, u.dir)
}

func (u *user) close() {
	if err := os.RemoveAll(u.dir); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
}

// execAsUser becomes the ordinary user and runs a test binary: the user's place, the binary, its
// arguments. The binary lies where only root can read, so a copy is run. It returns only an error.
func execAsUser(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("%s: a directory and a program are needed", asUser)
	}
	u := &user{args[0]}
	f, err := os.CreateTemp(u.binaries(), "*-"+filepath.Base(args[1]))
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Chmod(0o755); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return err
	}
	id := strconv.Itoa(nobody)
	argv := append([]string{"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups", "--inh-caps=-all", "--", f.Name()}, args[2:]...)
	env := append(os.Environ(), "HOME="+u.home(), "TMPDIR="+u.temp(), "USER=nobody", "LOGNAME=nobody",
		"GOCACHE="+filepath.Join(u.home(), "go-build"))
	return fmt.Errorf("exec: %w", syscall.Exec(setpriv, argv, env))
}

// copyTree copies what a test may need: all but version control, fetched packages and kept runs.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir() && slices.Contains([]string{".git", ".squall", "node_modules"}, d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return makeDir(target, d)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case !d.Type().IsRegular():
			return nil
		}
		return copyFile(p, target, d)
	})
}

// makeDir makes a directory with the permissions of another: PostgreSQL insists on those of its data.
func makeDir(target string, like fs.DirEntry) error {
	info, err := like.Info()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return os.Chmod(target, info.Mode().Perm())
}

func copyFile(from, to string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}
