// SPDX-License-Identifier: Apache-2.0
/* Threads that launch through two layers: a hundred times for each line, or, for one with an "l", until the next. */
#include <pthread.h>
#include <stdio.h>

#define THREADS 4

int cudaLaunchKernel(void *func, long grid, long gz, long block, long bz, void **args, long shared,
		     void *stream);
int cudaStreamSynchronize(void *stream);

static pthread_barrier_t begin, end;
static volatile int load, stop;
static long rounds;

/* From two depths of the stack, so that one launch is not always where the last one was. */
__attribute__((noinline)) static int deeper(int n)
{
	volatile char pad[200] = { 1 };

	return (n ? deeper(n - 1) : cudaLaunchKernel((void *)deeper, 1, 1, 1, 1, 0, 0, 0)) + pad[1];
}

static void *work(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		if (stop)
			return 0;
		for (int i = 0; i < 100 || load; i += 2) {
			cudaLaunchKernel((void *)work, 1, 1, 1, 1, 0, 0, 0);
			deeper(i % 3);
			if (i % 10 == 0)
				cudaStreamSynchronize(0);
			__atomic_fetch_add(&rounds, 2, __ATOMIC_RELAXED);
		}
		pthread_barrier_wait(&end);
	}
}

int main(void)
{
	pthread_t t[THREADS];
	char line[16];

	pthread_barrier_init(&begin, 0, THREADS + 1);
	pthread_barrier_init(&end, 0, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], 0, work, 0);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		load = line[0] == 'l';
		pthread_barrier_wait(&begin);
		if (load) {
			puts("loaded");
			fflush(stdout);
			if (!fgets(line, sizeof(line), stdin))
				return 1;
			load = 0;
		}
		pthread_barrier_wait(&end);
		printf("launched %ld\n", rounds);
		fflush(stdout);
	}
	stop = 1;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], 0);
	return 0;
}
