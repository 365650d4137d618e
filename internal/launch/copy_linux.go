package launch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// Space returns the bound of what the world's programs can write, and how much of it is left, in bytes.
// Both are 0 in ModeShared.
func (l *Layout) Space() (total, free int64, err error) {
	if l.shared {
		return 0, 0, nil
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(l.store.Fd()), &st); err != nil {
		return 0, 0, fmt.Errorf("launch: space: %w", err)
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil
}

// Remove removes what Setup left on the machine: nothing, but in ModeShared Temp.
func (l *Layout) Remove() error {
	if l.shared {
		return os.RemoveAll(l.Temp)
	}
	return l.store.Close()
}

// CopyOut copies the tree at src, as the world sees it, into the directory dst of the machine, which
// was opened before Setup or handed in as an extra file. It returns how many files were copied.
// Regular files, directories and symbolic links are copied, others left out.
func (l *Layout) CopyOut(src string, dst *os.File) (int, error) {
	n, err := copyOut(src, dst, ".")
	if err != nil {
		return n, fmt.Errorf("launch: copy out: %w", err)
	}
	return n, nil
}

// CopyChanges copies all that was written in the world into dst, at the paths that it has in the
// world. What was removed is left out. In ModeShared it copies Temp.
func (l *Layout) CopyChanges(dst *os.File) (int, error) {
	if l.shared {
		return l.CopyOut(l.Temp, dst)
	}
	total := 0
	store := "/proc/self/fd/" + strconv.Itoa(int(l.store.Fd()))
	for _, u := range l.uppers {
		n, err := copyOut(store+storeUpper+"/"+u.name, dst, "."+u.dir)
		total += n
		if err != nil {
			return total, fmt.Errorf("launch: copy changes: %w", err)
		}
	}
	for _, d := range l.reached {
		n, err := copyOut(d, dst, "."+d)
		total += n
		if err != nil {
			return total, fmt.Errorf("launch: copy changes: %w", err)
		}
	}
	return total, nil
}

// copyOut copies src to the place to within dst. os.Root keeps a link that a program made from
// leading out of dst.
func copyOut(src string, dst *os.File, to string) (int, error) {
	root, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(dst.Fd())))
	if err != nil {
		return 0, err
	}
	defer root.Close()
	n := 0
	err = fs.WalkDir(os.DirFS(src), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a program removed it meanwhile
			}
			return err
		}
		copied, err := copyEntry(root, path.Join(src, name), path.Join(to, name), d.Type())
		if copied {
			n++
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return n, err
}

func copyEntry(root *os.Root, from, to string, t fs.FileMode) (bool, error) {
	switch {
	case t.IsDir():
		return false, root.MkdirAll(to, 0o755)
	case t&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return false, err
		}
		return true, root.Symlink(target, to)
	case t.IsRegular():
		return true, copyRegular(root, from, to)
	}
	return false, nil
}

func copyRegular(root *os.Root, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
