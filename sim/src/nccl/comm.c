/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: how ranks join, split and leave. */
#include "nccl.h"

#define MAGIC 0x6c63636e6d6973ull

struct nccl_driver drv;

static struct comm comms[MAX_COMMS];
static struct lock comms_lock;
static _Thread_local const char *last_error = "";

int nccl_fail(int err, const char *why)
{
	last_error = why;
	return err;
}

/* Loads the driver and a context: the thread's own, or that of device 0. */
int nccl_driver(void)
{
	static u32 ready;
	void *lib, *ctx = NULL;

	if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) {
		lib = dlopen("libcuda.so.1", RTLD_NOW);
		if (!lib)
			return nccl_fail(NCCL_SYSTEM, "no CUDA driver");
#define X(name, params) drv.name = (__typeof__(drv.name))dlsym(lib, #name);
		NCCL_DRIVER(X)
#undef X
		if (!drv.simLook)
			return nccl_fail(NCCL_SYSTEM, "not the simulated CUDA driver");
		__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
	}
	if (drv.cuInit(0) || drv.cuCtxGetCurrent(&ctx))
		return nccl_fail(NCCL_CUDA, "no CUDA device");
	if (!ctx && (drv.cuDevicePrimaryCtxRetain(&ctx, 0) || drv.cuCtxSetCurrent(ctx)))
		return nccl_fail(NCCL_CUDA, "no CUDA context");
	return NCCL_OK;
}

int comm_live(const struct comm *c)
{
	return c >= comms && c < comms + MAX_COMMS && c->used == COMM_LIVE;
}

int comm_joined(const struct comm *c)
{
	return __atomic_load_n(&c->sh->joined, __ATOMIC_ACQUIRE) == (u32)c->nranks;
}

/* Waits until all ranks have joined. */
static int wait_joined(struct comm *c)
{
	while (!comm_joined(c) && !c->aborted) {
		u32 seen = __atomic_load_n(&c->sh->word, __ATOMIC_ACQUIRE);

		if (!comm_joined(c))
			shared_wait(c->sh, seen);
	}
	return c->aborted ? NCCL_SYSTEM : NCCL_OK;
}

/* Thread of each communicator: it lets the GPU's queue advance while the program does other
 * work. */
static void *progress(void *arg)
{
	struct comm *c = arg;

	while (!__atomic_load_n(&c->closing, __ATOMIC_ACQUIRE)) {
		u32 seen = __atomic_load_n(&c->sh->word, __ATOMIC_ACQUIRE);

		drv.simLook();
		if (!__atomic_load_n(&c->closing, __ATOMIC_ACQUIRE))
			shared_wait(c->sh, seen);
	}
	return NULL;
}

static struct comm *comm_new(void)
{
	struct comm *c = comms;

	lock(&comms_lock);
	while (c < comms + MAX_COMMS && c->used)
		c++;
	if (c < comms + MAX_COMMS) {
		memset(c, 0, sizeof(*c));
		c->used = COMM_LIVE;
	}
	unlock(&comms_lock);
	return c < comms + MAX_COMMS ? c : NULL;
}

/* Opens the shared file and takes a rank. Does not wait for the other ranks. */
static int join(struct comm *c, const u64 name[2], int nranks, int rank)
{
	u32 none = 0;

	c->rank = rank;
	c->nranks = nranks;
	memcpy(c->name, name, sizeof(c->name));
	c->messages = malloc(2 * (size_t)nranks * sizeof(u64));
	c->sh = shared_open(name, nranks, &c->len);
	if (!c->messages || !c->sh)
		return nccl_fail(NCCL_SYSTEM, "no shared memory");
	memset(c->messages, 0, 2 * (size_t)nranks * sizeof(u64));
	if (!__atomic_compare_exchange_n(&c->sh->nranks, &none, (u32)nranks, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE) &&
	    none != (u32)nranks)
		return nccl_fail(NCCL_ARGUMENT, "ranks differ in how many there are");
	if (__atomic_exchange_n(&c->sh->taken[rank], 1, __ATOMIC_ACQ_REL))
		return nccl_fail(NCCL_USAGE, "two ranks have the same number");
	if (drv.cuCtxGetDevice(&c->device) || drv.cuModuleLoadData(&c->module, "nccl") ||
	    drv.cuEventCreate(&c->event, 2))
		return nccl_fail(NCCL_CUDA, "no module");
	if (pthread_create(&c->thread, NULL, progress, c))
		return nccl_fail(NCCL_SYSTEM, "no thread");
	if (__atomic_add_fetch(&c->sh->joined, 1, __ATOMIC_ACQ_REL) == (u32)nranks)
		shared_remove(name);
	shared_changed(c->sh);
	return NCCL_OK;
}

