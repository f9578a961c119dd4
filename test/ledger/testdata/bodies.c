// SPDX-License-Identifier: Apache-2.0
/* The ways to spend a call. A body that blocks sets `waited` to its blocked time. */
#include "truth.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

static int ends[2]; /* of a pipe or a socket: read end, write end */
static int fd;
static int word;
static char *pages;

#define STRIDE (4 * 4096) /* far enough apart that one read loads one page */
#define LARGE (256 * 1024) /* takes a disk some time */

static void busy(void)
{
	spin(set.ns);
}

/* Runs until the thread has had the CPU for its time, whatever competes for it. */
static void working(void)
{
	struct timespec t;
	u64 end;

	must(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), "clock_gettime");
	for (end = t.tv_sec * 1000000000ULL + t.tv_nsec + set.ns;
	     t.tv_sec * 1000000000ULL + t.tv_nsec < end;)
		must(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), "clock_gettime");
}

static void yielding(void)
{
	for (u64 end = now() + set.ns; now() < end;)
		sched_yield();
}

static void sleeping(void)
{
	u64 from = now(), until = from + set.ns;
	struct timespec t = { .tv_sec = until / 1000000000, .tv_nsec = until % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
	waited = set.ns;
}

/* Called before waiting for the helper. */
static void arm(void)
{
	shared->entered = now();
	shared->armed++;
}

/* Called after waiting for the helper. */
static void disarm(void)
{
	waited = shared->waked - shared->entered;
	while (shared->released != shared->armed) /* the helper may be late */
		;
}

static void in_futex(void)
{
	int old = __atomic_load_n(&word, __ATOMIC_RELAXED);

	arm();
	while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == old)
		syscall(SYS_futex, &word, FUTEX_WAIT, old, NULL, NULL, 0);
	disarm();
}

static void wake_futex(void)
{
	shared->waked = now();
	__atomic_add_fetch(&word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void a_pipe(void)
{
	must(!pipe(ends), "pipe");
}

static void a_socket(void)
{
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
}

/* Both ends are in this process, so the sender's own call delivers the data. */
static void connect_to_self(struct sockaddr *at, socklen_t bytes)
{
	int door = socket(at->sa_family, SOCK_STREAM, 0);

	ends[1] = socket(at->sa_family, SOCK_STREAM, 0);
	must(door >= 0 && ends[1] >= 0, "socket");
	must(!bind(door, at, bytes) && !listen(door, 1), "listen");
	must(!getsockname(door, at, &bytes) && !connect(ends[1], at, bytes), "connect");
	ends[0] = accept(door, NULL, NULL);
	must(ends[0] >= 0, "accept");
}

static void a_tcp(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	connect_to_self((struct sockaddr *)&at, sizeof(at));
}

/* An IPv6 socket with an IPv4 address: machines without IPv6 have these too. */
static void a_tcp6(void)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6 };

	at.sin6_addr.s6_addr[10] = at.sin6_addr.s6_addr[11] = 0xff;
	at.sin6_addr.s6_addr[12] = 127;
	at.sin6_addr.s6_addr[15] = 1;
	connect_to_self((struct sockaddr *)&at, sizeof(at));
}

static void wait_at(void (*ready)(void))
{
	struct epoll_event want = { .events = EPOLLIN };

	ready();
	fd = epoll_create1(0);
	must(fd >= 0 && !epoll_ctl(fd, EPOLL_CTL_ADD, ends[0], &want), "epoll");
}

static void an_epoll(void)
{
	wait_at(a_pipe);
}

static void an_epoll_of_tcp(void)
{
	wait_at(a_tcp);
}

static void in_read(void)
{
	char c;

	arm();
	must(read(ends[0], &c, 1) == 1, "read");
	disarm();
}

static void in_poll(void)
{
	struct pollfd want = { .fd = ends[0], .events = POLLIN };
	char c;

	arm();
	must(poll(&want, 1, -1) == 1, "poll");
	disarm();
	must(read(ends[0], &c, 1) == 1, "read");
}

static void in_epoll(void)
{
	struct epoll_event got;
	char c;

	arm();
	must(epoll_wait(fd, &got, 1, -1) == 1, "epoll_wait");
	disarm();
	must(read(ends[0], &c, 1) == 1, "read");
}

static void wake_write(void)
{
	shared->waked = now();
	must(write(ends[1], "x", 1) == 1, "write");
}

/* Creates a file whose blocks are on the disk and not in memory. */
static void a_file(unsigned blocks, int flags)
{
	char path[4096], *block = aligned_alloc(4096, LARGE);

	snprintf(path, sizeof(path), "%s/file.%d", set.dir, getpid());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(fd >= 0 && block != NULL, path);
	memset(block, 0x5a, LARGE);
	for (unsigned i = 0; i < blocks; i++)
		must(write(fd, block, STRIDE) == STRIDE, path);
	must(!fsync(fd) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), path);
	if (flags) {
		close(fd);
		fd = open(path, O_RDWR | flags);
		must(fd >= 0, path);
	}
	pages = block;
}

static void a_cached_file(void)
{
	a_file(set.calls, 0);
}

