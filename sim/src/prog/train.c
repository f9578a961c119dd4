/* SPDX-License-Identifier: Apache-2.0 */
/* A training loop: copy a batch in, launch kernels, synchronize; now and then a larger
 * allocation. Each forked worker is a process of its own. */
#include "prog.h"

static u64 steps = NO_VALUE, seconds = NO_VALUE, launches = 20, threads = 1, workers,
	   kernel_us = NO_VALUE, seed = 1;
static const char *nvtx, *nvtx_by = "push";
static u64 nvtx_junk;
static u64 cpu = NO_VALUE, hold, alloc_every = 50, batch = 1 << 20, pageable, step_cpu_us = 200;

static const struct option opts[] = {
	{ "steps", 'n', &steps,
	  "training steps of each thread (default: 100, or no limit with --seconds)" },
	{ "seconds", 'n', &seconds, "seconds after which it stops" },
	{ "launches", 'n', &launches, "kernel launches a step (20)" },
	{ "threads", 'n', &threads, "threads, each with a stream of its own (1)" },
	{ "fork", 'n', &workers, "worker processes, forked before the first CUDA call (0: none)" },
	{ "kernel-us", 'n', &kernel_us, "GPU time of a kernel in us (INGERO_SIM_KERNEL_NS)" },
	{ "batch", 'n', &batch, "bytes of a batch (1048576)" },
	{ "pageable", 'f', &pageable, "copy batches from pageable memory, not pinned" },
	{ "alloc-every", 'n', &alloc_every,
	  "steps between two allocations, each with a free (50; 0: none)" },
	{ "cpu-us", 'n', &step_cpu_us, "CPU work between steps in us (200)" },
	{ "seed", 'n', &seed, "seed of the sizes (1)" },
	{ "pin", 'n', &cpu, "run on this CPU only" },
	{ "nvtx", 's', &nvtx,
	  "each step is an NVTX range of this name, in which are others; a # stands for its "
	  "number" },
	{ "nvtx-by", 's', &nvtx_by,
	  "how the range of a step is made: push, start or domain (push)" },
	{ "nvtx-junk", 'f', &nvtx_junk, "ranges in each step with hostile names" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line before the first CUDA call" },
};

#define TIMES 8192 /* steps whose times are kept */

struct worker {
	pthread_t thread;
	u64 seed;
	u64 steps, launched, copies, allocs, frees, syncs, errors, bytes;
	u64 step_ns;
	u64 ranges, range, *times;
};

static u64 deadline;
static char kernel_forward, kernel_backward;

static int (*push)(const char *name);
static int (*pop)(void);
static u64 (*start)(const char *name);
static void (*end)(u64 id);
static int (*domain_push)(void *domain, const void *attributes);
static int (*domain_pop)(void *domain);

/* nvtxEventAttributes_t */
struct attributes {
	uint16_t version, size;
	u32 category, color_type, color, payload_type, reserved;
	u64 payload;
	u32 message_type;
	const char *message;
};

static void load_nvtx(void)
{
	void *lib = dlopen("libnvToolsExt.so.1", RTLD_NOW);

	if (!lib)
		die(dlerror(), 1);
	push = (int (*)(const char *))dlsym(lib, "nvtxRangePushA");
	pop = (int (*)(void))dlsym(lib, "nvtxRangePop");
	start = (u64(*)(const char *))dlsym(lib, "nvtxRangeStartA");
	end = (void (*)(u64))dlsym(lib, "nvtxRangeEnd");
	domain_push = (int (*)(void *, const void *))dlsym(lib, "nvtxDomainRangePushEx");
	domain_pop = (int (*)(void *))dlsym(lib, "nvtxDomainRangePop");
}

static void range_begin(const char *name)
{
	if (push)
		push(name);
}

static void range_end(void)
{
	if (pop)
		pop();
}

/* Names that are not text, are very long, or have invalid addresses. */
static void junk(void)
{
	static char endless[10240];

	memset(endless, 'x', sizeof(endless) - 1);
	const char *names[] = {
		endless,         "\033[2J\033]0;owned\a\n\"%s%n", "\xff\xfe\x80", "", NULL,
		(const char *)8, (const char *)0xffff800000000000
	};

	for (u64 i = 0; i < ARRAY_SIZE(names); i++) {
		range_begin(names[i]);
		range_end();
	}
}

/* Begins the range of a step and returns the time. */
static u64 begin_step(struct worker *w)
{
	char name[256];
	u64 at = now_ns(), n = 0;

	if (!push)
		return at;
	if (nvtx_junk)
		range_end(); /* without a begin */
	for (const char *s = nvtx; *s && n < sizeof(name) - 24; s++)
		if (*s == '#')
			n += snprintf(name + n, 24, "%llu", (unsigned long long)w->ranges);
		else
			name[n++] = *s;
	name[n] = 0;
	at = now_ns();
	if (!strcmp(nvtx_by, "start"))
		w->range = start(name);
	else if (!strcmp(nvtx_by, "domain"))
		domain_push(w,
			    &(struct attributes){
				    .version = 2, .size = 48, .message_type = 1, .message = name });
	else
		push(name);
	return at;
}

static void end_step(struct worker *w, u64 begun)
{
	if (!push)
		return;
	if (!strcmp(nvtx_by, "start"))
		end(w->range);
	else if (!strcmp(nvtx_by, "domain"))
		domain_pop(w);
	else
		pop();
	w->times[w->ranges % TIMES] = now_ns() - begun;
	w->ranges++;
}

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

/* Allocates and frees one larger buffer, whose size depends on the seed. */
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
	if (nvtx)
		w->times = malloc(TIMES * sizeof(*w->times));
	begin = now_ns();
	range_begin("training");
	while (w->steps < steps && (!deadline || now_ns() < deadline)) {
		u64 begun = begin_step(w);

		range_begin("copy in");
		count(w, &w->copies, cudaMemcpyAsync(device, host, batch, H2D, stream));
		w->bytes += batch;
		range_end();
		range_begin("forward");
		forward(w, stream);
		range_end();
		range_begin("backward");
		backward(w, stream);
		range_end();
		if (nvtx_junk)
			junk();
		range_begin("wait");
		count(w, &w->syncs, cudaStreamSynchronize(stream));
		range_end();
		end_step(w, begun);
		if (alloc_every && ++w->steps % alloc_every == 0)
			churn(w);
		else if (!alloc_every)
			w->steps++;
		burn_cpu(step_cpu_us * 1000);
	}
	range_end();
	w->step_ns = w->steps ? (now_ns() - begin) / w->steps : 0;
	count(w, &w->frees, cudaFree(device));
	return NULL;
}

/* Returns the median of the steps' times. */
static u64 middle(u64 *times, u64 n)
{
	for (u64 i = 1; i < n; i++)
		for (u64 j = i; j && times[j - 1] > times[j]; j--) {
			u64 t = times[j];

			times[j] = times[j - 1];
			times[j - 1] = t;
		}
	return n ? times[n / 2] : 0;
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
	       "\"bytes\":%llu,\"step_ns\":%llu",
	       who, getpid(), U(steps), U(launched), U(copies), U(syncs), U(allocs), U(frees),
	       U(errors), U(bytes), U(step_ns));
	if (nvtx) {
		struct worker *last = (struct worker *)&w[n - 1];
		u64 kept = last->ranges < TIMES ? last->ranges : TIMES;

		printf(",\"ranges\":%llu,\"range_p50_ns\":%llu", (unsigned long long)last->ranges,
		       (unsigned long long)middle(last->times, kept));
	}
	printf("}\n");
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
	if (nvtx)
		load_nvtx();
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
