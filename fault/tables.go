package fault

import "slices"

// Family is a group of system calls that do the same thing to a program.
type Family struct {
	Name  string
	Doc   string
	Calls []string
	// On is what the family's rules apply to when the spec does not say.
	On []Descriptor
	// Descriptor is the index of the argument that is the descriptor, or -1.
	Descriptor int
	// Path is the index of the argument that is the path, or -1. PathAt is the index of its
	// directory descriptor, or -1.
	Path, PathAt int
}

// Families is the table of families, from which keywords, filters and the reference come.
func Families() []Family {
	file, sock := []Descriptor{File}, []Descriptor{Socket}
	return []Family{
		{"open", "opening or creating a file", []string{"openat", "open", "creat", "openat2"}, file, -1, 1, 0},
		{"read", "reading from a file", []string{"read", "readv", "pread64", "preadv", "preadv2"}, file, 0, -1, -1},
		{"write", "writing to a file", []string{
			"write", "writev", "pwrite64", "pwritev", "pwritev2", "sendfile", "copy_file_range", "splice",
		}, file, 0, -1, -1},
		{"fsync", "forcing a file to disk", []string{"fsync", "fdatasync", "sync_file_range", "syncfs"}, file, 0, -1, -1},
		{"close", "closing a file", []string{"close"}, file, 0, -1, -1},
		{"truncate", "changing a file's length", []string{"ftruncate", "fallocate"}, file, 0, -1, -1},
		{"rename", "renaming a file", []string{"rename", "renameat", "renameat2"}, nil, -1, 1, 0},
		{"unlink", "removing a file", []string{"unlink", "unlinkat", "rmdir"}, nil, -1, 1, 0},
		{"mkdir", "making a directory", []string{"mkdir", "mkdirat"}, nil, -1, 1, 0},
		{"stat", "asking about a file", []string{"stat", "lstat", "newfstatat", "statx"}, nil, -1, 1, 0},
		{"connect", "connecting a socket", []string{"connect"}, sock, 0, -1, -1},
		{"bind", "binding a socket", []string{"bind"}, sock, 0, -1, -1},
		{"listen", "listening on a socket", []string{"listen"}, sock, 0, -1, -1},
		{"accept", "accepting a connection", []string{"accept", "accept4"}, sock, 0, -1, -1},
		{"socket", "making a socket", []string{"socket"}, nil, -1, -1, -1},
		{"send", "sending on a socket", []string{"sendto", "sendmsg", "sendmmsg"}, sock, 0, -1, -1},
		{"recv", "receiving from a socket", []string{"recvfrom", "recvmsg", "recvmmsg"}, sock, 0, -1, -1},
		{"access", "asking whether a file may be used", []string{"access", "faccessat", "faccessat2"}, nil, -1, 1, 0},
		{"readlink", "reading a symbolic link", []string{"readlink", "readlinkat"}, nil, -1, 1, 0},
		{"link", "giving a file a second name", []string{"link", "linkat"}, nil, -1, 1, 0},
		{"symlink", "making a symbolic link", []string{"symlink", "symlinkat"}, nil, -1, 2, 1},
		{"chmod", "changing a file's mode", []string{"chmod", "fchmodat"}, nil, -1, 1, 0},
		{"chown", "changing a file's owner", []string{"chown", "fchownat"}, nil, -1, 1, 0},
		{"utime", "changing a file's times", []string{"utimensat"}, nil, -1, 1, 0},
		{"readdir", "listing a directory", []string{"getdents64", "getdents"}, nil, 0, -1, -1},
		{"seek", "moving in a file", []string{"lseek"}, file, 0, -1, -1},
		{"lock", "locking a file as a whole", []string{"flock"}, file, 0, -1, -1},
		{"fcntl", "flags and record locks of a descriptor", []string{"fcntl"}, nil, 0, -1, -1},
		{"ioctl", "asking a device", []string{"ioctl"}, nil, 0, -1, -1},
		{"shutdown", "ending one way of a connection", []string{"shutdown"}, sock, 0, -1, -1},
		{"setsockopt", "setting an option of a socket", []string{"setsockopt"}, sock, 0, -1, -1},
		{"poll", "waiting for descriptors", []string{
			"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait",
		}, nil, -1, -1, -1},
		{"sleep", "sleeping", []string{"nanosleep", "clock_nanosleep"}, nil, -1, -1, -1},
		{"random", "asking for random bytes", []string{"getrandom"}, nil, -1, -1, -1},
		{"wait", "waiting for a child", []string{"wait4", "waitid"}, nil, -1, -1, -1},
		{"kill", "sending a signal", []string{"kill", "tgkill"}, nil, -1, -1, -1},
		{"mmap", "mapping memory or a file", []string{"mmap"}, nil, 4, -1, -1},
		{"fork", "starting a process or thread", []string{"clone", "clone3", "fork", "vfork"}, nil, -1, -1, -1},
		{"exec", "running a program", []string{"execve", "execveat"}, nil, -1, 0, -1},
		// It stands last: calls that are in another family too are looked up there.
		{Exhaustion, "making a descriptor of any sort: the table of open files is full", []string{
			"openat", "open", "creat", "openat2", "socket", "socketpair", "accept", "accept4", "dup", "dup2", "dup3", "pipe", "pipe2",
			"eventfd2", "epoll_create1", "timerfd_create", "memfd_create", "pidfd_open",
		}, nil, -1, -1, -1},
	}
}