static void a_direct_file(void)
{
	a_file(64 * LARGE / STRIDE, O_DIRECT);
}

static void a_mapped_file(void)
{
	const size_t size = 64 * LARGE; /* see in_fault */

	a_file(size / STRIDE, 0);
	pages = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	must(pages != MAP_FAILED && !madvise(pages, size, MADV_RANDOM), "mmap");
}

static void in_disk(void)
{
	must(pread(fd, pages, LARGE, (off_t)turn % 64 * LARGE) == LARGE, "pread");
	waited = UNKNOWN;
}

static void in_fault(void)
{
	(void)*(volatile char *)(pages + (size_t)turn % 64 * LARGE + LARGE / 2);
	waited = UNKNOWN;
}

/* Drops the next block from memory, so that it is only on the disk. */
static void forget(void)
{
	off_t at = (off_t)turn % 64 * LARGE;

	must(!madvise(pages + at, LARGE, MADV_DONTNEED), "madvise");
	must(!posix_fadvise(fd, at, LARGE, POSIX_FADV_DONTNEED), "posix_fadvise");
	waited = UNKNOWN;
}

static void in_fsync(void)
{
	must(!fdatasync(fd), "fdatasync");
	waited = UNKNOWN;
}

static void dirty(void)
{
	must(pwrite(fd, &turn, sizeof(turn), (off_t)turn * STRIDE) == sizeof(turn), "pwrite");
}

/* Runs until the parent has stopped and continued the process. */
static void in_stop(void)
{
	shared->armed++;
	while (shared->released != shared->armed)
		;
	waited = shared->waked - shared->entered;
}

static void stop_and_continue(void)
{
	kill(victim, SIGSTOP);
	shared->entered = now();
	spin(set.ns);
	shared->waked = now();
	kill(victim, SIGCONT);
}

/* Makes a call to the driver inside the call. */
static void nesting(void)
{
	u64 slept;

	spin(set.ns / 2);
	traced(1, sleeping);
	slept = set.ns;
	spin(set.ns / 2);
	waited = slept;
}

static void *own_hog(void *clock)
{
	pin(set.cpu);
	must(!pthread_getcpuclockid(pthread_self(), clock), "clock");
	printf("thread %ld\n", syscall(SYS_gettid));
	__atomic_add_fetch(&shared->armed, 1, __ATOMIC_RELEASE);
	while (!shared->done)
		;
	return NULL;
}

static void own_hogs(void)
{
	pthread_t thread;

	for (set.hogs = 0; set.hogs < 2; set.hogs++) {
		must(!pthread_create(&thread, NULL, own_hog, &set.hog[set.hogs]), "thread");
		while (shared->armed == (unsigned)set.hogs)
			;
	}
}

static void *own_member(void *unused)
{
	struct sched_param p = { .sched_priority = 10 };

	(void)unused;
	pin(set.cpu);
	must(!sched_setscheduler(0, SCHED_FIFO, &p), "real-time priority");
	crowd_turns();
	return NULL;
}

static void own_crowd(void)
{
	pthread_t thread;

	crowd_on = 100000;
	crowd_off = CROWD * crowd_on;
	for (int i = 0; i < CROWD; i++)
		must(!pthread_create(&thread, NULL, own_member, NULL), "thread");
}

/* A call that ends when its input does. */
static void holding(void)
{
	char c;

	printf("inside\n");
	fflush(stdout);
	(void)!read(0, &c, 1);
}

const struct scenario scenarios[] = {
	{ .name = "spin", .body = busy },
	{ .name = "work", .body = working },
	{ .name = "yield", .body = yielding },
	{ .name = "own-hogs", .setup = own_hogs, .body = busy },
	{ .name = "own-crowd", .setup = own_crowd, .body = working },
	{ .name = "sleep", .body = sleeping },
	{ .name = "gap", .body = busy, .between = sleeping },
	{ .name = "nested", .body = nesting },
	{ .name = "futex", .body = in_futex, .wake = wake_futex },
	{ .name = "sleepy-waker", .body = in_futex, .wake = wake_futex, .sleepy = 1 },
	{ .name = "pipe", .setup = a_pipe, .body = in_read, .wake = wake_write },
	{ .name = "socket", .setup = a_socket, .body = in_read, .wake = wake_write },
	{ .name = "tcp", .setup = a_tcp, .body = in_read, .wake = wake_write },
	{ .name = "tcp of IPv6", .setup = a_tcp6, .body = in_read, .wake = wake_write },
	{ .name = "epoll of tcp", .setup = an_epoll_of_tcp, .body = in_epoll, .wake = wake_write },
	{ .name = "poll", .setup = a_pipe, .body = in_poll, .wake = wake_write },
	{ .name = "epoll", .setup = an_epoll, .body = in_epoll, .wake = wake_write },
	{ .name = "disk", .setup = a_direct_file, .body = in_disk },
	{ .name = "fault", .setup = a_mapped_file, .body = in_fault, .between = forget },
	{ .name = "fsync", .setup = a_cached_file, .body = in_fsync, .between = dirty },
	{ .name = "stop", .body = in_stop, .wake = stop_and_continue, .process = 1 },
	{ .name = "hold", .body = holding },
	{},
};
