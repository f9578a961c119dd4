// SPDX-License-Identifier: Apache-2.0
/*
 * The victim's operations on the host.
 *
 * cpu US             uses US of CPU time
 * sleep US           sleeps
 * put, get           writes a batch into the pipe, or reads one
 * ckpt N             writes N bytes to a file, and calls fsync
 * read N             reads N bytes of a file from the disk, bypassing the page cache
 * cached N           reads N bytes of a file
 * touch N            writes to each page of the first N bytes of its memory
 * fresh N            the same, in memory that is new each time
 * grow N             allocates N more bytes, and keeps them
 * pin CPU            runs only on this CPU from now on
 * hold US            holds the victim's lock for US of CPU time
 * holdsleep US       holds the lock while it sleeps
 * ask MS             asks the peer, which answers at once or MS later
 * parallel N US      N threads, including the caller, use US of CPU time each, and wait for
 *                    each other
 * hog ON             makes a forked process use the CPU, or (0) sleep
 */
#include "victim.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#define FILE_SIZE (64 << 20)
#define BUFFER (16 << 20)
#define ARENA (256 << 20)
#define ALIGN 4096

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void cpu(struct actor *a, const long *arg)
{
	(void)a;
	burn(arg[0]);
}

static void nap(struct actor *a, const long *arg)
{
	struct timespec t = { arg[0] / 1000000, arg[0] % 1000000 * 1000 };

	(void)a;
	nanosleep(&t, NULL);
}

static void put(struct actor *a, const long *arg)
{
	static const char batch[TOKEN];

	(void)a, (void)arg;
	need(write(batches[1], batch, TOKEN) == TOKEN, "write a batch");
}

static void get(struct actor *a, const long *arg)
{
	char batch[TOKEN];
	long n = 0, k;

	(void)a, (void)arg;
	for (; n < TOKEN; n += k) {
		k = read(batches[0], batch + n, TOKEN - n);
		need(k > 0, "read a batch");
	}
}

static void open_file(struct actor *a, int *fd, const char *name, int flags)
{
	char path[400];

	if (*fd >= 0)
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	*fd = open(path, flags | O_CREAT, 0600);
	need(*fd >= 0, path);
	if (!a->buffer) {
		need(!posix_memalign((void **)&a->buffer, ALIGN, BUFFER), "memory");
		memset(a->buffer, 1, BUFFER);
	}
}

static void checkpoint(struct actor *a, const long *arg)
{
	open_file(a, &a->saved, "checkpoint", O_RDWR);
	need(pwrite(a->saved, a->buffer, arg[0], 0) == arg[0], "write the checkpoint");
	need(!fsync(a->saved), "fsync");
}

/* The file already exists, with FILE_SIZE bytes. */
static void read_some(struct actor *a, int fd, long n)
{
	if (a->offset + n > FILE_SIZE)
		a->offset = 0;
	need(pread(fd, a->buffer, n, a->offset) == n, "read");
	a->offset += n;
}

static void read_disk(struct actor *a, const long *arg)
{
	open_file(a, &a->direct, "data", O_RDONLY | O_DIRECT);
	read_some(a, a->direct, arg[0]);
}

static void read_cached(struct actor *a, const long *arg)
{
	open_file(a, &a->cached, "data", O_RDONLY);
	read_some(a, a->cached, arg[0]);
}

static void touch(struct actor *a, const long *arg)
{
	if (!a->arena) {
		a->arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		need(a->arena != MAP_FAILED, "memory");
		madvise(a->arena, ARENA, MADV_NOHUGEPAGE);
	}
	for (long i = 0; i < arg[0]; i += ALIGN)
		a->arena[i]++;
}

static void fresh(struct actor *a, const long *arg)
{
	char *p = mmap(NULL, arg[0], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)a;
	need(p != MAP_FAILED, "memory");
	madvise(p, arg[0], MADV_NOHUGEPAGE);
	for (long i = 0; i < arg[0]; i += ALIGN)
		p[i] = 1;
	munmap(p, arg[0]);
}

