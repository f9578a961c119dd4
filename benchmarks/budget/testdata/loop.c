// SPDX-License-Identifier: Apache-2.0
/*
 * `loop RATE` makes steps of 12 ms, like a training loop that is limited by its CPU, not its GPU.
 * Each step makes launches at RATE a second, with CPU work between them, and ends with a
 * synchronize. Each second it prints the number of launches. It calibrates the CPU work at its
 * start, so start it untraced.
 */
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

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void step(unsigned long launches, unsigned long work)
{
	struct dim3 one = { 1, 1, 1 };

	while (launches--) {
		for (volatile unsigned long i = 0; i < work; i++)
			;
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
		from = now();
		step(launches, work);
		took = now() - from;
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
	double next, bare, unit;
	void **fat = __cudaRegisterFatBinary("simulated");

	__cudaRegisterFunction(fat, &kernel, NULL, "loop", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(fat);
	bare = least(launches, 0);
	unit = (least(launches, some) - bare) / some;
	work = bare < length ? (length - bare) / unit : 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (next = now() + 1;;) {
		step(launches, work);
		made += launches;
		if (now() < next)
			continue;
		printf("%.0f\n", made / (now() - next + 1));
		made = 0;
		next = now() + 1;
	}
}
