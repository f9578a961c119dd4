/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that are errors, and threads that contend for the driver. */
#include "loop.h"

#define AFTER_ERROR 50 /* ms between the attempts of a failing program */

/* --- fork: CUDA in a forked child of a process that has used it --- */

static void fork_before(u64 step)
{
	int status, pid;
	u64 t = begin_loss();

	if (step % every != every - 1)
		return;
	pid = fork();
	if (pid < 0)
		die("fork", 1);
	if (!pid) {
		void *p = NULL;

		if (faulty() && counted(cudaMalloc(&p, MB)))
			_exit(1);
		burn_cpu(1000000);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (faulty())
		end_loss(t);
}

/* --- mismatch-35, mismatch-803: library and driver versions do not match --- */

static void mismatch_driver(void)
{
	if (ever())
		setting("INGERO_SIM_FAIL", "cuInit:1+=803");
}

static void mismatch_runtime(void)
{
	if (ever())
		setting("INGERO_SIM_FAIL", "cuInit:1+=35");
}

static void without_gpu(u64 step)
{
	int n = 0;

	(void)step;
	if (counted(cudaGetDeviceCount(&n)))
		sleep_ns(AFTER_ERROR * 1000000ull);
}

/* --- assert: a kernel traps, and all later calls fail --- */

static char assert_at[64];

static void assert_plan(void)
{
	snprintf(assert_at, sizeof(assert_at), "cuStreamSynchronize:%llu=710",
		 (unsigned long long)every);
	if (ever())
		setting("INGERO_SIM_FAIL", assert_at);
}

static void assert_close(u64 step)
{
	(void)step;
	if (counted(cudaStreamSynchronize(stream)))
		sleep_ns(AFTER_ERROR * 1000000ull);
}

/* --- driver-lock: another thread of the program is in the driver for long --- */

static void lock_plan(void)
{
	slow("cuMemHostRegister_v2", 1, 1, delay_us, 0);
	lock_in_driver("cuLaunchKernel");
}

static void *registers(void *arg)
{
	int cudaHostRegister(void *p, size_t n, u32 flags);
	int cudaHostUnregister(void *p);

	for (;;) {
		sleep_ns(every * 1000000ull);
		if (!faulty())
			continue;
		counted(cudaHostRegister(arg, 65536, 0));
		counted(cudaHostUnregister(arg));
	}
	return NULL;
}

static void lock_begin(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, registers, host))
		die("pthread_create", 1);
}

static void lock_work(u64 step)
{
	u64 t = begin_loss();

	(void)step;
	launch_all(launches);
	if (now_ns() - t > 1000000 && faulty())
		end_loss(t);
}

const struct fault error_faults[] = {
	{ .name = "fork", .help = "CUDA in a forked child", .every = 100, .before = fork_before },
	{ .name = "mismatch-803",
	  .help = "the driver does not fit the kernel's module",
	  .every = 1,
	  .plan = mismatch_driver,
	  .before = without_gpu },
	{ .name = "mismatch-35",
	  .help = "the driver is too old for the runtime",
	  .every = 1,
	  .plan = mismatch_runtime,
	  .before = without_gpu },
	{ .name = "assert",
	  .help = "a kernel traps in the --every-th step",
	  .every = 1000,
	  .plan = assert_plan,
	  .close = assert_close },
	{ .name = "driver-lock",
	  .help = "a thread has the driver's lock for long every --every ms",
	  .every = 50,
	  .us = 20000,
	  .plan = lock_plan,
	  .begin = lock_begin,
	  .work = lock_work },
	{ 0 },
};
