/*
 * Calls cudaMalloc from a known depth, and prints return addresses, the library's own first. Before
 * the calls of "spin" it computes for long.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
extern void *called_from[2];
extern int fail_next;
int cudaMalloc(void **p, size_t n);
static void *from[256];

__attribute__((noinline)) static int down(int depth)
{
	void *p;
	int err;

	from[depth] = __builtin_return_address(0);
	err = depth ? down(depth - 1) : cudaMalloc(&p, 64);
	asm volatile("" ::: "memory");
	return err;
}

__attribute__((noinline)) static void spin(void)
{
	for (volatile long i = 0; i < 300000000; i++)
		;
}

int main(void)
{
	char what[16];
	int depth, times;

	down(0); /* not traced yet: return addresses are original */
	printf("ready %p %p %p\n", called_from[1], called_from[0], (void *)spin);
	fflush(stdout);
	while (scanf("%15s %d %d", what, &depth, &times) == 3) {
		fail_next = what[0] == 'f' ? 2 : 0;
		for (int i = 0; i < times; i++) {
			if (what[0] == 's')
				spin();
			down(depth);
		}
		printf("called");
		for (int i = 0; i <= depth; i++)
			printf(" %p", from[i]);
		puts("");
		fflush(stdout);
	}
	return 0;
}
