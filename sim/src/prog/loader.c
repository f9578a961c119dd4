/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer fed by data loader workers: forked processes or threads prepare batches and
 * write them into a pipe; the trainer reads, copies and computes. */
#include "prog.h"

static u64 batches = 100, workers = 2, use_threads, batch = 65536, load_us = 500, stall_every,
	   stall_ms = 50, launches = 10;
static u64 kernel_us = NO_VALUE, cpu = NO_VALUE, hold;

static const struct option opts[] = {
	{ "batches", 'n', &batches, "batches to train on (100)" },
	{ "workers", 'n', &workers, "loader workers (2)" },
	{ "use-threads", 'f', &use_threads, "workers are threads, not processes" },
	{ "batch", 'n', &batch, "bytes of a batch (65536)" },
	{ "load-us", 'n', &load_us, "CPU time that a worker needs for a batch in us (500)" },
	{ "stall-every", 'n', &stall_every,
	  "a worker sleeps at one batch in this many (0: never)" },
	{ "stall-ms", 'n', &stall_ms, "how long it sleeps, in ms (50)" },
	{ "launches", 'n', &launches, "kernel launches a batch (10)" },
	{ "kernel-us", 'n', &kernel_us, "GPU time of a kernel in us (INGERO_SIM_KERNEL_NS)" },
	{ "pin", 'n', &cpu, "run on this CPU only" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line before the first CUDA call" },
};

struct worker {
	pthread_t thread;
	int pipe[2];
	u64 batches;
};

static char kernel_step;

static void write_all(int fd, const char *p, u64 n)
{
	while (n) {
		long k = write(fd, p, n);

		if (k <= 0)
			return;
		p += k;
		n -= (u64)k;
	}
}

static u64 read_all(int fd, char *p, u64 n)
{
	u64 got = 0;

	while (got < n) {
		long k = read(fd, p + got, n - got);

		if (k <= 0)
			break;
		got += (u64)k;
	}
	return got;
}

static void *load(void *arg)
{
	struct worker *w = arg;
	char *data = malloc(batch);

	memset(data, 7, batch);
	for (u64 i = 0; i < w->batches; i++) {
		burn_cpu(load_us * 1000);
		if (stall_every && (i + 1) % stall_every == 0)
			sleep_ns(stall_ms * 1000000);
		write_all(w->pipe[1], data, batch);
	}
	close(w->pipe[1]);
	free(data);
	return NULL;
}

static void start(struct worker *w)
{
	int pid;

	check("pipe", pipe(w->pipe));
	if (use_threads) {
		check("pthread_create", pthread_create(&w->thread, NULL, load, w));
		return;
	}
	pid = fork();
	if (pid < 0)
		die("fork", 1);
	if (!pid) {
		close(w->pipe[0]);
		load(w);
		_exit(0);
	}
	close(w->pipe[1]);
}

int main(int argc, char **argv)
{
	struct dim3 grid = { 16, 1, 1 }, block = { 256, 1, 1 };
	u64 errors = 0, waited = 0, done = 0;
	void *stream, *device, *host;
	struct worker *w;

	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: loader [options]\nTrains on batches that workers feed over pipes; prints "
		"one JSON line.",
		NULL, 0);
	if (!workers || workers > 64)
		die("loader: --workers is 1 to 64", 2);
	pin_to(cpu);
	if (kernel_us != NO_VALUE)
		set_env_number("INGERO_SIM_KERNEL_NS", kernel_us * 1000);
	if (hold)
		hold_for_line();
	w = malloc(workers * sizeof(*w));
	for (u64 i = 0; i < workers; i++) {
		w[i].batches = thread_count(batches, workers, i);
		start(&w[i]);
	}
	__cudaRegisterFunction(__cudaRegisterFatBinary("simulated"), &kernel_step, NULL,
			       "train_step", -1, NULL, NULL, NULL, NULL, NULL);
	check("cudaStreamCreate", cudaStreamCreate(&stream));
	check("cudaMalloc", cudaMalloc(&device, batch));
	check("cudaMallocHost", cudaMallocHost(&host, batch));
	while (done < batches) {
		u64 t = now_ns();

		if (read_all(w[done % workers].pipe[0], host, batch) != batch)
			die("a worker died", 1);
		waited += now_ns() - t;
		errors += cudaMemcpyAsync(device, host, batch, H2D, stream) != 0;
		for (u64 i = 0; i < launches; i++)
			errors += cudaLaunchKernel(&kernel_step, grid, block, NULL, 0, stream) != 0;
		errors += cudaStreamSynchronize(stream) != 0;
		done++;
	}
	for (u64 i = 0; i < workers; i++) {
		if (use_threads)
			pthread_join(w[i].thread, NULL);
		else
			waitpid(-1, NULL, 0);
	}
	printf("{\"program\":\"loader\",\"pid\":%d,\"batches\":%llu,\"cudaLaunchKernel\":%llu,"
	       "\"cudaMemcpyAsync\":%llu,"
	       "\"cudaStreamSynchronize\":%llu,\"errors\":%llu,\"waited_ns\":%llu}\n",
	       getpid(), (unsigned long long)done, (unsigned long long)(done * launches),
	       (unsigned long long)done, (unsigned long long)done, (unsigned long long)errors,
	       (unsigned long long)waited);
	return errors != 0;
}
