// SPDX-License-Identifier: Apache-2.0
/* Threads that launch through two layers: a hundred times for each line. */
#include "rounds.h"

int cudaLaunchKernel(void *func, long grid, long gz, long block, long bz, void **args, long shared,
		     void *stream);
int cudaStreamSynchronize(void *stream);

static long launches;

/* From two stack depths, so that launches do not all have one stack pointer. */
__attribute__((noinline)) static int deeper(int n)
{
	volatile char pad[200] = { 1 };

	return (n ? deeper(n - 1) : cudaLaunchKernel((void *)deeper, 1, 1, 1, 1, 0, 0, 0)) + pad[1];
}

static void make_round(int number)
{
	cudaLaunchKernel((void *)make_round, 1, 1, 1, 1, 0, 0, 0);
	deeper(2 * number % 3);
	if (number % 5 == 0)
		cudaStreamSynchronize(0);
	__atomic_fetch_add(&launches, 2, __ATOMIC_RELAXED);
}

static void tell(void)
{
	printf("launched %ld\n", launches);
}

int main(void)
{
	make_rounds(50);
	return 0;
}
