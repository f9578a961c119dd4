/* SPDX-License-Identifier: Apache-2.0 */
/* A function to probe, one that takes the time of it, and one that waits. */
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) int probed(int n)
{
	__asm__ volatile("" ::: "memory");
	return n;
}

static long cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* What 1,000 calls take of a CPU at best, in n of them: ns. */
long loop(int n)
{
	long best = -1;

	for (int done = 0; done < n; done += 1000) {
		long took = -cpu_ns();

		for (int i = 0; i < 1000; i++)
			probed(i);
		took += cpu_ns();
		if (best < 0 || took < best)
			best = took;
	}
	return best;
}

/* Returns once the pipe is closed. */
int stand(int number, int fd)
{
	char c;

	return probed(number) - number + (int)read(fd, &c, 1);
}
