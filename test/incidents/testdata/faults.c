// SPDX-License-Identifier: Apache-2.0
/*
 * Faults: disturbances of the victim from outside. Each prints "ready" once it is active, or
 * "refused" if it lacks permission, and runs until it is killed or its parent exits. CPU -1
 * means any CPU.
 *
 * hog CPU [NICE|fifo|idle] [ON OFF]  uses a CPU; "fifo": at a real-time priority, "idle":
 *                         only while no other thread needs it; with ON and OFF (us): in turns
 * threads CPU N           uses a CPU with N threads
 * spawner CPU US SLEEP    repeatedly starts a program that spins for US, waits for its
 *                         end, and sleeps for SLEEP; each program has another name
 * program US              that program
 * writer CPU FILE BYTES   repeatedly writes BYTES to a file and calls fsync
 * reader CPU FILE BYTES   reads a file from the disk, BYTES at a time, bypassing the page cache
 * memory CPU BYTES SLEEP  repeatedly writes to each page of its memory and sleeps for SLEEP us
 * pager CPU FILE SLEEP    repeatedly swaps out the memory of a cgroup: FILE is its
 *                         memory.force_empty
 * stopper CPU PID ON OFF  repeatedly stops a process for ON us and lets it run for OFF; once if
 *                         OFF is 0
 * tracer CPU PID ON OFF   the same, as a debugger
 * peer CPU                after a line, prints its port and answers requests there, as many ms
 *                         late as a line on its input or the request says
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char **args; /* from the CPU on */

static long number(int i)
{
	return args[i] ? atol(args[i]) : 0;
}

static void need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "faults: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (i == cpu || cpu < 0)
			CPU_SET(i, &set);
	need(!sched_setaffinity(0, sizeof(set), &set), "pin");
}

/* Sets the same time slice as the victim's: see turn in victim_test.go. */
static void set_turn(void)
{
	struct {
		unsigned size, policy;
		unsigned long flags;
		int nice;
		unsigned priority;
		unsigned long runtime, deadline, period;
	} attr = { .size = 48, .runtime = 1000000 };

	need(!syscall(SYS_sched_setattr, 0, &attr, 0), "sched_setattr");
}

static void say(const char *text)
{
	puts(text);
	fflush(stdout);
}

