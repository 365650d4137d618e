// Command testrun runs the tests of the whole repository and says what they came to.
//
// Root runs everything, and what depends on privileges a second time as an
// ordinary user, in a copy of the tree. Anybody else runs everything once. At the
// end stands each test that was skipped in every pass, with its reason. Where
// CI=true and the user is root, such a test is a failure.
//
// With an argument, only passes whose names contain it are run.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == asUser {
		fmt.Fprintln(os.Stderr, "testrun:", execAsUser(os.Args[2:]))
		os.Exit(1)
	}
	only := strings.Join(os.Args[1:], " ")
	root := os.Geteuid() == 0
	s := newSummary()
	for _, p := range passes(root) {
		if !strings.Contains(p.name, only) {
			s.leftOut = append(s.leftOut, p.name+": not asked for")
			continue
		}
		if err := p.run(s); err != nil {
			fmt.Fprintf(os.Stderr, "testrun: %s: %v\n", p.name, err)
			s.broken = append(s.broken, p.name)
		}
	}
	strict := root && os.Getenv("CI") == "true"
	if !root {
		s.leftOut = append(s.leftOut, "the pass as root: you are not root")
	}
	if !s.print(os.Stdout, strict) {
		os.Exit(1)
	}
}

// pass is one call of go test.
type pass struct {
	name string
	// dir is where its module is.
	dir      string
	packages []string
	// user runs the tests as an ordinary user, in a copy of dir.
	user bool
}

// privileged are the packages whose tests depend on who runs them.
func privileged() []string {
	return []string{"internal/sys", "internal/launch", "internal/intercept", "internal/link", "internal/run", "e2e"}
}

func passes(root bool) []pass {
	all := []pass{{name: "tests", dir: ".", packages: []string{"./..."}}}
	if root {
		p := pass{name: "tests as an ordinary user", dir: ".", user: true}
		for _, dir := range privileged() {
			if _, err := os.Stat(dir); err == nil {
				p.packages = append(p.packages, "./"+dir+"/...")
			}
		}
		all = append(all, p)
	}
	nested, err := filepath.Glob("examples/*/go.mod")
	if err != nil {
		panic(err)
	}
	for _, mod := range nested {
		dir := filepath.Dir(mod)
		all = append(all, pass{name: dir, dir: dir, packages: []string{"./..."}})
	}
	return all
}

func (p pass) run(s *summary) error {
	fmt.Printf("== %s\n", p.name)
	start := time.Now()
	args := []string{"test", "-json", "-count=1", "-timeout=5m"}
	dir := p.dir
	if p.user {
		u, err := newUser(p.dir)
		if err != nil {
			return err
		}
		defer u.close()
		dir = u.tree()
		args = append(args, "-exec", u.command())
	}
	cmd := exec.Command("go", append(args, p.packages...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failed, readErr := s.read(out, os.Stdout)
	err = cmd.Wait()
	fmt.Printf("   %.1f s\n", time.Since(start).Seconds())
	switch {
	case readErr != nil:
		return readErr
	case err != nil && failed:
		// Said already, test by test.
		return nil
	case err != nil:
		return fmt.Errorf("go %s: %w", strings.Join(cmd.Args[1:], " "), err)
	case failed:
		return errors.New("go test succeeded although a test failed")
	}
	return nil
}
