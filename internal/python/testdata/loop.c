/* SPDX-License-Identifier: Apache-2.0 */
/* A function to probe, a loop around it that takes the time, and one that waits. */
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) int probed(int n)
{
	__asm__ volatile("" ::: "memory");
	return n;
}

long loop(int n)
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < n; i++)
		probed(i);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec;
}

/* Returns once the pipe is closed. */
int stand(int number, int fd)
{
	char c;

	return probed(number) - number + (int)read(fd, &c, 1);
}
