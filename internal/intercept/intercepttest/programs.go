//go:build linux

package intercepttest

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/spec"
)

func programCases() []testCase {
	return []testCase{
		{"static program", testStatic, nil},
		{"shell", testShell, nil},
		{"python3", testPython, nil},
		{"foreign calls", testForeign, nil},
		{"a filter of its own", testOwnListener, nil},
	}
}

// compile builds a C program; the case is skipped where that is not possible.
func compile(t *testing.T, source string, flags ...string) spec.Process {
	t.Helper()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "p.c"), filepath.Join(dir, "p")
	if err := os.WriteFile(from, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc, which is not on this machine")
	}
	if out, err := exec.Command("gcc", append(flags, "-O1", "-o", to, from)...).CombinedOutput(); err != nil {
		t.Skipf("gcc %s cannot build here: %v: %s", strings.Join(flags, " "), err, out)
	}
	return spec.Process{Path: to, Args: []string{"p"}, Env: os.Environ()}
}

func testStatic(t *testing.T, b intercept.Backend) {
	dir := filepath.Join(t.TempDir(), "d")
	p := compile(t, `
#include <stdio.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
int main(int argc, char **argv) {
	if (mkdirat(AT_FDCWD, argv[1], 0755) == 0) puts("ok"); else printf("%d\n", errno);
	return 0;
}`, "-static")
	f, err := elf.Open(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range f.Progs {
		if s.Type == elf.PT_INTERP {
			t.Fatal("the program is not static")
		}
	}
	p.Args = append(p.Args, dir)
	pr := begin(t, b, p, mkdirs())
	pr.reply(pr.next(), deny(unix.ENOSPC))
	pr.serve(allow)
	pr.expect("28")
}

func testShell(t *testing.T, b intercept.Backend) {
	file := filepath.Join(t.TempDir(), "f")
	sub := intercept.Subscription{Calls: []string{"openat", "open", "creat"}}
	p := begin(t, b, command(t, "sh", "-c", "if (: > "+file+") 2>/dev/null; then echo yes; else echo no; fi"), sub)
	p.serve(func(c intercept.Call) intercept.Reply {
		at := map[string]int{"openat": 1}[c.Name]
		if path, _ := intercept.ReadString(p.s, c, c.Args[at], 4096); path == file {
			return deny(unix.EROFS)
		}
		return intercept.Reply{}
	})
	p.expect("no")
}

func testPython(t *testing.T, b intercept.Backend) {
	file := filepath.Join(t.TempDir(), "f")
	script := `
import errno, os, sys, threading
def work(i):
    try:
        fd = os.open(sys.argv[1] + str(i), os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"x"); os.fsync(fd); results[i] = "ok"
    except OSError as e: results[i] = errno.errorcode[e.errno]
results = [None] * 8
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(" ".join(results))`
	p := begin(t, b, command(t, "python3", "-c", script, file), intercept.Subscription{Calls: []string{"fsync"}})
	p.serve(func(c intercept.Call) intercept.Reply {
		_, path, _, err := intercept.Describe(p.s, c, int(c.Args[0]))
		if err != nil {
			t.Error(err)
		}
		if strings.HasSuffix(path, "3") {
			return deny(unix.EIO)
		}
		return intercept.Reply{}
	})
	p.expect("ok ok ok EIO ok ok ok ok")
}

// testForeign makes a call through the table of 32-bit programs, which must not get past the filter.
func testForeign(t *testing.T, b intercept.Backend) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("no 32-bit table is tried on %s", runtime.GOARCH)
	}
	dir := filepath.Join(t.TempDir(), "d")
	p := compile(t, `
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
	/* A pointer that fits the 32-bit table's arguments. */
	char *low = mmap(0, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_32BIT, -1, 0);
	long r;
	strcpy(low, argv[1]);
	__asm__ volatile ("int $0x80" : "=a"(r) : "a"(39), "b"(low), "c"(0755) : "memory");
	printf("%ld ", r);
	__asm__ volatile ("syscall" : "=a"(r) : "a"(0x40000000 + 83), "D"(low), "S"(0755) : "rcx", "r11", "memory");
	printf("%ld\n", r);
	return 0;
}`)
	p.Args = append(p.Args, dir)
	pr := begin(t, b, p, intercept.Subscription{Calls: []string{"mkdir", "mkdirat"}})
	pr.serve(allow)
	pr.expect("-38 -38")
	if exists(dir) {
		t.Error("the call got past the filter")
	}
}

// testOwnListener lets a program ask for a listener of its own: it is told that there is one already.
func testOwnListener(t *testing.T, b intercept.Backend) {
	p := compile(t, `
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
	struct sock_filter f[] = {{0x06, 0, 0, 0x7fff0000}};
	struct sock_fprog prog = {1, f};
	long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	printf("%s\n", r >= 0 ? "ok" : errno == EBUSY ? "EBUSY" : "another");
	return 0;
}`)
	pr := begin(t, b, p, intercept.Subscription{Calls: []string{"seccomp"}})
	c := pr.next()
	if c.Name != "seccomp" {
		t.Errorf("got %s", c.Name)
	}
	pr.reply(c, intercept.Reply{})
	pr.serve(allow)
	pr.expect("EBUSY")
}
