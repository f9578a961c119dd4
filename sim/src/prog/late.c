/* SPDX-License-Identifier: Apache-2.0 */
/* A program that loads the CUDA runtime long after its start, as a Python interpreter does.
 * It may load a copy of the runtime and delete it at once. */
#include "prog.h"

static const char *lib = "libcudart.so.12", *copy_of;
static u64 delay_ms = NO_VALUE, calls = 100, cycles = 1, hold_after, pause_ms;

static const struct option opts[] = {
	{ "lib", 's', &lib, "the library to load (libcudart.so.12)" },
	{ "delay-ms", 'n', &delay_ms,
	  "ms before it loads the library, instead of a line on stdin" },
	{ "calls", 'n', &calls, "calls of each kind for every load (100)" },
	{ "cycles", 'n', &cycles, "number of times to load it, call it and unload it (1)" },
	{ "copy", 's', &copy_of,
	  "load a copy of --lib made at this path, deleted right after the load" },
	{ "wait", 'f', &hold_after,
	  "after the load print \"loaded PID\" and wait for a line before the calls" },
	{ "pause-ms", 'n', &pause_ms, "ms to sleep between cycles" },
};

/* Copies the runtime. The copy still loads libcuda.so.1 by name. */
static void copy_file(const char *from, const char *to)
{
	char buf[8192];
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	long n;

	if (in < 0 || out < 0)
		die("--copy: --lib must be a path that can be read, --copy one that can be written",
		    1);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			die("write", 1);
	close(in);
	close(out);
}

static void *symbol(void *h, const char *name)
{
	void *p = dlsym(h, name);

	if (!p)
		die(name, 1);
	return p;
}

static void wait_line(const char *word)
{
	char c = 0;

	dprintf(1, "%s %d\n", word, getpid());
	while (c != '\n' && read(0, &c, 1) == 1)
		;
}

/* Returns the number of failed calls. */
static u64 use(void *h)
{
	int (*do_malloc)(void **, size_t) = symbol(h, "cudaMalloc");
	int (*do_free)(void *) = symbol(h, "cudaFree");
	int (*do_sync)(void) = symbol(h, "cudaDeviceSynchronize");
	u64 errors = 0;

	for (u64 i = 0; i < calls; i++) {
		void *p = NULL;

		errors += do_malloc(&p, 4096 + i) != 0;
		errors += do_free(p) != 0;
		errors += do_sync() != 0;
	}
	return errors;
}

int main(int argc, char **argv)
{
	u64 errors = 0;

	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: late [options]\nLoads the CUDA runtime late; prints one JSON line of exact "
		"counts.",
		NULL, 0);
	if (delay_ms == NO_VALUE)
		wait_line("ready");
	else
		sleep_ns(delay_ms * 1000000);
	for (u64 i = 0; i < cycles; i++) {
		void *h;

		if (copy_of)
			copy_file(lib, copy_of);
		h = dlopen(copy_of ? copy_of : lib, RTLD_NOW);
		if (!h) {
			dprintf(2, "late: %s\n", dlerror());
			return 1;
		}
		if (copy_of)
			unlink(copy_of);
		if (hold_after)
			wait_line("loaded");
		errors += use(h);
		dlclose(h);
		if (pause_ms)
			sleep_ns(pause_ms * 1000000);
	}
	printf("{\"program\":\"late\",\"pid\":%d,\"cycles\":%llu,\"cudaMalloc\":%llu,\"cudaFree\":%"
	       "llu,"
	       "\"cudaDeviceSynchronize\":%llu,\"errors\":%llu}\n",
	       getpid(), (unsigned long long)cycles, (unsigned long long)(calls * cycles),
	       (unsigned long long)(calls * cycles), (unsigned long long)(calls * cycles),
	       (unsigned long long)errors);
	return errors != 0;
}
