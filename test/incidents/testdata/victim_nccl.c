// SPDX-License-Identifier: Apache-2.0
/*
 * Operations of victims whose processes are ranks: those with an allreduce in their script,
 * main being rank 0. Each rank has a device of its own.
 *
 * allreduce N        all-reduces N bytes over all ranks, in the stream
 * pipe               reads from a pipe that nothing writes to, while the fault is on
 * quit               exits without any cleanup
 * device N           uses this device from now on
 */
#include "victim.h"
#include <dlfcn.h>
#include <sys/mman.h>

struct unique_id {
	char bytes[128];
};

#define FLOAT32 7

static struct meeting {
	_Atomic int there; /* id is set */
	struct unique_id id;
} * meeting;
static int (*get_id)(struct unique_id *id);
static int (*init_rank)(void **comm, int nranks, struct unique_id id, int rank);
static int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *);
static void *comm;

int cudaSetDevice(int device);
int cudaMalloc(void **p, size_t n);

/* Runs before any process is forked, so that all share it. */
__attribute__((constructor)) static void make_meeting(void)
{
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	need(meeting != MAP_FAILED, "memory that is shared");
}

static void *function(void *lib, const char *name)
{
	void *f = dlsym(lib, name);

	need(f != NULL, name);
	return f;
}

static void join_ranks(struct actor *a)
{
	int ranks, rank = rank_of(a, "allreduce", &ranks);
	void *lib = dlopen("libnccl.so.2", RTLD_NOW);

	need(lib != NULL, "libnccl.so.2");
	usleep(200000); /* like programs that load the library long before they use it */
	get_id = function(lib, "ncclGetUniqueId");
	init_rank = function(lib, "ncclCommInitRank");
	all_reduce = function(lib, "ncclAllReduce");
	need(!cudaSetDevice(rank), "cudaSetDevice");
	if (!rank) {
		need(!get_id(&meeting->id), "ncclGetUniqueId");
		atomic_store(&meeting->there, 1);
	}
	while (!atomic_load(&meeting->there))
		usleep(1000);
	need(!init_rank(&comm, ranks, meeting->id, rank), "ncclCommInitRank");
}

static void allreduce(struct actor *a, const long *arg)
{
	if (!comm)
		join_ranks(a);
	need(!all_reduce(device_memory(a, arg[0]), a->device, arg[0] / 4, FLOAT32, 0, comm,
			 stream_of(a)),
	     "ncclAllReduce");
}

static void wait_pipe(struct actor *a, const long *arg)
{
	int ends[2];
	char c;

	(void)a, (void)arg;
	need(!pipe(ends), "pipe");
	if (fork() == 0) { /* holds the other end open while the fault is on */
		while (atomic_load(&victim_log->mode) & 1)
			usleep(2000);
		_exit(0);
	}
	close(ends[1]);
	(void)!read(ends[0], &c, 1);
	close(ends[0]);
}

static void quit(struct actor *a, const long *arg)
{
	(void)a, (void)arg;
	_exit(1);
}

static void use_device(struct actor *a, const long *arg)
{
	if (a->steps <= 1)
		need(!cudaSetDevice(arg[0]), "cudaSetDevice");
}

const struct op nccl_ops[] = {
	{ "allreduce", allreduce }, { "pipe", wait_pipe }, { "quit", quit },
	{ "device", use_device },   { NULL, NULL },
};