static void grow(struct actor *a, const long *arg)
{
	volatile char *p = malloc(arg[0]); /* volatile, or the compiler removes it */

	(void)a;
	for (long i = 0; i < arg[0]; i += ALIGN)
		p[i] = 1;
}

static void pin_to(struct actor *a, const long *arg)
{
	cpu_set_t set;

	if (a->steps > 1)
		return;
	CPU_ZERO(&set);
	CPU_SET(arg[0], &set);
	need(!sched_setaffinity(0, sizeof(set), &set), "pin");
}

static void hold(struct actor *a, const long *arg)
{
	(void)a;
	pthread_mutex_lock(&held);
	burn(arg[0]);
	pthread_mutex_unlock(&held);
}

static void hold_asleep(struct actor *a, const long *arg)
{
	pthread_mutex_lock(&held);
	nap(a, arg);
	pthread_mutex_unlock(&held);
}

static void ask(struct actor *a, const long *arg)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int one = 1, answer;
	int question = arg[0];

	if (a->socket < 0) {
		to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		a->socket = socket(AF_INET, SOCK_STREAM, 0);
		need(!connect(a->socket, (struct sockaddr *)&to, sizeof(to)),
		     "connect to the peer");
		setsockopt(a->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	need(write(a->socket, &question, sizeof(question)) == sizeof(question), "ask the peer");
	need(read(a->socket, &answer, sizeof(answer)) == sizeof(answer), "the peer's answer");
}

/* A pool of threads that persist between uses, as in OpenMP; the caller takes part too. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t go, done;
	long threads, round, wanted, left, us;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER,
	   .go = PTHREAD_COND_INITIALIZER,
	   .done = PTHREAD_COND_INITIALIZER };

static void *share(void *number)
{
	long round = 0, us;

	for (;;) {
		pthread_mutex_lock(&pool.lock);
		while (pool.round == round || (long)number >= pool.wanted)
			pthread_cond_wait(&pool.go, &pool.lock);
		round = pool.round;
		us = pool.us;
		pthread_mutex_unlock(&pool.lock);
		burn(us);
		pthread_mutex_lock(&pool.lock);
		if (!--pool.left)
			pthread_cond_signal(&pool.done);
		pthread_mutex_unlock(&pool.lock);
	}
	return NULL;
}

static void parallel(struct actor *a, const long *arg)
{
	pthread_t t;

	(void)a;
	pthread_mutex_lock(&pool.lock);
	for (; pool.threads < arg[0] - 1; pool.threads++)
		need(!pthread_create(&t, NULL, share, (void *)pool.threads), "start a thread");
	pool.wanted = pool.left = arg[0] - 1;
	pool.us = arg[1];
	pool.round++;
	if (pool.left)
		pthread_cond_broadcast(&pool.go);
	pthread_mutex_unlock(&pool.lock);
	burn(arg[1]);
	pthread_mutex_lock(&pool.lock);
	while (pool.left)
		pthread_cond_wait(&pool.done, &pool.lock);
	pthread_mutex_unlock(&pool.lock);
}

static void hog_on_call(_Atomic int *on)
{
	prctl(PR_SET_NAME, "hog");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		while (atomic_load(on))
			;
		syscall(SYS_futex, on, FUTEX_WAIT, 0, NULL, NULL, 0);
	}
}

static void let_hog(struct actor *a, const long *arg)
{
	static _Atomic int *on;

	(void)a;
	if (!on) {
		on = mmap(NULL, ALIGN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (fork() == 0)
			hog_on_call(on);
	}
	atomic_store(on, (int)arg[0]);
	if (arg[0])
		syscall(SYS_futex, on, FUTEX_WAKE, 1, NULL, NULL, 0);
}

const struct op host_ops[] = {
	{ "cpu", cpu },
	{ "sleep", nap },
	{ "put", put },
	{ "get", get },
	{ "ckpt", checkpoint },
	{ "read", read_disk },
	{ "cached", read_cached },
	{ "touch", touch },
	{ "fresh", fresh },
	{ "grow", grow },
	{ "pin", pin_to },
	{ "hold", hold },
	{ "holdsleep", hold_asleep },
	{ "ask", ask },
	{ "parallel", parallel },
	{ "hog", let_hog },
	{ NULL, NULL },
};
