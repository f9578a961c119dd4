// SPDX-License-Identifier: Apache-2.0
/*
 * `loop RATE CPU` makes steps of 12 ms, like a training loop that is limited by its CPU, not its
 * GPU. Each step makes launches at RATE a second, with CPU work between them, and ends with a
 * synchronize. Each second it prints the number of its launches, the seconds of CPU time that it
 * took for them, on the CPU of that number, and the Unix time. It
 * calibrates the CPU work at its start, so start it untraced.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct dim3 {
	unsigned int x, y, z;
};

void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFunction(void **, const void *, char *, const char *, int, void *, void *,
			    void *, void *, int *);
void __cudaRegisterFatBinaryEnd(void **);
int cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);
int cudaDeviceSynchronize(void);

static char kernel;

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/*
 * Multiplications that wait for each other, in registers: a counter in memory takes up to twice
 * as long when the CPU has just run something else.
 */
static void compute(unsigned long work)
{
	unsigned long x = work;

	while (work--) {
		x = x * 6364136223846793005UL + 1442695040888963407UL;
		__asm__ volatile("" : "+r"(x));
	}
}

static void step(unsigned long launches, unsigned long work)
{
	struct dim3 one = { 1, 1, 1 };

	while (launches--) {
		compute(work);
		if (cudaLaunchKernel(&kernel, one, one, NULL, 0, NULL))
			exit(1);
	}
	if (cudaDeviceSynchronize())
		exit(1);
}

/* The minimum over some steps excludes interference. */
static double least(unsigned long launches, unsigned long work)
{
	double best = 1e9, from, took;

	for (int i = 0; i < 20; i++) {
		from = now(CLOCK_MONOTONIC);
		step(launches, work);
		took = now(CLOCK_MONOTONIC) - from;
		if (took < best)
			best = took;
	}
	return best;
}

int main(int argc, char **argv)
{
	const double length = 0.012;
	unsigned long launches = (argc > 1 ? atof(argv[1]) : 1000) * length, work, made = 0;
	const unsigned long some = 1000;
	double next, bare, unit, spent, cpu;
	cpu_set_t own;
	void **fat = __cudaRegisterFatBinary("simulated");

	__cudaRegisterFunction(fat, &kernel, NULL, "loop", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(fat);
	bare = least(launches, 0);
	unit = (least(launches, some) - bare) / some;
	work = bare < length ? (length - bare) / unit : 0;
	/* This thread only: the threads of the simulated GPU run elsewhere. */
	CPU_ZERO(&own);
	CPU_SET(argc > 2 ? atoi(argv[2]) : 0, &own);
	if (sched_setaffinity(0, sizeof(own), &own))
		exit(1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	next = now(CLOCK_MONOTONIC) + 1;
	spent = now(CLOCK_THREAD_CPUTIME_ID);
	for (;;) {
		step(launches, work);
		made += launches;
		if (now(CLOCK_MONOTONIC) < next)
			continue;
		cpu = now(CLOCK_THREAD_CPUTIME_ID);
		printf("%lu %.6f %.3f\n", made, cpu - spent, now(CLOCK_REALTIME));
		made = 0;
		spent = cpu;
		next += 1;
	}
}