/* Frees an aborted communicator only when none of its queued kernels points to it any more. */
void comm_reuse(struct comm *c)
{
	u32 dead = COMM_DEAD;

	if (!__atomic_load_n(&c->outstanding, __ATOMIC_ACQUIRE))
		__atomic_compare_exchange_n(&c->used, &dead, COMM_FREE, 0, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED);
}

static void close_comm(struct comm *c)
{
	__atomic_store_n(&c->closing, 1, __ATOMIC_RELEASE);
	if (c->sh)
		shared_changed(c->sh);
	if (c->thread)
		pthread_join(c->thread, NULL);
	if (c->sh && !comm_joined(c))
		shared_remove(c->name);
	if (c->sh)
		shared_close(c->sh, c->len);
	free(c->messages);
	lock(&comms_lock);
	c->used = COMM_DEAD;
	comm_reuse(c);
	unlock(&comms_lock);
}

static int init(struct comm **out, int nranks, const u64 name[2], int rank, int blocking)
{
	struct comm *c;
	int err;

	if (!out || nranks < 1 || nranks > MAX_RANKS || rank < 0 || rank >= nranks)
		return nccl_fail(NCCL_ARGUMENT, "no such rank");
	err = nccl_driver();
	if (err)
		return err;
	c = comm_new();
	if (!c)
		return nccl_fail(NCCL_SYSTEM, "too many communicators");
	err = join(c, name, nranks, rank);
	if (err) {
		close_comm(c);
		return err;
	}
	__atomic_store_n(out, c, __ATOMIC_RELEASE);
	if (group_defer_join(c))
		return NCCL_OK;
	if (!blocking)
		return comm_joined(c) ? NCCL_OK : NCCL_IN_PROGRESS;
	return wait_joined(c);
}

/* Called at the end of a group for each communicator that was created in it. */
void comm_settle(struct comm *c)
{
	wait_joined(c);
}

EXPORT ncclResult_t ncclGetUniqueId(struct unique_id *id)
{
	int fd, err;

	if (!id)
		return nccl_fail(NCCL_ARGUMENT, "no place for the id");
	err = nccl_driver();
	if (err)
		return err;
	memset(id, 0, sizeof(*id));
	id->magic = MAGIC;
	fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, id->name, sizeof(id->name)) != sizeof(id->name))
		err = nccl_fail(NCCL_SYSTEM, "no random numbers");
	if (fd >= 0)
		close(fd);
	return err;
}

EXPORT ncclResult_t ncclCommInitRank(struct comm **c, int nranks, struct unique_id id, int rank)
{
	if (id.magic != MAGIC)
		return nccl_fail(NCCL_ARGUMENT, "no id of ncclGetUniqueId");
	return init(c, nranks, id.name, rank, 1);
}

struct config { /* ncclConfig_t, up to the last field that is read */
	size_t size;
	u32 magic, version;
	int blocking;
};

EXPORT ncclResult_t ncclCommInitRankConfig(struct comm **c, int nranks, struct unique_id id,
					   int rank, const struct config *config)
{
	if (id.magic != MAGIC)
		return nccl_fail(NCCL_ARGUMENT, "no id of ncclGetUniqueId");
	return init(c, nranks, id.name, rank, !config || config->blocking);
}

EXPORT ncclResult_t ncclCommInitRankScalable(struct comm **c, int nranks, int rank, int n_ids,
					     const struct unique_id *ids,
					     const struct config *config)
{
	if (!ids || n_ids < 1 || n_ids > nranks || ids->magic != MAGIC)
		return nccl_fail(NCCL_ARGUMENT, "no ids of ncclGetUniqueId");
	return init(c, nranks, ids->name, rank, !config || config->blocking);
}

/* All ranks in this process, one device each. */
EXPORT ncclResult_t ncclCommInitAll(struct comm **out, int n, const int *devices)
{
	struct unique_id id;
	void *before, *ctx;
	int err = ncclGetUniqueId(&id);

	if (!out || n < 1)
		err = nccl_fail(NCCL_ARGUMENT, "no communicators");
	if (err)
		return err;
	drv.cuCtxGetCurrent(&before);
	for (int i = 0; i < n && !err; i++) {
		if (drv.cuDevicePrimaryCtxRetain(&ctx, devices ? devices[i] : i))
			err = nccl_fail(NCCL_CUDA, "no such device");
		else
			drv.cuCtxSetCurrent(ctx);
		if (!err)
			err = init(&out[i], n, id.name, i, 0);
		err = err == NCCL_IN_PROGRESS ? NCCL_OK : err;
	}
	drv.cuCtxSetCurrent(before);
	return err;
}

/* Names the file where a split's ranks meet: one name for each color. */
static void name_of_split(u64 name[2], const struct comm *c, u64 nth, int color)
{
	u64 h = 0x9e3779b97f4a7c15ull * (nth + 1) ^ (u64)(u32)color * 0xbf58476d1ce4e5b9ull;

	h = (h ^ h >> 29) * 0x94d049bb133111ebull;
	name[0] = c->name[0] ^ h;
	name[1] = c->name[1] ^ (h * 0xbf58476d1ce4e5b9ull ^ h >> 31);
}

