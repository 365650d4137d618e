package launch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// copyLimit is the size up to which a lone file is copied; above it is shown read-only.
const copyLimit = 64 << 10

// file puts a file that no overlay covers into the world: a copy where it is small, else the
// machine's own, read-only.
func (b *builder) file(p string) error {
	if path.Dir(p) == "/etc" && (p == "/etc/hosts" || p == "/etc/hostname") {
		return b.writeEtc(storeRoot + "/etc")
	}
	var st unix.Stat_t
	if err := unix.Lstat(storeHost+p, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size <= copyLimit {
		if err := copyFile(storeHost+p, storeRoot+p, fs.FileMode(st.Mode&0o777)); err == nil {
			if err := os.Chown(storeRoot+p, int(st.Uid), int(st.Gid)); !b.mapped {
				return err
			}
			return nil
		}
	}
	f, err := os.OpenFile(storeRoot+p, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_ = f.Close()
	return b.mountBind(p, !device(st.Mode))
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	if err := out.Chmod(mode); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

// writeEtc writes the world's own names into dir.
func (b *builder) writeEtc(dir string) error {
	var s strings.Builder
	s.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.0.1\t" + b.hostname() + "\n")
	for _, h := range b.config.Hosts {
		fmt.Fprintf(&s, "%s\t%s\n", h.Addr, h.Name)
	}
	if err := writePublic(dir+"/hosts", s.String()); err != nil {
		return err
	}
	return writePublic(dir+"/hostname", b.hostname()+"\n")
}

func writePublic(name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	return unix.Chmod(name, 0o644)
}

func (b *builder) hostname() string {
	if b.config.Hostname != "" {
		return b.config.Hostname
	}
	return "squall"
}

// system mounts what shows the kernel.
func (b *builder) system() error {
	for _, p := range []string{"/dev", "/sys"} {
		if err := b.bind(p, false); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if err := os.Mkdir(storeRoot+"/proc", 0o555); err != nil {
		return err
	}
	if err := unix.Mount("proc", storeRoot+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	size := b.config.Size
	if size == "" {
		size = "50%"
	}
	err := unix.Mount("squall", storeRoot+"/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size="+size)
	return ignoreMissing(err)
}

// directory makes p, empty and writable for everybody, unless something is there.
func (b *builder) directory(p string) error {
	if !path.IsAbs(p) {
		return errors.New("not an absolute path")
	}
	if _, err := os.Stat(storeRoot + p); err == nil {
		return nil
	}
	if err := os.MkdirAll(storeRoot+path.Dir(p), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(storeRoot+p, 0o777); err != nil {
		return err
	}
	b.layout.reached = append(b.layout.reached, p)
	return os.Chmod(storeRoot+p, 0o777|fs.ModeSticky)
}

// finish makes the assembled root the root and lets go of the machine's.
func (b *builder) finish(cwd string) error {
	if err := b.mirrorRoot(); err != nil {
		return err
	}
	if err := os.Chdir(storeRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("enter the world's root: %w", err)
	}
	// The old root now lies over the new one.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the machine's root: %w", err)
	}
	if err := os.Chdir(cwd); err != nil {
		if err := os.Chdir("/"); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte(b.hostname())); err != nil {
		return fmt.Errorf("set hostname: %w", err)
	}
	b.layout.Temp = os.TempDir()
	return nil
}

// mirrorRoot gives the world's root directory the permissions of the machine's.
func (b *builder) mirrorRoot() error {
	mode := uint32(0o755)
	if b.mapped && unix.Access(storeHost, unix.W_OK) != nil {
		mode = 0o555
	}
	return unix.Chmod(storeRoot, mode)
}
