/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's interface alone. A module from a file; vectors copied, added and copied back
 * on several threads at once. Then calls that must fail: a double free, a copy to freed
 * memory, too large an allocation, a kernel that the module lacks. */
#include "api.h"

static u64 rounds = 10, threads = 4, n = 1 << 20, hold, quiet;
static const char *module_file;

static const struct option opts[] = {
	{ "rounds", 'n', &rounds, "additions of each thread (10)" },
	{ "threads", 'n', &threads, "threads, each with a stream of its own (4)" },
	{ "n", 'n', &n, "elements of a vector (1048576)" },
	{ "module", 's', &module_file, "the module (vecAdd.cubin beside the program)" },
	{ "no-errors", 'f', &quiet, "leave out the calls that must fail" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line before the first CUDA call" },
};

static void *context, *module, *vec_add;
static struct lock counting;

/* Counts a call under a lock, since several threads call. */
#define COUNTED(fn, ...)                                                                           \
	({                                                                                         \
		int e_ = fn(__VA_ARGS__);                                                          \
		lock(&counting);                                                                   \
		tally(&calls, #fn, e_);                                                            \
		unlock(&counting);                                                                 \
		e_;                                                                                \
	})

void lock_slow(struct lock *l)
{
	while (__atomic_exchange_n(&l->word, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

void lock_wake(struct lock *l)
{
	(void)l;
}

static void *add_vectors(void *arg)
{
	size_t bytes = n * sizeof(float);
	void *stream, *host, *args[4];
	devptr a, b, c;
	u32 count = (u32)n;

	(void)arg;
	check("cuCtxSetCurrent", COUNTED(cuCtxSetCurrent, context));
	check("cuStreamCreate", COUNTED(cuStreamCreate, &stream, 1));
	check("cuMemAllocHost_v2", COUNTED(cuMemAllocHost_v2, &host, bytes));
	for (u64 i = 0; i < rounds; i++) {
		check("cuMemAlloc_v2", COUNTED(cuMemAlloc_v2, &a, bytes));
		check("cuMemAlloc_v2", COUNTED(cuMemAlloc_v2, &b, bytes));
		check("cuMemAlloc_v2", COUNTED(cuMemAlloc_v2, &c, bytes));
		check("cuMemcpyHtoD_v2", COUNTED(cuMemcpyHtoD_v2, a, host, bytes));
		check("cuMemcpyHtoDAsync_v2",
		      COUNTED(cuMemcpyHtoDAsync_v2, b, host, bytes, stream));
		args[0] = &a, args[1] = &b, args[2] = &c, args[3] = &count;
		check("cuLaunchKernel", COUNTED(cuLaunchKernel, vec_add, (count + 255) / 256, 1, 1,
						256, 1, 1, 0, stream, args, NULL));
		lock(&counting);
		tally(&launches, "vecAdd", 0);
		unlock(&counting);
		check("cuMemcpyDtoHAsync_v2",
		      COUNTED(cuMemcpyDtoHAsync_v2, host, c, bytes, stream));
		check("cuStreamSynchronize", COUNTED(cuStreamSynchronize, stream));
		check("cuMemFree_v2", COUNTED(cuMemFree_v2, a));
		check("cuMemFree_v2", COUNTED(cuMemFree_v2, b));
		check("cuMemFree_v2", COUNTED(cuMemFree_v2, c));
	}
	check("cuMemFreeHost", COUNTED(cuMemFreeHost, host));
	check("cuStreamDestroy_v2", COUNTED(cuStreamDestroy_v2, stream));
	return NULL;
}

static void must_fail(const char *what, int err, int want)
{
	if (err == want)
		return;
	dprintf(2, "%s: error %d, want %d\n", what, err, want);
	exit(1);
}

static void mistakes(void)
{
	size_t free_bytes, total;
	devptr p = 0, none = 0;
	char host[64];
	void *f;

	CHECKED(cuMemAlloc_v2, &p, 4096);
	CHECKED(cuMemFree_v2, p);
	must_fail("double free", CALL(cuMemFree_v2, p), 1);
	CHECKED(cuMemGetInfo_v2, &free_bytes, &total);
	must_fail("more memory than there is", CALL(cuMemAlloc_v2, &none, total + 1), 2);
	must_fail("a free of what was never allocated", CALL(cuMemFree_v2, 0x1234), 1);
	must_fail("a copy to nowhere", CALL(cuMemcpyHtoD_v2, none, host, sizeof(host)), 1);
	must_fail("a kernel that is not there", CALL(cuModuleGetFunction, &f, module, "vecSub"),
		  500);
	must_fail("too large a block",
		  CALL(cuLaunchKernel, vec_add, 1, 1, 1, 4096, 1, 1, 0, NULL, NULL, NULL), 1);
}

static const char *beside(const char *self)
{
	static char path[512];
	const char *end = self;

	for (const char *p = self; *p; p++)
		if (*p == '/')
			end = p + 1;
	snprintf(path, sizeof(path), "%.*svecAdd.cubin", (int)(end - self), self);
	return path;
}

int main(int argc, char **argv)
{
	pthread_t t[64];
	int dev;

	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: advanced [options]\nVector additions by the driver's interface, then "
		"mistakes; "
		"prints what it called.",
		NULL, 0);
	if (!threads || threads > 64)
		die("advanced: --threads is 1 to 64", 2);
	if (hold)
		hold_for_line();
	CHECKED(cuInit, 0);
	CHECKED(cuDeviceGet, &dev, 0);
	CHECKED(cuCtxCreate_v2, &context, 0, dev);
	CHECKED(cuModuleLoad, &module, module_file ? module_file : beside(argv[0]));
	CHECKED(cuModuleGetFunction, &vec_add, module, "vecAdd");
	for (u64 i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, add_vectors, NULL))
			die("pthread_create", 1);
	for (u64 i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	CHECKED(cuCtxSynchronize);
	if (!quiet)
		mistakes();
	CHECKED(cuModuleUnload, module);
	CHECKED(cuCtxDestroy_v2, context);
	tally_report("advanced");
	return 0;
}