static void nap(long us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

static long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static void spin(long us)
{
	long until = now_us() + us;

	while (now_us() < until)
		for (volatile int i = 0; i < 1000; i++)
			;
}

static void hog(void)
{
	struct sched_param p = { .sched_priority = 1 };
	const char *how = args[1] ? args[1] : "0";

	if (!strcmp(how, "fifo")) {
		/* The process is about to be moved to a cgroup that allows it. */
		for (int tries = 0; sched_setscheduler(0, SCHED_FIFO, &p); tries++) {
			if (tries == 200) {
				say("refused");
				break;
			}
			nap(10000);
		}
	} else if (!strcmp(how, "idle")) {
		p.sched_priority = 0;
		need(!sched_setscheduler(0, SCHED_IDLE, &p), "SCHED_IDLE");
	} else {
		need(nice(atoi(how)) != -1 || !errno, "nice");
	}
	say("ready");
	for (;;) {
		spin(number(2) ? number(2) : 1000000);
		if (number(3))
			nap(number(3));
	}
}

static void *spin_on(void *unused)
{
	(void)unused;
	set_turn();
	for (;;)
		spin(1000000);
	return NULL;
}

static void threads(void)
{
	pthread_t t;

	for (long i = 1; i < number(1); i++)
		need(!pthread_create(&t, NULL, spin_on, NULL), "thread");
	say("ready");
	spin_on(NULL);
}

static void program(void)
{
	spin(number(0));
	exit(0);
}

static void spawner(void)
{
	static const char *const names[] = { "rotate", "gzip", "chmod", "chown", "touch", "find" };
	char us[24];

	snprintf(us, sizeof(us), "%ld", number(1));
	say("ready");
	for (unsigned i = 0;; i++) {
		int pid = fork();

		if (!pid) {
			/* main names the process after argv[0]. */
			char path[64];

			snprintf(path, sizeof(path), "/proc/self/fd/%d",
				 open("/proc/self/exe", O_RDONLY));
			execl(path, names[i % 6], "program", us, NULL);
			_exit(1);
		}
		waitpid(pid, NULL, 0);
		nap(number(2));
	}
}

static void writer(void)
{
	long n = number(2);
	int fd = open(args[1], O_RDWR | O_CREAT, 0600);
	char *data = malloc(n);

	need(fd >= 0, args[1]);
	memset(data, 2, n);
	for (int i = 0;; i++) {
		need(pwrite(fd, data, n, 0) == n, "write");
		need(!fsync(fd), "fsync");
		if (!i)
			say("ready");
	}
}

static void reader(void)
{
	long n = number(2), at = 0, got;
	int fd = open(args[1], O_RDONLY | O_DIRECT);
	void *data = NULL;

	need(fd >= 0, args[1]);
	need(!posix_memalign(&data, 4096, n), "memory");
	say("ready");
	for (;; at += got) {
		got = pread(fd, data, n, at);
		need(got >= 0, "read");
		if (!got)
			at = 0;
	}
}

static void memory(void)
{
	long n = number(1);
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(p != MAP_FAILED, "memory");
	madvise(p, n, MADV_NOHUGEPAGE);
	say("ready");
	for (;; nap(number(2)))
		for (long i = 0; i < n; i += 4096)
			p[i]++;
}

static void pager(void)
{
	int fd = open(args[1], O_WRONLY);

	need(fd >= 0, args[1]);
	say("ready");
	for (;; nap(number(2)))
		write(fd, "0", 1); /* EBUSY: some memory is always in use */
}

static void stopper(void)
{
	say("ready");
	do {
		need(!kill(number(1), SIGSTOP), "stop");
		nap(number(2));
		need(!kill(number(1), SIGCONT), "continue");
		nap(number(3));
	} while (number(3));
	pause();
}

static void tracer(void)
{
	int pid = number(1);

	say("ready");
	do {
		need(!ptrace(PTRACE_SEIZE, pid, NULL, NULL), "seize");
		need(!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), "interrupt");
		need(waitpid(pid, NULL, __WALL) == pid, "wait");
		nap(number(2));
		need(!ptrace(PTRACE_DETACH, pid, NULL, NULL), "detach");
		nap(number(3));
	} while (number(3));
	pause();
}

static _Atomic int late_ms;

static void *answer(void *arg)
{
	int fd = (int)(long)arg, one = 1, ms;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (read(fd, &ms, sizeof(ms)) == sizeof(ms)) {
		if (ms + late_ms)
			nap(1000L * (ms + late_ms));
		if (write(fd, &ms, sizeof(ms)) != sizeof(ms))
			break;
	}
	close(fd);
	return NULL;
}

static void *listen_to_lab(void *arg)
{
	char line[40];

	(void)arg;
	while (fgets(line, sizeof(line), stdin)) {
		late_ms = atoi(line);
		say("done");
	}
	return NULL;
}

static void peer(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof(at);
	pthread_t t;
	char text[40];
	int fd;

	/* A socket belongs to the cgroup that its process was in when it was created. */
	say("ready");
	need(fgets(text, sizeof(text), stdin) != NULL, "wait");
	fd = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	need(!bind(fd, (struct sockaddr *)&at, size) && !listen(fd, 16), "listen");
	need(!getsockname(fd, (struct sockaddr *)&at, &size), "port");
	snprintf(text, sizeof(text), "port %d", ntohs(at.sin_port));
	say(text);
	pthread_create(&t, NULL, listen_to_lab, NULL);
	for (;;)
		pthread_create(&t, NULL, answer, (void *)(long)accept(fd, NULL, NULL));
}

static const struct {
	const char *name;
	void (*run)(void);
} faults[] = {
	{ "hog", hog },         { "threads", threads }, { "program", program },
	{ "spawner", spawner }, { "writer", writer },   { "reader", reader },
	{ "memory", memory },   { "pager", pager },     { "stopper", stopper },
	{ "tracer", tracer },   { "peer", peer },
};

int main(int argc, char **argv)
{
	int is_program = argc > 1 && !strcmp(argv[1], "program");

	if (argc < 3)
		return 2;
	args = argv + 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, is_program ? argv[0] : argv[1]);
	if (!is_program) {
		pin(number(0));
		set_turn();
	}
	for (unsigned i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		if (!strcmp(argv[1], faults[i].name))
			faults[i].run();
	return 2;
}