/* All ranks call it; those of one color get a new communicator, ordered by key. */
EXPORT ncclResult_t ncclCommSplit(struct comm *c, int color, int key, struct comm **out,
				  const struct config *config)
{
	u64 nth, name[2];
	int n = 0, rank = 0;

	if (!comm_live(c) || !out || color < -1)
		return nccl_fail(NCCL_ARGUMENT, "no such communicator or color");
	nth = c->splits++;
	c->sh->split[nth % 2][c->rank].color = color;
	c->sh->split[nth % 2][c->rank].key = key;
	__atomic_add_fetch(&c->sh->split_came, 1, __ATOMIC_ACQ_REL);
	shared_changed(c->sh);
	while (__atomic_load_n(&c->sh->split_came, __ATOMIC_ACQUIRE) < (nth + 1) * (u64)c->nranks) {
		u32 seen = __atomic_load_n(&c->sh->word, __ATOMIC_ACQUIRE);

		if (c->aborted)
			return nccl_fail(NCCL_SYSTEM, "aborted");
		if (__atomic_load_n(&c->sh->split_came, __ATOMIC_ACQUIRE) <
		    (nth + 1) * (u64)c->nranks)
			shared_wait(c->sh, seen);
	}
	*out = NULL;
	if (color < 0)
		return NCCL_OK;
	for (int i = 0; i < c->nranks; i++) {
		int k = c->sh->split[nth % 2][i].key;

		if (c->sh->split[nth % 2][i].color != color)
			continue;
		n++;
		rank += k < key || (k == key && i < c->rank);
	}
	name_of_split(name, c, nth, color);
	return init(out, n, name, rank, !config || config->blocking);
}

static void wait_done(struct comm *c)
{
	while (__atomic_load_n(&c->outstanding, __ATOMIC_ACQUIRE) && !c->aborted) {
		u32 seen = __atomic_load_n(&c->sh->word, __ATOMIC_ACQUIRE);

		drv.simLook();
		if (__atomic_load_n(&c->outstanding, __ATOMIC_ACQUIRE))
			shared_wait(c->sh, seen);
	}
}

EXPORT ncclResult_t ncclCommFinalize(struct comm *c)
{
	if (!comm_live(c))
		return nccl_fail(NCCL_ARGUMENT, "no such communicator");
	wait_done(c);
	return NCCL_OK;
}

EXPORT ncclResult_t ncclCommDestroy(struct comm *c)
{
	if (!c)
		return NCCL_OK;
	if (!comm_live(c))
		return nccl_fail(NCCL_ARGUMENT, "no such communicator");
	wait_done(c);
	close_comm(c);
	return NCCL_OK;
}

/* Releases this rank's kernels. Other ranks' kernels wait until they abort too. */
EXPORT ncclResult_t ncclCommAbort(struct comm *c)
{
	if (!c)
		return NCCL_OK;
	if (!comm_live(c))
		return nccl_fail(NCCL_ARGUMENT, "no such communicator");
	__atomic_store_n(&c->aborted, 1, __ATOMIC_RELEASE);
	shared_changed(c->sh);
	drv.simLook();
	close_comm(c);
	return NCCL_OK;
}

EXPORT ncclResult_t ncclCommGetAsyncError(struct comm *c, ncclResult_t *err)
{
	if (!comm_live(c) || !err)
		return nccl_fail(NCCL_ARGUMENT, "no such communicator");
	*err = comm_joined(c) ? NCCL_OK : NCCL_IN_PROGRESS;
	return NCCL_OK;
}

#define ASK(name, field)                                                                           \
	EXPORT ncclResult_t name(const struct comm *c, int *v)                                     \
	{                                                                                          \
		if (!comm_live(c) || !v)                                                           \
			return nccl_fail(NCCL_ARGUMENT, "no such communicator");                   \
		*v = c->field;                                                                     \
		return NCCL_OK;                                                                    \
	}
ASK(ncclCommCount, nranks)
ASK(ncclCommUserRank, rank)
ASK(ncclCommCuDevice, device)

EXPORT ncclResult_t ncclGetVersion(int *v)
{
	if (!v)
		return nccl_fail(NCCL_ARGUMENT, "no place for the version");
	*v = NCCL_VERSION;
	return NCCL_OK;
}

EXPORT const char *ncclGetErrorString(ncclResult_t err)
{
	static const char *const text[] = {
		"no error",
		"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)",
		"internal error - please report this issue to the NCCL developers",
		"invalid argument (run with NCCL_DEBUG=WARN for details)",
		"invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error",
		"NCCL operation in progress",
	};

	return err >= 0 && err < (int)ARRAY_SIZE(text) ? text[err] : "unknown result code";
}

EXPORT const char *ncclGetLastError(const struct comm *c)
{
	(void)c;
	return last_error;
}
