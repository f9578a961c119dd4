// SPDX-License-Identifier: Apache-2.0
/* Threads that launch through the runtime, in two ways, and through the driver alone. */
#include "rounds.h"

int cudaLaunchKernel(void *func, long grid, long gz, long block, long bz, void **args, long shared,
		     void *stream);
int cudaLaunchKernelExC(const void *config, void *func, void **args);
int cudaStreamSynchronize(void *stream);
int cuLaunchKernel(void *f, int gx, int gy, int gz, int bx, int by, int bz, int shared,
		   void *stream, void **args, void **extra);

static long kernels, exes, direct;
static char config[64];

/* From several stack depths, so that launches do not all have one stack pointer. */
__attribute__((noinline)) static int deeper(int n)
{
	volatile char pad[200];

	pad[1] = 0; /* the rest keeps its previous contents */
	return (n ? deeper(n - 1) : cudaLaunchKernel((void *)0x2000, 1, 1, 1, 1, 0, 0, 0)) + pad[1];
}

static void make_round(int number)
{
	cudaLaunchKernel((void *)0x1000, 1, 1, 1, 1, 0, 0, 0);
	cudaLaunchKernelExC(config, (void *)0x3000, 0);
	deeper(number % 3);
	cuLaunchKernel((void *)0x1004000, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
	if (number % 10 == 9 || number % 10 == 0)
		cudaStreamSynchronize(0);
	__atomic_fetch_add(&kernels, 2, __ATOMIC_RELAXED);
	__atomic_fetch_add(&exes, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&direct, 1, __ATOMIC_RELAXED);
}

static void tell(void)
{
	printf("launched %ld %ld %ld\n", kernels, exes, direct);
}

int main(void)
{
	make_rounds(30);
	return 0;
}
