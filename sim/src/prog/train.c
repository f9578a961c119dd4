/* SPDX-License-Identifier: Apache-2.0 */
/* A training loop: copy a batch in, launch kernels, synchronise; now and then a
 * larger allocation. Each of forked workers is a process of its own. */
#include "prog.h"

static u64 steps = NO_VALUE, seconds = NO_VALUE, launches = 20, threads = 1, workers,
	   kernel_us = NO_VALUE, seed = 1;
static u64 cpu = NO_VALUE, hold, alloc_every = 50, batch = 1 << 20, pageable, step_cpu_us = 200;

static const struct option opts[] = {
	{ "steps", 'n', &steps,
	  "training steps of each thread (default: 100, or no limit with --seconds)" },
	{ "seconds", 'n', &seconds, "stop after so many seconds" },
	{ "launches", 'n', &launches, "kernel launches a step (20)" },
	{ "threads", 'n', &threads, "threads, each with a stream of its own (1)" },
	{ "fork", 'n', &workers, "worker processes, forked before the first CUDA call (0: none)" },
	{ "kernel-us", 'n', &kernel_us, "GPU time of a kernel in us (INGERO_SIM_KERNEL_NS)" },
	{ "batch", 'n', &batch, "bytes of a batch (1048576)" },
	{ "pageable", 'f', &pageable, "copy batches from pageable memory, not pinned" },
	{ "alloc-every", 'n', &alloc_every,
	  "an allocation and a free every so many steps (50; 0: never)" },
	{ "cpu-us", 'n', &step_cpu_us, "CPU work between steps in us (200)" },
	{ "seed", 'n', &seed, "seed of the sizes (1)" },
	{ "pin", 'n', &cpu, "run on this CPU only" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line before the first CUDA call" },
};

struct worker {
	pthread_t thread;
	u64 seed;
	u64 steps, launched, copies, allocs, frees, syncs, errors, bytes;
	u64 step_ns;
};

static u64 deadline;
static char kernel_forward, kernel_backward;

static void count(struct worker *w, u64 *n, int err)
{
	++*n;
	w->errors += err != 0;
}

__attribute__((noinline)) static void forward(struct worker *w, void *stream)
{
	struct dim3 grid = { 64, 1, 1 }, block = { 256, 1, 1 };

	for (u64 i = 0; i < (launches + 1) / 2; i++)
		count(w, &w->launched,
		      cudaLaunchKernel(&kernel_forward, grid, block, NULL, 0, stream));
}

__attribute__((noinline)) static void backward(struct worker *w, void *stream)
{
	struct dim3 grid = { 128, 2, 1 }, block = { 128, 1, 1 };

	for (u64 i = 0; i < launches / 2; i++)
		count(w, &w->launched,
		      cudaLaunchKernel(&kernel_backward, grid, block, NULL, 1024, stream));
}

/* One larger buffer that comes and goes, of a size that the seed gives. */
static void churn(struct worker *w)
{
	size_t n = 65536 + random_next(&w->seed) % (8 << 20);
	void *p = NULL;
	int err = cudaMalloc(&p, n);

	count(w, &w->allocs, err);
	if (!err)
		count(w, &w->frees, cudaFree(p));
}

static void *train(void *arg)
{
	struct worker *w = arg;
	void *stream = NULL, *device = NULL, *host = NULL;
	u64 begin;

	check("cudaSetDevice", cudaSetDevice(0));
	check("cudaStreamCreate", cudaStreamCreate(&stream));
	check("cudaMalloc", cudaMalloc(&device, batch));
	w->allocs++;
	if (pageable) {
		host = malloc(batch);
		memset(host, 1, batch);
	} else {
		check("cudaMallocHost", cudaMallocHost(&host, batch));
	}
	begin = now_ns();
	while (w->steps < steps && (!deadline || now_ns() < deadline)) {
		count(w, &w->copies, cudaMemcpyAsync(device, host, batch, H2D, stream));
		w->bytes += batch;
		forward(w, stream);
		backward(w, stream);
		count(w, &w->syncs, cudaStreamSynchronize(stream));
		if (alloc_every && ++w->steps % alloc_every == 0)
			churn(w);
		else if (!alloc_every)
			w->steps++;
		burn_cpu(step_cpu_us * 1000);
	}
	w->step_ns = w->steps ? (now_ns() - begin) / w->steps : 0;
	count(w, &w->frees, cudaFree(device));
	return NULL;
}

static void report(const struct worker *w, u64 n, const char *who)
{
	struct worker sum = { 0 };

	for (u64 i = 0; i < n; i++) {
		sum.steps += w[i].steps;
		sum.launched += w[i].launched;
		sum.copies += w[i].copies;
		sum.allocs += w[i].allocs;
		sum.frees += w[i].frees;
		sum.syncs += w[i].syncs;
		sum.errors += w[i].errors;
		sum.bytes += w[i].bytes;
		sum.step_ns += w[i].step_ns / n;
	}
#define U(f) (unsigned long long)sum.f
	printf("{\"program\":\"%s\",\"pid\":%d,\"steps\":%llu,\"cudaLaunchKernel\":%llu,"
	       "\"cudaMemcpyAsync\":%llu,"
	       "\"cudaStreamSynchronize\":%llu,\"cudaMalloc\":%llu,\"cudaFree\":%llu,\"errors\":%"
	       "llu,"
	       "\"bytes\":%llu,\"step_ns\":%llu}\n",
	       who, getpid(), U(steps), U(launched), U(copies), U(syncs), U(allocs), U(frees),
	       U(errors), U(bytes), U(step_ns));
	fflush(NULL);
}

static u64 run(u64 base_seed, const char *who)
{
	struct worker *w = malloc(threads * sizeof(*w));
	void **fat = __cudaRegisterFatBinary("simulated");
	u64 errors = 0;

	__cudaRegisterFunction(fat, &kernel_forward, NULL, "forward_kernel", -1, NULL, NULL, NULL,
			       NULL, NULL);
	__cudaRegisterFunction(fat, &kernel_backward, NULL, "backward_kernel", -1, NULL, NULL, NULL,
			       NULL, NULL);
	memset(w, 0, threads * sizeof(*w));
	for (u64 i = 0; i < threads; i++) {
		w[i].seed = base_seed + i;
		if (i + 1 < threads && pthread_create(&w[i].thread, NULL, train, &w[i]))
			die("pthread_create", 1);
	}
	train(&w[threads - 1]);
	for (u64 i = 0; i + 1 < threads; i++)
		pthread_join(w[i].thread, NULL);
	for (u64 i = 0; i < threads; i++)
		errors += w[i].errors;
	report(w, threads, who);
	free(w);
	return errors;
}

int main(int argc, char **argv)
{
	int failed = 0, status;

	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: train [options]\nA training loop on the GPU; prints one JSON line of exact "
		"counts a process.",
		NULL, 0);
	if (!threads || threads > 256 || workers > 256)
		die("--threads is 1 to 256, --fork at most 256", 2);
	pin_to(cpu);
	if (kernel_us != NO_VALUE)
		set_env_number("INGERO_SIM_KERNEL_NS", kernel_us * 1000);
	if (steps == NO_VALUE && seconds == NO_VALUE)
		steps = 100;
	if (hold)
		hold_for_line();
	if (seconds != NO_VALUE)
		deadline = now_ns() + seconds * 1000000000ull;
	if (!workers)
		return run(seed, "train") != 0;
	for (u64 i = 0; i < workers; i++) {
		int pid = fork();

		if (pid < 0)
			die("fork", 1);
		if (!pid)
			exit(run(seed + 1000 * (i + 1), "train-worker") != 0);
	}
	for (u64 i = 0; i < workers; i++)
		if (waitpid(-1, &status, 0) > 0)
			failed |= status != 0;
	return failed;
}
