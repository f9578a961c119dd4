/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel training: processes all-reduce their gradients after each step, by NCCL.
 * One rank may be slow, die, or give up. */
#include "api.h"

struct unique_id {
	char bytes[128];
};

int ncclGetUniqueId(struct unique_id *id);
int ncclCommInitRank(void **comm, int nranks, struct unique_id id, int rank);
int ncclCommSplit(void *comm, int color, int key, void **out, void *config);
int ncclAllReduce(const void *send, void *recv, size_t n, int type, int op, void *comm, void *s);
int ncclCommFinalize(void *comm);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);

#define FLOAT32 7
#define NONE NO_VALUE

static u64 ranks = 2, steps = 20, buckets = 4, layers = 8, bytes = 4 << 20, kernel_us = NONE,
	   slow_rank = NONE, slow_ms = 50, slow_from, slow_gpu, split, abort_step = NONE,
	   die_rank = NONE, die_step = 5, hang_rank = NONE, hang_step = 5, jitter_us,
	   rank_option = NONE, cpu_us = 200, hold, one_device;
static const char *id_file;

static const struct option opts[] = {
	{ "ranks", 'n', &ranks, "processes (2)" },
	{ "steps", 'n', &steps, "training steps (20)" },
	{ "layers", 'n', &layers, "kernel launches of a step (8)" },
	{ "buckets", 'n', &buckets, "all-reduces of a step (4)" },
	{ "bytes", 'n', &bytes, "bytes of a bucket (4194304)" },
	{ "kernel-us", 'n', &kernel_us, "GPU time of a kernel in us (INGERO_SIM_KERNEL_NS)" },
	{ "cpu-us", 'n', &cpu_us, "CPU work between steps in us (200)" },
	{ "slow-rank", 'n', &slow_rank, "this rank sleeps before its all-reduces" },
	{ "slow-ms", 'n', &slow_ms, "ms that it sleeps in each step (50)" },
	{ "slow-from", 'n', &slow_from, "from this step on (0)" },
	{ "slow-gpu", 'f', &slow_gpu, "its GPU takes that time, not its CPU" },
	{ "split", 'f', &split, "reduce among even and among odd ranks as well" },
	{ "abort-step", 'n', &abort_step,
	  "all but rank 0 stop at this step; rank 0 waits, then aborts" },
	{ "die-rank", 'n', &die_rank, "this rank exits without an error message" },
	{ "die-step", 'n', &die_step, "at this step (5)" },
	{ "hang-rank", 'n', &hang_rank, "this rank blocks forever in a read of a pipe" },
	{ "hang-step", 'n', &hang_step, "at this step (5)" },
	{ "jitter-us", 'n', &jitter_us,
	  "most that each rank sleeps before its all-reduces, in us" },
	{ "rank", 'n', &rank_option, "run this rank only: each process is started separately" },
	{ "id-file", 's', &id_file,
	  "file that the ranks which are started apart find each other by" },
	{ "one-device", 'f', &one_device, "all ranks use device 0 (else device RANK)" },
	{ "hold", 'f', &hold,
	  "each rank prints \"ready PID\"; a line lets all go on to their first CUDA call" },
};

static char kernel_layer, kernel_slow;
static u64 rank, done, wait_ns, worst_ns, abort_ns;

