package launch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// HostEntry is a name and the address that it stands for in the world.
type HostEntry struct {
	Name string
	Addr netip.Addr
}

// Config says how the world looks from inside.
type Config struct {
	// Hostname is the world's own; "squall" where empty.
	Hostname string
	// Hosts become lines of /etc/hosts, after localhost's.
	Hosts []HostEntry
	// Dirs are absolute paths that exist, empty and writable, where the machine lacks them. /data
	// is always one of them.
	Dirs []string
	// Volumes show files of the machine at other places.
	Volumes []Volume
	// Sockets are absolute paths where the world's programs will make Unix sockets: the directory exists and may be
	// written to, and nothing of the machine's lies there.
	Sockets []string
	// Size bounds all that the world's programs write, in the notation of tmpfs(5); "50%" (of memory)
	// where empty.
	Size string
}

// Volume shows a directory or file of the machine at another place of the world.
type Volume struct {
	// Source is the machine's path, Target the world's; both are absolute and have no symbolic links.
	Source, Target string
	// ReadOnly refuses writes. Otherwise those below a directory are kept in memory; a file is always read-only.
	ReadOnly bool
}

// Layout is what Setup built.
type Layout struct {
	// ReadOnly are directories of the machine that could not be overlaid: they show the machine's
	// files and refuse writes.
	ReadOnly []string
	// Temp is a directory for the world's own use; in ModeShared it is on the machine, and Remove
	// removes it.
	Temp string

	store   *os.File
	uppers  []upper
	shared  bool
	reached []string // directories whose files lie in the world's root itself
}

// upper is where the writes below a directory of the world are kept.
type upper struct {
	dir  string
	name string
}

// Names within the world's store, a tmpfs that is the root while the world is being built.
const (
	storeHost  = "/host"
	storeRoot  = "/root"
	storeUpper = "/upper"
	storeWork  = "/work"
)

// Setup gives the world its files: the machine's, with every write kept in memory, and a /proc,
// /etc/hosts, /dev/shm and hostname of its own. It is called once, before any program is started.
func (in *Inside) Setup(c Config) (*Layout, error) {
	if in.Mode == ModeShared {
		return setupShared()
	}
	l, err := setup(c)
	if err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			return nil, fmt.Errorf("launch: setup: %w: %w", ErrNoNamespaces, err)
		}
		return nil, fmt.Errorf("launch: setup: %w", err)
	}
	return l, nil
}

func setupShared() (*Layout, error) {
	dir, err := os.MkdirTemp("", "squall-world-")
	if err != nil {
		return nil, fmt.Errorf("launch: setup: %w", err)
	}
	return &Layout{Temp: dir, shared: true}, nil
}

func setup(c Config) (*Layout, error) {
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "/"
	}
	table, err := readMounts()
	if err != nil {
		return nil, err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	store, err := mountStore(c.Size)
	if err != nil {
		return nil, err
	}
	b := &builder{table: table, mapped: inUserNamespace(), layout: &Layout{store: store}, config: c}
	if err := b.build(); err != nil {
		_ = store.Close()
		return nil, err
	}
	if err := b.finish(cwd); err != nil {
		_ = store.Close()
		return nil, err
	}
	return b.layout, nil
}

// mountStore makes a tmpfs the root, with the machine's root at storeHost.
func mountStore(size string) (*os.File, error) {
	if size == "" {
		size = "50%"
	}
	const at = "/tmp" // any directory will do: what lies below is found again under storeHost
	if err := unix.Mount("squall", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size="+size); err != nil {
		return nil, fmt.Errorf("mount the world's store: %w", err)
	}
	for _, d := range []string{storeHost, storeRoot, storeUpper, storeWork} {
		if err := os.Mkdir(at+d, 0o755); err != nil {
			return nil, err
		}
	}
	if err := unix.PivotRoot(at, at+storeHost); err != nil {
		return nil, fmt.Errorf("enter the world's store: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return nil, err
	}
	// pivot_root wants a mount point.
	if err := unix.Mount(storeRoot, storeRoot, "", unix.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("bind the world's root: %w", err)
	}
	return os.Open("/")
}

// inUserNamespace reports whether this process lives in a user namespace other than the machine's.
func inUserNamespace() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || !slices.Equal(strings.Fields(string(b)), []string{"0", "0", "4294967295"})
}

// builder assembles the root of a world below storeRoot.
type builder struct {
	table  mountTable
	mapped bool // in a user namespace: some owners cannot be kept, mounts of the machine are locked together
	layout *Layout
	config Config
	count  int
}

