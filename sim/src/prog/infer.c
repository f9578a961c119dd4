/* SPDX-License-Identifier: Apache-2.0 */
/* An inference server without a network. Requests arrive at random times; each is a copy
 * in, a few launches, and a copy of the answer out. */
#include "prog.h"

static u64 requests = NO_VALUE, seconds = NO_VALUE, rate = 50, launches = 8, threads = 1,
	   kernel_us = NO_VALUE;
static u64 seed = 1, cpu = NO_VALUE, hold, input = 262144, output = 16384, pageable;

static const struct option opts[] = {
	{ "requests", 'n', &requests,
	  "requests of each thread (default: 100, or no limit with --seconds)" },
	{ "seconds", 'n', &seconds, "seconds after which it stops" },
	{ "rate", 'n', &rate, "requests a second of each thread, on average (50; 0: no gaps)" },
	{ "launches", 'n', &launches, "kernel launches a request (8)" },
	{ "threads", 'n', &threads, "threads, each with a stream of its own (1)" },
	{ "kernel-us", 'n', &kernel_us, "GPU time of a kernel in us (INGERO_SIM_KERNEL_NS)" },
	{ "input", 'n', &input, "bytes copied to the GPU a request (262144)" },
	{ "output", 'n', &output, "bytes copied back a request (16384)" },
	{ "pageable", 'f', &pageable, "copy from and to pageable memory, not pinned" },
	{ "seed", 'n', &seed, "seed of the arrival times (1)" },
	{ "pin", 'n', &cpu, "run on this CPU only" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line before the first CUDA call" },
};

struct worker {
	pthread_t thread;
	u64 seed, served, launched, copies, syncs, errors;
	u64 total_ns, worst_ns;
};

static u64 deadline;
static char kernel_attention, kernel_mlp;

/* The next gap: exponential with the rate's mean, from the number of leading zeros. */
static u64 next_gap(u64 *state)
{
	u64 mean = 1000000000ull / rate;
	u64 bits = random_next(state) | 1;
	u64 zeros = (u64)__builtin_clzll(bits);
	u64 frac = bits << zeros >> 32 & 0x7fffffff; /* within the octave -log2 is linear to 9 % */

	/* -ln(u) = ln 2 * (zeros + 1 - frac / 2^31) */
	return mean * 693 / 1000 * ((zeros + 1) * 2147483648ull - frac) / 2147483648ull;
}

static void serve(struct worker *w, void *stream, void *device, void *in, void *out)
{
	struct dim3 grid = { 32, 4, 1 }, block = { 128, 1, 1 };
	u64 begin = now_ns(), took;

	w->errors += cudaMemcpyAsync(device, in, input, H2D, stream) != 0;
	for (u64 i = 0; i < launches; i++)
		w->errors += cudaLaunchKernel(i & 1 ? &kernel_mlp : &kernel_attention, grid, block,
					      NULL, 0, stream) != 0;
	w->errors += cudaMemcpyAsync(out, device, output, D2H, stream) != 0;
	w->errors += cudaStreamSynchronize(stream) != 0;
	w->served++;
	w->launched += launches;
	w->copies += 2;
	w->syncs++;
	took = now_ns() - begin;
	w->total_ns += took;
	if (took > w->worst_ns)
		w->worst_ns = took;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	void *stream, *device, *in, *out;
	u64 at = now_ns();

	check("cudaSetDevice", cudaSetDevice(0));
	check("cudaStreamCreate", cudaStreamCreate(&stream));
	check("cudaMalloc", cudaMalloc(&device, input > output ? input : output));
	if (pageable) {
		in = malloc(input);
		out = malloc(output);
		memset(in, 1, input);
	} else {
		check("cudaMallocHost", cudaMallocHost(&in, input));
		check("cudaMallocHost", cudaMallocHost(&out, output));
	}
	while (w->served < requests && (!deadline || now_ns() < deadline)) {
		if (rate) {
			at += next_gap(&w->seed);
			sleep_until(at);
		}
		serve(w, stream, device, in, out);
	}
	check("cudaFree", cudaFree(device));
	return NULL;
}

int main(int argc, char **argv)
{
	struct worker *w, sum = { 0 };
	void **fat;

	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: infer [options]\nServes requests on the GPU; prints one JSON line of exact "
		"counts.",
		NULL, 0);
	if (!threads || threads > 256)
		die("infer: --threads is 1 to 256", 2);
	pin_to(cpu);
	if (kernel_us != NO_VALUE)
		set_env_number("INGERO_SIM_KERNEL_NS", kernel_us * 1000);
	if (requests == NO_VALUE && seconds == NO_VALUE)
		requests = 100;
	if (hold)
		hold_for_line();
	if (seconds != NO_VALUE)
		deadline = now_ns() + seconds * 1000000000ull;
	fat = __cudaRegisterFatBinary("simulated");
	__cudaRegisterFunction(fat, &kernel_attention, NULL, "attention", -1, NULL, NULL, NULL,
			       NULL, NULL);
	__cudaRegisterFunction(fat, &kernel_mlp, NULL, "mlp", -1, NULL, NULL, NULL, NULL, NULL);
	w = malloc(threads * sizeof(*w));
	memset(w, 0, threads * sizeof(*w));
	for (u64 i = 0; i < threads; i++) {
		w[i].seed = seed + i;
		if (i + 1 < threads && pthread_create(&w[i].thread, NULL, work, &w[i]))
			die("pthread_create", 1);
	}
	work(&w[threads - 1]);
	for (u64 i = 0; i < threads; i++) {
		if (i + 1 < threads)
			pthread_join(w[i].thread, NULL);
		sum.served += w[i].served;
		sum.launched += w[i].launched;
		sum.copies += w[i].copies;
		sum.syncs += w[i].syncs;
		sum.errors += w[i].errors;
		sum.total_ns += w[i].total_ns;
		if (w[i].worst_ns > sum.worst_ns)
			sum.worst_ns = w[i].worst_ns;
	}
	printf("{\"program\":\"infer\",\"pid\":%d,\"requests\":%llu,\"cudaLaunchKernel\":%llu,"
	       "\"cudaMemcpyAsync\":%llu,"
	       "\"cudaStreamSynchronize\":%llu,\"errors\":%llu,\"mean_ns\":%llu,\"worst_ns\":%llu}"
	       "\n",
	       getpid(), (unsigned long long)sum.served, (unsigned long long)sum.launched,
	       (unsigned long long)sum.copies, (unsigned long long)sum.syncs,
	       (unsigned long long)sum.errors,
	       (unsigned long long)(sum.served ? sum.total_ns / sum.served : 0),
	       (unsigned long long)sum.worst_ns);
	return sum.errors != 0;
}
