// SPDX-License-Identifier: Apache-2.0
/*
 * `turns ROUNDS US`: a thread makes a call, then reads from a pipe, ROUNDS times. A worker process
 * with two threads writes there: one thread computes for US, then asks the other to write.
 * Writing needs a lock that the first thread always holds. The second waits for the lock like
 * Python's threads, in turns of 5 ms: when a turn is over, it asks the first to release the lock.
 * The program prints the ids of the calling process, the writing thread and the computing thread,
 * and waits for a line.
 */
#include "truth.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static int batches[2], begin[2];
static unsigned us;
static volatile pid_t *tids; /* of the writing and the computing thread */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER, taken = PTHREAD_COND_INITIALIZER;
static int held; /* the lock: held by 1, the computing thread, or 2 */
static volatile int wanted; /* the computing thread must release the lock */
static pthread_mutex_t items = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int item;

static void nothing(void)
{
}

static void *feed(void *arg)
{
	struct timespec until;

	(void)arg;
	tids[0] = syscall(SYS_gettid);
	for (;;) {
		pthread_mutex_lock(&items);
		while (!item)
			pthread_cond_wait(&more, &items);
		item = 0;
		pthread_mutex_unlock(&items);

		pthread_mutex_lock(&mutex);
		while (held) {
			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_nsec += 5000000;
			if (until.tv_nsec >= 1000000000) {
				until.tv_sec++;
				until.tv_nsec -= 1000000000;
			}
			if (pthread_cond_timedwait(&freed, &mutex, &until) == ETIMEDOUT && held)
				wanted = 1;
		}
		held = 2;
		wanted = 0;
		pthread_mutex_unlock(&mutex);
		if (write(batches[1], "x", 1) != 1)
			_exit(0);
		pthread_mutex_lock(&mutex);
		held = 0;
		pthread_cond_signal(&taken);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void worker(void)
{
	pthread_t feeder;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	tids[1] = syscall(SYS_gettid);
	held = 1;
	if (pthread_create(&feeder, NULL, feed, NULL))
		_exit(1);
	if (read(begin[0], &c, 1) != 1)
		_exit(0);
	for (;;) {
		for (u64 end = now() + us * 1000ULL; now() < end;)
			;
		pthread_mutex_lock(&items);
		item = 1;
		pthread_cond_signal(&more);
		pthread_mutex_unlock(&items);
		while (!wanted) /* it continues with the next item */
			;
		pthread_mutex_lock(&mutex);
		held = 0;
		pthread_cond_signal(&freed);
		while (held != 0 || wanted) /* until the other thread has had the lock */
			pthread_cond_wait(&taken, &mutex);
		held = 1;
		pthread_mutex_unlock(&mutex);
	}
}

static void line(void)
{
	int c;

	while ((c = getchar()) != '\n' && c != EOF)
		;
}

int main(int argc, char **argv)
{
	char c;

	if (argc != 3)
		return 2;
	us = atoi(argv[2]);
	tids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tids == MAP_FAILED || pipe(batches) || pipe(begin))
		return 1;
	in_runtime = nothing;
	if (!fork())
		worker();
	while (!tids[0] || !tids[1])
		usleep(1000);
	printf("%d %d %d\n", getpid(), tids[0], tids[1]);
	fflush(stdout);
	line();
	if (write(begin[1], "x", 1) != 1)
		return 1;
	for (int i = 0; i < atoi(argv[1]); i++) {
		cudaStreamSynchronize(NULL);
		if (read(batches[0], &c, 1) != 1)
			return 1;
	}
	printf("done\n");
	fflush(stdout);
	line();
	return 0;
}
