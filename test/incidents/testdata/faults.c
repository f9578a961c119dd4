// SPDX-License-Identifier: Apache-2.0
/*
 * Workloads and faults that sim's programs lack.
 *
 * deep CPU SECONDS  A training loop whose GPU has a deep queue, with a hog that
 *                   takes the CPU once it has begun to fill: launches are slow,
 *                   and cost nothing, since the GPU has work for longer. Each step: launches
 *                   with CPU work between them, 8 ms in all, for 60 ms of GPU time.
 * hog CPU           Takes a CPU until it is killed, or whoever started it has gone.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

struct dim3 {
	unsigned x, y, z;
};

int cudaLaunchKernel(const void *f, struct dim3 g, struct dim3 b, void **a, size_t s, void *st);
int cudaStreamSynchronize(void *stream);
int cudaMalloc(void **p, size_t n);
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFunction(void **h, const char *host_fn, char *dev_fn, const char *name,
			    int limit, void *tid, void *bid, void *bdim, void *gdim, int *warp);

static _Atomic int *hogging;
static char kernel;

static long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static long cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		abort();
}

static void hog_on_call(void)
{
	prctl(PR_SET_NAME, "hog");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		while (atomic_load(hogging))
			;
		syscall(SYS_futex, hogging, FUTEX_WAIT, 0, NULL, NULL, 0);
	}
}

static void let_hog(int on)
{
	atomic_store(hogging, on);
	if (on)
		syscall(SYS_futex, hogging, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void hog(void)
{
	pid_t parent = getppid();

	prctl(PR_SET_NAME, "hog");
	puts("ready");
	fflush(stdout);
	while (getppid() == parent)
		for (volatile int i = 0; i < 10000000; i++)
			;
}

static void deep(long seconds)
{
	struct dim3 one = { 1, 1, 1 };
	long end;
	void *p;

	hogging = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fork() == 0)
		hog_on_call();
	__cudaRegisterFunction(__cudaRegisterFatBinary("simulated"), &kernel, NULL,
			       "deep_kernel_2000us", -1, NULL, NULL, NULL, NULL, NULL);
	cudaMalloc(&p, 1 << 20);
	puts("ready");
	fflush(stdout);
	getchar();
	end = now_us() + seconds * 1000000L;
	while (now_us() < end) {
		for (int i = 0; i < 30; i++) {
			long until = cpu_us() + 260;

			if (i == 5) /* the GPU has 10 ms of work by now */
				let_hog(1);
			if (cudaLaunchKernel(&kernel, one, one, NULL, 0, NULL))
				abort();
			while (cpu_us() < until)
				;
		}
		let_hog(0);
		cudaStreamSynchronize(NULL);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	pin(atoi(argv[2]));
	if (!strcmp(argv[1], "hog"))
		hog();
	if (!strcmp(argv[1], "deep") && argc > 3)
		deep(atol(argv[3]));
	return 0;
}