static void *register_kernels(void)
{
	static char slow[32];
	void **fat = __cudaRegisterFatBinary("simulated");

	snprintf(slow, sizeof(slow), "slow_%lluus", (unsigned long long)slow_ms * 1000);
	__cudaRegisterFunction(fat, &kernel_layer, NULL, "_Z14layer_backwardPfS_i", -1, NULL, NULL,
			       NULL, NULL, NULL);
	__cudaRegisterFunction(fat, &kernel_slow, NULL, slow, -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(fat);
	return slow;
}

static void launch(const void *kernel, const char *name, void *stream)
{
	struct dim3 grid = { 64, 1, 1 }, block = { 256, 1, 1 };

	CHECKED(cudaLaunchKernel, kernel, grid, block, NULL, 0, stream);
	tally(&launches, name, 0);
}

/* Reads from a pipe that nothing writes to. */
static void hang(void)
{
	int ends[2];
	char c;

	if (!pipe(ends))
		read(ends[0], &c, 1);
}

/* One step: kernels, the all-reduce of the gradients, and a wait for both. */
static void step(void *comm, void *half, void *stream, void *gradients, const char *slow_name)
{
	static u64 jitter;
	u64 begin;

	if (!jitter)
		jitter = rank + 1;
	for (u64 i = 0; i < layers; i++)
		launch(&kernel_layer, "_Z14layer_backwardPfS_i", stream);
	if (rank == slow_rank && done < slow_from)
		;
	else if (rank == slow_rank && slow_gpu)
		launch(&kernel_slow, slow_name, stream);
	else if (rank == slow_rank)
		sleep_ns(slow_ms * 1000000);
	if (jitter_us)
		sleep_ns(random_next(&jitter) % (jitter_us * 1000));
	CHECKED(ncclGroupStart);
	for (u64 i = 0; i < buckets; i++)
		CHECKED(ncclAllReduce, gradients, gradients, bytes / 4, FLOAT32, 0, comm, stream);
	CHECKED(ncclGroupEnd);
	if (half)
		CHECKED(ncclAllReduce, gradients, gradients, bytes / 4, FLOAT32, 0, half, stream);
	begin = now_ns();
	if (!(done == abort_step && !rank))
		CHECKED(cudaStreamSynchronize, stream);
	begin = now_ns() - begin;
	wait_ns += begin;
	worst_ns = begin > worst_ns ? begin : worst_ns;
	burn_cpu(cpu_us * 1000);
}

/* Rank 0 is alone in its all-reduce, so its stream waits until rank 0 aborts. */
static void give_up(void *comm, void *stream)
{
	u64 begin = now_ns();

	sleep_ns(100000000);
	if (CALL(cudaStreamQuery, stream) != 600)
		die("ddp: a rank that is alone was done", 1);
	CHECKED(ncclCommAbort, comm);
	CHECKED(cudaStreamSynchronize, stream);
	abort_ns = now_ns() - begin;
}

static void print_report(void)
{
	printf("{\"program\":\"ddp\",\"pid\":%d,\"rank\":%llu,\"steps\":%llu,\"wait_ns\":%llu,"
	       "\"worst_ns\":%llu,\"abort_ns\":%llu,",
	       getpid(), (unsigned long long)rank, (unsigned long long)done,
	       (unsigned long long)wait_ns, (unsigned long long)worst_ns,
	       (unsigned long long)abort_ns);
	tally_print(&calls, "calls", 0);
	printf(",");
	tally_print(&launches, "launches", 0);
	printf("}\n");
	fflush(NULL);
}

static void train(struct unique_id id)
{
	void *comm, *half = NULL, *stream, *gradients;
	const char *slow_name = register_kernels();

	CHECKED(cudaSetDevice, one_device ? 0 : (int)rank);
	CHECKED(cudaStreamCreateWithFlags, &stream, 1);
	CHECKED(cudaMalloc, &gradients, bytes);
	CHECKED(ncclCommInitRank, &comm, (int)ranks, id, (int)rank);
	if (split)
		CHECKED(ncclCommSplit, comm, (int)(rank % 2), (int)rank, &half, NULL);
	for (done = 0; done < steps; done++) {
		if (done == die_step && rank == die_rank)
			kill(getpid(), SIGKILL);
		if (done == hang_step && rank == hang_rank)
			hang();
		if (done == abort_step && rank)
			break;
		step(comm, half, stream, gradients, slow_name);
		if (done == abort_step)
			break;
	}
	if (done == abort_step && !rank)
		give_up(comm, stream);
	else if (done == abort_step)
		CHECKED(ncclCommAbort, comm);
	else
		CHECKED(ncclCommFinalize, comm);
	if (half)
		CHECKED(ncclCommDestroy, half);
	if (done != abort_step)
		CHECKED(ncclCommDestroy, comm);
	CHECKED(cudaFree, gradients);
	CHECKED(cudaStreamDestroy, stream);
	print_report();
}

/* Passes the id through a file: rank 0 writes another name first and renames it, so readers
 * see a complete id. */
static struct unique_id exchange(const char *path)
{
	struct unique_id id;
	char part[256];
	int fd;

	snprintf(part, sizeof(part), "%s.part", path);
	if (!rank) {
		CHECKED(ncclGetUniqueId, &id);
		fd = open(part, O_CREAT | O_TRUNC | O_WRONLY, 0600);
		if (fd < 0 || write(fd, &id, sizeof(id)) != sizeof(id) || close(fd) ||
		    rename(part, path))
			die("ddp: cannot write the id's file", 1);
		return id;
	}
	for (;;) {
		fd = open(path, O_RDONLY);
		if (fd >= 0 && read(fd, &id, sizeof(id)) == sizeof(id))
			break;
		if (fd >= 0)
			close(fd);
		sleep_ns(1000000);
	}
	close(fd);
	return id;
}

/* Starts each rank as a process of its own, and releases all of them by one line. */
static int spawn(int argc, char **argv)
{
	static char path[64], number[24];
	char *args[64];
	int status, failed = 0, gate[2], n = 0;

	snprintf(path, sizeof(path), "/tmp/ingero-sim-ddp-%d", getpid());
	for (int i = 0; i < argc && n < 58; i++)
		args[n++] = argv[i];
	args[n++] = "--id-file", args[n++] = path, args[n++] = "--rank", args[n++] = number;
	args[n] = NULL;
	if (pipe(gate))
		die("pipe", 1);
	for (u64 i = 0; i < ranks; i++) {
		int pid = fork();

		if (pid < 0)
			die("fork", 1);
		if (pid)
			continue;
		snprintf(number, sizeof(number), "%llu", (unsigned long long)i);
		dup2(gate[0], 0);
		close(gate[0]);
		close(gate[1]);
		execv("/proc/self/exe", args);
		_exit(127);
	}
	close(gate[0]);
	if (hold) {
		char c = 0;

		while (c != '\n' && read(0, &c, 1) == 1)
			;
		for (u64 i = 0; i < ranks; i++)
			write(gate[1], "\n", 1);
	}
	close(gate[1]);
	for (u64 i = 0; i < ranks; i++)
		if (waitpid(-1, &status, 0) > 0)
			failed |= status;
	unlink(path);
	return failed != 0;
}

int main(int argc, char **argv)
{
	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: ddp [options]\nData-parallel training by several processes with NCCL; each "
		"prints what it called.",
		NULL, 0);
	if (!ranks || ranks > 16 || (rank_option != NONE && (rank_option >= ranks || !id_file)))
		die("ddp: --ranks is 1 to 16, and --rank wants --id-file", 2);
	if (kernel_us != NONE)
		set_env_number("INGERO_SIM_KERNEL_NS", kernel_us * 1000);
	if (!one_device && !getenv("INGERO_SIM_DEVICES"))
		set_env_number("INGERO_SIM_DEVICES", ranks);
	if (rank_option == NONE)
		return spawn(argc, argv);
	rank = rank_option;
	if (hold)
		hold_for_line();
	train(exchange(id_file));
	return 0;
}
