/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an exact number of calls of one operation, at a given rate, and reports them. Tests
 * and benchmarks compare the report with a tracer's counts. */
#include "prog.h"
#include "calls.h"

static u64 threads = 1, rate, on_stdin, zero, size = 256, cpu = NO_VALUE;
static const char *layer = "runtime", *lib;

static const struct option opts[] = {
	{ "threads", 'n', &threads, "number of threads that share the calls (1)" },
	{ "rate", 'n', &rate, "calls a second of all threads (0: as fast as they can)" },
	{ "layer", 's', &layer, "what a short OP means: runtime or driver (runtime)" },
	{ "start-on-stdin", 'f', &on_stdin,
	  "set up, print \"ready PID\", wait for a line, then call" },
	{ "zero", 'f', &zero, "no work behind the calls (sets INGERO_SIM_ZERO=1)" },
	{ "size", 'n', &size, "smallest number of bytes of a copy, memset or allocation (256)" },
	{ "lib", 's', &lib, "take the runtime from this library (libcudart.so.13)" },
	{ "pin", 'n', &cpu, "run on this CPU only" },
};

struct worker {
	pthread_t thread;
	struct call_state state;
	u64 calls, errors, checksum;
	int first_error;
};

static const struct call_op *op;
static void *fn;
static u32 go;
static const struct worker *last; /* of the main thread */
static u64 begin;

/* Calls per burst: a burst lasts at most a millisecond, and the thread sleeps in between. */
static u64 burst_of(u64 per_second)
{
	return per_second < 1000 ? 1 : per_second / 1000;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	u64 share = rate / threads, made = 0;

	if (rate && !share)
		share = 1;
	if (w != last)
		calls_set_device();
	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
		sleep_ns(100000);
	while (made < w->calls) {
		u64 n = w->calls - made;

		if (rate) {
			sleep_until(begin + made * 1000000000ull / share);
			if (n > burst_of(share))
				n = burst_of(share);
		}
		for (u64 end = made + n; made < end; made++) {
			int err = op->call(fn, &w->state, made, &w->checksum);

			if (unlikely(err)) {
				if (!w->errors++)
					w->first_error = err;
			}
		}
	}
	return NULL;
}

static void report(const struct worker *w, const char *name, u64 elapsed)
{
	u64 calls = 0, errors = 0, checksum = 0;
	int first = 0;

	for (u64 i = 0; i < threads; i++) {
		calls += w[i].calls;
		errors += w[i].errors;
		checksum += w[i].checksum;
		if (!first)
			first = w[i].first_error;
	}
	printf("{\"program\":\"calls\",\"pid\":%d,\"op\":\"%s\",\"calls\":%llu,\"errors\":%llu,"
	       "\"first_error\":%d,"
	       "\"elapsed_ns\":%llu,\"checksum\":%llu,\"threads\":%llu,\"also\":{",
	       getpid(), name, (unsigned long long)calls, (unsigned long long)errors, first,
	       (unsigned long long)elapsed, (unsigned long long)checksum,
	       (unsigned long long)threads);
	calls_print_also();
	printf("}}\n");
}

int main(int argc, char **argv)
{
	const char *rest[2] = { "", "" };
	struct worker *w;
	char *end = NULL;
	u64 n;

	if (options(argc, argv, opts, ARRAY_SIZE(opts),
		    "usage: calls OP N [options]\nMakes exactly N calls of OP, a symbol or one "
		    "of: " CALLS_SHORT ".\n"
		    "Prints one JSON line: calls, errors, elapsed_ns, checksum (sum of the sizes "
		    "or of gridDim.x),\n"
		    "and in \"also\" every other CUDA call that it made. Where a call needs an "
		    "undoing it is made too.",
		    rest, 2) != 2)
		die("usage: calls OP N [options] (--help)", 2);
	n = strtoull(rest[1], &end, 0);
	if (*end || end == rest[1] || !threads || threads > 256)
		die("calls: N is a number, --threads 1 to 256", 2);
	op = calls_find(rest[0], layer);
	if (!op)
		die("calls: no such operation (--help lists them)", 2);
	if (zero)
		setenv("INGERO_SIM_ZERO", "1", 1);
	pin_to(cpu);
	fn = calls_open(op, rest[0], lib);
	w = malloc(threads * sizeof(*w));
	memset(w, 0, threads * sizeof(*w));
	last = &w[threads - 1];
	for (u64 i = 0; i < threads; i++) {
		w[i].calls = thread_count(n, threads, i);
		w[i].state.size = size;
		calls_set_up(op, &w[i].state);
	}
	if (on_stdin)
		hold_for_line();
	for (u64 i = 0; i + 1 < threads; i++)
		if (pthread_create(&w[i].thread, NULL, work, &w[i]))
			die("pthread_create", 1);
	begin = now_ns();
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	work(&w[threads - 1]);
	for (u64 i = 0; i + 1 < threads; i++)
		pthread_join(w[i].thread, NULL);
	report(w, calls_symbol(op, rest[0]), now_ns() - begin);
	return 0;
}
