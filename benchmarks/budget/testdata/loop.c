// SPDX-License-Identifier: Apache-2.0
/*
 * `loop WORK` works for WORK ns of CPU time as measured at its start, then launches and
 * copies, over and over, and says each second how often it did.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int cudaLaunchKernel(void *), cudaMemcpyAsync(void *), cudaStreamSynchronize(void *);

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void work(unsigned long n)
{
	for (volatile unsigned long i = 0; i < n; i++)
		;
}

int main(int argc, char **argv)
{
	unsigned long per = 1000000, n, made = 0;
	double from, next, best = 1;

	for (int i = 0; i < 100; i++) { /* the least is without others */
		from = now();
		work(per);
		if (now() - from < best)
			best = now() - from;
	}
	n = argc > 1 ? atof(argv[1]) / 1e9 / best * per : 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (next = now() + 1;; made++) {
		work(n);
		cudaLaunchKernel(argv);
		cudaMemcpyAsync(argv);
		if (made % 64)
			continue;
		cudaStreamSynchronize(argv);
		if (now() >= next) {
			printf("%lu\n", made);
			made = 0;
			next = now() + 1;
		}
	}
}
