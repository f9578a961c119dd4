// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that launch through the runtime, in two ways, and through the driver alone: for each
 * line so many times, or, for one with an "l", until the next. Prints how many there were.
 */
#include <pthread.h>
#include <stdio.h>

#define THREADS 4

int cudaLaunchKernel(void *func, long grid, long gz, long block, long bz, void **args, long shared,
		     void *stream);
int cudaLaunchKernelExC(const void *config, void *func, void **args);
int cudaStreamSynchronize(void *stream);
int cuLaunchKernel(void *f, int gx, int gy, int gz, int bx, int by, int bz, int shared,
		   void *stream, void **args, void **extra);

static pthread_barrier_t begin, end;
static volatile int load, stop;
static long kernels, exes, direct;
static char config[64];

/* From several depths of the stack, so that one launch is not always where the last one was. */
__attribute__((noinline)) static int deeper(int n)
{
	volatile char pad[200];

	pad[1] = 0; /* the rest keeps what was there */
	return (n ? deeper(n - 1) : cudaLaunchKernel((void *)0x2000, 1, 1, 1, 1, 0, 0, 0)) + pad[1];
}

static void *work(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		if (stop)
			return 0;
		for (int i = 0; i < 30 || load; i++) {
			cudaLaunchKernel((void *)0x1000, 1, 1, 1, 1, 0, 0, 0);
			cudaLaunchKernelExC(config, (void *)0x3000, 0);
			deeper(i % 3);
			cuLaunchKernel((void *)0x1004000, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
			if (i % 10 == 0)
				cudaStreamSynchronize(0);
			__atomic_fetch_add(&kernels, 2, __ATOMIC_RELAXED);
			__atomic_fetch_add(&exes, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&direct, 1, __ATOMIC_RELAXED);
		}
		cudaStreamSynchronize(0);
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
		printf("launched %ld %ld %ld\n", kernels, exes, direct);
		fflush(stdout);
	}
	stop = 1;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], 0);
	return 0;
}
