/*
 * The other side of the benchmarks: the least that a supervisor and a program can be.
 *
 *   loop calls N   supervises a child of its own that makes N calls of getppid, each let go on
 *   loop allow N   makes N calls of getuid under a filter that allows everything
 *   loop getppid N, loop getuid N   make N calls
 *
 * Each prints the nanoseconds that a call took.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#endif

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

static void measure(long nr, long n)
{
	struct timespec a, b;
	long i;

	for (i = 0; i < n / 10; i++)
		syscall(nr);
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (i = 0; i < n; i++)
		syscall(nr);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.2f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / n);
	fflush(stdout);
}

static int install(struct sock_filter *f, unsigned short len, unsigned flags)
{
	struct sock_fprog prog = {len, f};
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("no_new_privs");
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	if (fd < 0)
		fail("seccomp");
	return fd;
}

static void send_fd(int sock, int fd)
{
	char data = 0, control[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec v = {&data, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	if (sendmsg(sock, &m, 0) < 0)
		fail("sendmsg");
}

static int recv_fd(int sock)
{
	char data, control[CMSG_SPACE(sizeof(int))];
	struct iovec v = {&data, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	int fd;

	if (recvmsg(sock, &m, 0) < 0)
		fail("recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	return fd;
}

static void supervise(long n)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct seccomp_notif req;
	struct seccomp_notif_resp resp;
	int pair[2], fd;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		fail("socketpair");
	if (fork() == 0) {
		send_fd(pair[1], install(f, 4, SECCOMP_FILTER_FLAG_NEW_LISTENER));
		/* Wait until the supervisor has set its flag. */
		if (read(pair[1], &fd, 1) < 0)
			fail("read");
		close_range(3, ~0U, 0);
		measure(SYS_getppid, n);
		_exit(0);
	}
	fd = recv_fd(pair[0]);
	ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	if (write(pair[0], "x", 1) < 0)
		fail("write");
	for (;;) {
		memset(&req, 0, sizeof req);
		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &req))
			break;
		memset(&resp, 0, sizeof resp);
		resp.id = req.id;
		resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
	}
	wait(0);
}

int main(int argc, char **argv)
{
	struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	long n = argc > 2 ? atol(argv[2]) : 0;

	if (n > 0 && !strcmp(argv[1], "calls"))
		supervise(n);
	else if (n > 0 && !strcmp(argv[1], "allow")) {
		install(all, 1, 0);
		measure(SYS_getuid, n);
	} else if (n > 0 && !strcmp(argv[1], "getppid"))
		measure(SYS_getppid, n);
	else if (n > 0 && !strcmp(argv[1], "getuid"))
		measure(SYS_getuid, n);
	else
		return 2;
	return 0;
}