// Exhaustion is the family of calls that fail where no more descriptors can be had: descriptor = deny("EMFILE").
const Exhaustion = "descriptor"

// FamilyOf returns the family of a name: a family's own, or one that holds a call of that name, in
// which case the result has that call only.
func FamilyOf(name string) (Family, bool) {
	for _, f := range Families() {
		if f.Name == name {
			return f, true
		}
	}
	for _, f := range Families() {
		if slices.Contains(f.Calls, name) {
			f.Name, f.Calls = name, []string{name}
			if name == "copy_file_range" || name == "splice" {
				f.Descriptor = 2 // where it writes to; the first argument is where it reads from
			}
			return f, true
		}
	}
	return Family{}, false
}

// LinkRow describes one kind of link effect.
type LinkRow struct {
	Kind LinkKind
	Doc  string
	// Stream and Datagram say on which sorts of link it can act.
	Stream, Datagram bool
	// Connect says that it acts on the opening of a connection.
	Connect bool
	// OwnedNetwork says that it needs a network namespace that Squall owns.
	OwnedNetwork bool
}

// LinkKinds is the table of link effects, from which builtins, checks and the reference come.
func LinkKinds() []LinkRow {
	return []LinkRow{
		{Latency, "bytes arrive later, each delivery once, without blocking the sender", true, true, true, false},
		{Bandwidth, "bytes arrive at a limited rate, and the sender feels it", true, true, false, false},
		{Reset, "the connection ends with RST; data in flight is lost", true, false, false, false},
		{Refuse, "new connections get ECONNREFUSED", true, false, true, false},
		{TimeOut, "new connections get no answer and fail with ETIMEDOUT after the given time", true, false, true, true},
		{Blackhole, "nothing passes and nothing is acknowledged, in the given direction", true, true, true, true},
		{HalfOpen, "the server is gone without a word: what the client sends is not acknowledged", true, false, false, true},
		{Cut, "the connection ends after so many bytes, by FIN or by RST", true, false, false, false},
		{Partition, "as with a pulled cable between two services; heals when lifted", true, true, true, true},
		{Loss, "datagrams are lost", false, true, false, false},
		{Duplicate, "datagrams arrive more than once", false, true, false, false},
		{Reorder, "datagrams overtake each other", false, true, false, false},
	}
}

// LinkKindOf returns the row of a kind.
func LinkKindOf(k LinkKind) (LinkRow, bool) {
	for _, r := range LinkKinds() {
		if r.Kind == k {
			return r, true
		}
	}
	return LinkRow{}, false
}
