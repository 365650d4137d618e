package launch

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// extras puts into the world what only this one has.
func (b *builder) extras() error {
	// Those further up come first, so that none hides another.
	volumes := slices.Clone(b.config.Volumes)
	slices.SortStableFunc(volumes, func(x, y Volume) int { return len(x.Target) - len(y.Target) })
	for _, v := range volumes {
		if err := b.volume(v); err != nil {
			return fmt.Errorf("show %s at %s: %w", v.Source, v.Target, err)
		}
	}
	for _, p := range b.config.Sockets {
		if err := b.socket(p); err != nil {
			return fmt.Errorf("a place for the socket %s: %w", p, err)
		}
	}
	return nil
}

// volume shows the machine's source at target. Nothing that programs write there reaches the machine.
func (b *builder) volume(v Volume) error {
	var st unix.Stat_t
	if err := unix.Stat(storeHost+v.Source, &st); err != nil {
		return err
	}
	target, err := within(storeRoot, v.Target)
	if err != nil {
		return err
	}
	to := storeRoot + target
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if err := os.MkdirAll(path.Dir(to), 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_ = f.Close()
		return b.mountAs(v.Source, target, true)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if v.ReadOnly || len(b.table.below(v.Source)) > 0 {
		return b.bindAt(v.Source, target, true)
	}
	return b.overlayAt(v.Source, target)
}

// socket prepares the place of a Unix socket. One that a program of the machine has there could not be reached from
// the world, and would be in the way.
func (b *builder) socket(p string) error {
	p, err := within(storeRoot, p)
	if err != nil {
		return err
	}
	dir := path.Dir(p)
	if err := b.directory(dir); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(storeRoot+p, &st); err == nil {
		if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			return fmt.Errorf("it is taken by a file")
		}
		if err := os.Remove(storeRoot + p); err != nil {
			return err
		}
	}
	if err := unix.Stat(storeRoot+dir, &st); err != nil {
		return err
	}
	// Where the world's programs have one user, what they may do there is what the owner may. A directory that is not
	// ours stays as it is: then the program says so itself.
	if b.mapped && int(st.Uid) == os.Geteuid() {
		return unix.Chmod(storeRoot+dir, st.Mode&0o7777|0o700)
	}
	return nil
}

// within resolves the symbolic links of a path as somebody sees them whose root directory is root: an absolute link
// such as /var/run leads elsewhere for us. What does not exist yet stays as it is named.
func within(root, p string) (string, error) {
	const most = 40 // as the kernel allows
	done, rest, links := "/", strings.Split(path.Clean(p), "/"), 0
	for len(rest) > 0 {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		to, err := os.Readlink(root + next)
		if err != nil {
			done = next
			continue
		}
		if links++; links > most {
			return "", &fs.PathError{Op: "resolve", Path: p, Err: unix.ELOOP}
		}
		if path.IsAbs(to) {
			done = "/"
		}
		rest = append(strings.Split(path.Clean(to), "/"), rest...)
	}
	return done, nil
}