func (b *builder) build() error {
	entries, err := os.ReadDir(storeHost)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch p := "/" + e.Name(); p {
		case "/proc", "/sys", "/dev":
		default:
			if err := b.place(p, e.Type()); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
	}
	if err := b.system(); err != nil {
		return err
	}
	for _, d := range append([]string{"/data"}, b.config.Dirs...) {
		if err := b.directory(path.Clean(d)); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return b.extras()
}

// place puts what is at p on the machine at p in the world. A mount that cannot be looked at is left
// out: the world's programs could not look at it either.
func (b *builder) place(p string, t fs.FileMode) error {
	switch {
	case t&fs.ModeSymlink != 0:
		to, err := os.Readlink(storeHost + p)
		if err != nil {
			return err
		}
		return os.Symlink(to, storeRoot+p)
	case !t.IsDir():
		return b.file(p)
	}
	below := b.table.below(p)
	at, mounted := b.mountAt(p)
	if mounted && at.virtual() {
		return b.bind(p, false)
	}
	if len(below) > 0 && b.mapped {
		return b.descend(p)
	}
	if len(below) == 0 && empty(storeHost+p) {
		// Nothing to overlay: a directory of the world's own does the same, and costs a tenth.
		b.layout.reached = append(b.layout.reached, p)
		return b.mirror(p, storeRoot+p)
	}
	if err := b.overlay(p); err != nil {
		return err
	}
	for _, m := range below {
		if err := b.nested(m); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}

func empty(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// mountAt returns what is mounted exactly at p.
func (b *builder) mountAt(p string) (mount, bool) {
	for i := len(b.table) - 1; i >= 0; i-- {
		if b.table[i].path == p {
			return b.table[i], true
		}
	}
	return mount{}, false
}

// nested puts a mount of the machine onto the overlay of the directory that it is in.
func (b *builder) nested(m mount) error {
	if m.kind == "autofs" {
		return nil // looking at it would mount something on the machine
	}
	var st unix.Stat_t
	if err := unix.Lstat(storeHost+m.path, &st); err != nil {
		return nil
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || m.virtual() {
		return ignoreMissing(b.mountBind(m.path, st.Mode&unix.S_IFMT != unix.S_IFDIR && !device(st.Mode)))
	}
	return ignoreMissing(b.overlayOr(m.path))
}

func device(mode uint32) bool {
	t := mode & unix.S_IFMT
	return t == unix.S_IFCHR || t == unix.S_IFBLK
}

// ignoreMissing: a mount point that an overlay does not show cannot be mounted on.
func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// overlay makes the directory p and overlays the machine's.
func (b *builder) overlay(p string) error {
	if err := os.Mkdir(storeRoot+p, 0o755); err != nil {
		return err
	}
	return b.overlayOr(p)
}

// overlayOr overlays the machine's p on the world's p or, where that cannot be, shows it read-only.
func (b *builder) overlayOr(p string) error { return b.overlayAt(p, p) }

// overlayAt is overlayOr for a place of another name.
func (b *builder) overlayAt(from, p string) error {
	name := strconv.Itoa(b.count)
	b.count++
	up, work := storeUpper+"/"+name, storeWork+"/"+name
	if err := b.mirror(from, up); err != nil {
		return err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	if p == "/etc" {
		if err := b.writeEtc(up); err != nil {
			return err
		}
	}
	options := "lowerdir=" + overlayOption(storeHost+from) + ",upperdir=" + up + ",workdir=" + work
	if b.mapped {
		options += ",userxattr"
	}
	if err := unix.Mount("squall", storeRoot+p, "overlay", 0, options); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return err
		}
		return b.bindAt(from, p, true)
	}
	b.layout.uppers = append(b.layout.uppers, upper{dir: p, name: name})
	return nil
}

// mirror makes a directory that allows this process's programs what the machine's p allows them.
func (b *builder) mirror(p, to string) error {
	var st unix.Stat_t
	if err := unix.Stat(storeHost+p, &st); err != nil {
		return err
	}
	mode := st.Mode & 0o7777
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if err := os.Chown(to, int(st.Uid), int(st.Gid)); err != nil {
		if !b.mapped {
			return err
		}
		// The directory becomes ours, so what others may do is what we may do: no creating of
		// files where the machine would refuse it.
		bits := mode & 7
		if int(st.Gid) == os.Getegid() {
			bits |= mode >> 3 & 7
		}
		mode = mode&^0o700 | bits<<6
	}
	// Owners outside the map show as 65534, which may be our number too: ask the kernel itself.
	if b.mapped && unix.Access(storeHost+p, unix.W_OK) != nil {
		mode &^= 0o222
	}
	return unix.Chmod(to, mode)
}

// bind shows the machine's p with all that is mounted below it; closed means read-only.
func (b *builder) bind(p string, closed bool) error { return b.bindAt(p, p, closed) }

// bindAt is bind for a place of another name.
func (b *builder) bindAt(from, p string, closed bool) error {
	if err := os.Mkdir(storeRoot+p, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if closed {
		b.layout.ReadOnly = append(b.layout.ReadOnly, p)
	}
	return b.mountAs(from, p, closed)
}

func (b *builder) mountBind(p string, closed bool) error { return b.mountAs(p, p, closed) }

func (b *builder) mountAs(from, p string, closed bool) error {
	if err := unix.Mount(storeHost+from, storeRoot+p, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if !closed {
		return nil
	}
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, storeRoot+p, unix.AT_RECURSIVE, attr); err != nil {
		return fmt.Errorf("make read-only: %w", err)
	}
	return nil
}

// descend makes the directory p itself and places each of its entries. In a user namespace an
// overlay over a directory with mounts below it is refused, since it would show what they hide.
func (b *builder) descend(p string) error {
	entries, err := os.ReadDir(storeHost + p)
	if errors.Is(err, fs.ErrPermission) {
		return b.bind(p, true)
	}
	if err != nil {
		return err
	}
	if err := b.mirror(p, storeRoot+p); err != nil {
		return err
	}
	for _, e := range entries {
		child := path.Join(p, e.Name())
		if m, ok := b.mountAt(child); ok && m.kind == "autofs" {
			continue
		}
		if err := b.place(child, e.Type()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", child, err)
		}
	}
	return nil
}
