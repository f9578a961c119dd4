/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives and messages. A call enqueues one kernel on a stream; a group makes one
 * of all that it holds for a communicator. The kernel ends when all have come to it. */
#include "nccl.h"

/* A kernel of this process, and where it meets those of the others. */
struct op {
	struct sim_gate gate;
	struct comm *comm;
	u32 told, n;
	struct {
		struct slot *at;
		u64 enough;
	} meet[];
};

struct task {
	struct comm *comm;
	void *stream;
	int peer; /* -1: a collective; else a message to it, or from it */
	int receive;
	const char *kernel;
	u64 ns;
};

static _Thread_local struct {
	int depth;
	u32 n, cap, n_joining;
	struct task *tasks;
	struct comm *joining[MAX_COMMS];
} group;

/* What libcuda asks of the gate: see gate.h. */
static int look(struct sim_gate *gate, u64 begin, u64 *all)
{
	struct op *o = (struct op *)gate;
	struct comm *c = o->comm;
	u64 last = begin;

	if (__atomic_load_n(&c->aborted, __ATOMIC_ACQUIRE)) {
		last = now_ns();
		o->n = 0;
	} else if (!o->told) {
		o->told = 1;
		for (u32 i = 0; i < o->n; i++) {
			u64 *latest = &o->meet[i].at->latest, was = __atomic_load_n(latest, __ATOMIC_ACQUIRE);

			while (was < begin &&
			       !__atomic_compare_exchange_n(latest, &was, begin, 0, __ATOMIC_ACQ_REL,
							    __ATOMIC_ACQUIRE))
				;
			__atomic_add_fetch(&o->meet[i].at->came, 1, __ATOMIC_ACQ_REL);
		}
		shared_changed(c->sh);
	}
	for (u32 i = 0; i < o->n; i++) {
		u64 latest;

		if (__atomic_load_n(&o->meet[i].at->came, __ATOMIC_ACQUIRE) < o->meet[i].enough)
			return 0;
		latest = __atomic_load_n(&o->meet[i].at->latest, __ATOMIC_ACQUIRE);
		last = last < latest ? latest : last;
	}
	*all = last;
	free(o);
	__atomic_sub_fetch(&c->outstanding, 1, __ATOMIC_ACQ_REL);
	comm_reuse(c);
	return 1;
}

/* The next meeting for a task. Its slot was used before, but all have seen the outcome of
 * that: a rank comes to one only when it knows how the one before it ended, and so when
 * all have come to that, which they do when they know how the one before that ended. */
static void meet(struct op *o, const struct task *t)
{
	struct comm *c = t->comm;
	u64 n = (u64)c->nranks, nth, ways = 2;
	struct slot *at;

	if (t->peer < 0) {
		nth = c->collectives++;
		at = &c->sh->collective[nth % COLLECTIVES];
		nth /= COLLECTIVES;
		ways = n;
	} else {
		u64 from = t->receive ? (u64)t->peer : (u64)c->rank;
		u64 to = t->receive ? (u64)c->rank : (u64)t->peer;

		nth = c->messages[t->receive ? n + (u64)t->peer : (u64)t->peer]++;
		at = &c->sh->message[(from * n + to) * MESSAGES + nth % MESSAGES];
		nth /= MESSAGES;
	}
	o->meet[o->n].at = at;
	o->meet[o->n++].enough = (nth + 1) * ways;
}

/* A communicator's kernels come one after the other, on whatever streams they are. */
static void after_last(struct comm *c, void *stream)
{
	if (c->last_stream && c->last_stream != stream && stream &&
	    !drv.cuEventRecord(c->event, c->last_stream))
		drv.cuStreamWaitEvent(stream, c->event, 0);
	c->last_stream = stream;
}

static int mangled(char *out, size_t n, const char *kernel)
{
	return snprintf(out, n, "_Z%d%s24ncclDevKernelArgsStorageILm4096EE", (int)strlen(kernel),
			kernel);
}

/* One kernel for all tasks of a communicator from the first on. */
static int launch(struct task *tasks, u32 n)
{
	struct launch_config config = { .grid = { 2, 1, 1 }, .block = { 512, 1, 1 } };
	struct comm *c = tasks->comm;
	struct op *o = comm_live(c) ? malloc(sizeof(*o) + n * sizeof(o->meet[0])) : NULL;
	char name[160];
	void *f, *params[2];
	struct sim_gate *gate;
	u64 ns = 0;
	int capturing = 0;

	if (!o)
		return nccl_fail(comm_live(c) ? NCCL_SYSTEM : NCCL_ARGUMENT, "no communicator, or no memory");
	config.stream = tasks->stream;
	mangled(name, sizeof(name), tasks->kernel);
	if (drv.cuStreamIsCapturing(tasks->stream, &capturing) || capturing ||
	    drv.cuModuleGetFunction(&f, c->module, name) || drv.simGate(f)) {
		free(o);
		return nccl_fail(NCCL_CUDA, capturing ? "the stream is capturing" : "no stream");
	}
	*o = (struct op){ .gate = { look, &c->sh->word }, .comm = c };
	for (u32 i = 0; i < n; i++)
		if (tasks[i].comm == c) {
			meet(o, &tasks[i]);
			ns = tasks[i].ns > ns ? tasks[i].ns : ns;
			if (i)
				tasks[i].comm = NULL;
		}
	gate = &o->gate;
	params[0] = &gate;
	params[1] = &ns;
	__atomic_add_fetch(&c->outstanding, 1, __ATOMIC_ACQ_REL);
	after_last(c, tasks->stream);
	if (drv.cuLaunchKernelEx(&config, f, params, NULL)) {
		__atomic_sub_fetch(&c->outstanding, 1, __ATOMIC_ACQ_REL);
		free(o);
		return nccl_fail(NCCL_CUDA, "the kernel was not launched");
	}
	return NCCL_OK;
}

int group_depth(void)
{
	return group.depth;
}

/* In a group a communicator waits for the other ranks at the end of it. */
int group_defer_join(struct comm *c)
{
	if (!group.depth || group.n_joining == MAX_COMMS)
		return 0;
	group.joining[group.n_joining++] = c;
	return 1;
}

EXPORT ncclResult_t ncclGroupStart(void)
{
	group.depth++;
	return NCCL_OK;
}

static int run_group(void)
{
	int err = NCCL_OK;

	for (u32 i = 0; i < group.n_joining; i++)
		comm_settle(group.joining[i]);
	group.n_joining = 0;
	for (u32 i = 0; i < group.n; i++)
		if (group.tasks[i].comm && !err)
			err = launch(&group.tasks[i], group.n - i);
	group.n = 0;
	return err;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
	if (!group.depth)
		return nccl_fail(NCCL_USAGE, "ncclGroupEnd without ncclGroupStart");
	return --group.depth ? NCCL_OK : run_group();
}

static int enqueue(struct task t)
{
	if (!group.depth) {
		if (!comm_joined(t.comm))
			return nccl_fail(NCCL_ARGUMENT, "not all ranks have joined");
		return launch(&t, 1);
	}
	if (group.n == group.cap) {
		u32 cap = group.cap ? 2 * group.cap : 64;
		struct task *more = malloc(cap * sizeof(*more));

		if (!more)
			return nccl_fail(NCCL_SYSTEM, "no memory");
		if (group.tasks)
			memcpy(more, group.tasks, group.n * sizeof(*more));
		free(group.tasks);
		group.tasks = more;
		group.cap = cap;
	}
	group.tasks[group.n++] = t;
	return NCCL_OK;
}

static const struct {
	const char *name;
	u32 size;
} types[] = {
	{ "i8", 1 },  { "u8", 1 },  { "i32", 4 },  { "u32", 4 },    { "i64", 8 },    { "u64", 8 },
	{ "f16", 2 }, { "f32", 4 }, { "f64", 8 },  { "bf16", 2 },   { "f8e4m3", 1 }, { "f8e5m2", 1 },
};

static const char *const ops[] = { "Sum", "Prod", "Max", "Min", "Avg" };

/* "ncclDevKernel_AllReduce_Sum_f32_RING_LL", kept for ever; op -1: neither in the name. */
static const char *kernel_of(const char *what, int type, int op)
{
	static char kept[5][ARRAY_SIZE(types)][ARRAY_SIZE(ops)][48];
	static const char *const with[] = { "AllReduce", "ReduceScatter", "Reduce" };
	u32 i = 0;
	char *name;

	while (i < ARRAY_SIZE(with) && strcmp(with[i], what))
		i++;
	if (i == ARRAY_SIZE(with))
		return what;
	name = kept[i][type][op];
	if (!*name)
		snprintf(name, sizeof(kept[0][0][0]), "ncclDevKernel_%s_%s_%s_RING_LL", what,
			 ops[op], types[type].name);
	return name;
}

/* GPU time once all have come: a latency, and the bytes that each rank moves. */
static u64 time_of(const struct comm *c, u64 bytes, u64 parts)
{
	u64 mbps = env_u64("INGERO_SIM_NCCL_MBPS", is_env("INGERO_SIM_ZERO", "1") ? 0 : 20000);
	u64 ns = env_u64("INGERO_SIM_NCCL_NS", is_env("INGERO_SIM_ZERO", "1") ? 0 : 10000);

	bytes = bytes * parts * (u64)(c->nranks - 1) / (u64)c->nranks;
	return ns + (mbps ? bytes * 1000 / mbps : 0) + 1;
}

static int bad_args(const struct comm *c, int type, int op, int root)
{
	if (!comm_live(c))
		return nccl_fail(NCCL_ARGUMENT, "no such communicator");
	if (type < 0 || type >= (int)ARRAY_SIZE(types))
		return nccl_fail(NCCL_ARGUMENT, "no such data type");
	if (op < 0 || op >= (int)ARRAY_SIZE(ops))
		return nccl_fail(NCCL_ARGUMENT, "no such operation");
	if (root < 0 || root >= c->nranks)
		return nccl_fail(NCCL_ARGUMENT, "no such rank");
	return NCCL_OK;
}

/* parts: how often a rank's count crosses the wire. */
static int collective(struct comm *c, const char *what, size_t count, int type, int op, int root,
		      u64 parts, void *stream)
{
	struct task t = { .comm = c, .stream = stream, .peer = -1 };
	int err = bad_args(c, type, op, root);

	if (err || !count)
		return err;
	t.kernel = kernel_of(what, type, op);
	t.ns = time_of(c, count * types[type].size, parts);
	return enqueue(t);
}

static int message(struct comm *c, size_t count, int type, int peer, int receive, void *stream)
{
	struct task t = { .comm = c, .stream = stream, .peer = peer, .receive = receive };
	int err = bad_args(c, type, 0, peer);

	if (err)
		return err;
	t.kernel = "ncclDevKernel_SendRecv";
	t.ns = time_of(c, count * types[type].size, 1);
	return enqueue(t);
}

#define BUFFERS const void *send, void *recv, size_t count, int type
#define REST struct comm *c, void *stream
#define UNUSED (void)send, (void)recv
#define N ((u64)c->nranks)

EXPORT ncclResult_t ncclAllReduce(BUFFERS, int op, REST)
{
	UNUSED;
	return collective(c, "AllReduce", count, type, op, 0, 2, stream);
}

EXPORT ncclResult_t ncclReduceScatter(BUFFERS, int op, REST)
{
	UNUSED;
	return collective(c, "ReduceScatter", count, type, op, 0, comm_live(c) ? N : 1, stream);
}

EXPORT ncclResult_t ncclAllGather(BUFFERS, REST)
{
	UNUSED;
	return collective(c, "ncclDevKernel_AllGather_RING_LL", count, type, 0, 0,
			  comm_live(c) ? N : 1, stream);
}

EXPORT ncclResult_t ncclBroadcast(BUFFERS, int root, REST)
{
	UNUSED;
	return collective(c, "ncclDevKernel_Broadcast_RING_LL", count, type, 0, root, 1, stream);
}

EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, int type, int root, REST)
{
	(void)buffer;
	return collective(c, "ncclDevKernel_Broadcast_RING_LL", count, type, 0, root, 1, stream);
}

EXPORT ncclResult_t ncclReduce(BUFFERS, int op, int root, REST)
{
	UNUSED;
	return collective(c, "Reduce", count, type, op, root, 1, stream);
}

EXPORT ncclResult_t ncclAlltoAll(BUFFERS, REST)
{
	UNUSED;
	return collective(c, "ncclDevKernel_SendRecv", count, type, 0, 0, comm_live(c) ? N : 1,
			  stream);
}

EXPORT ncclResult_t ncclGather(BUFFERS, int root, REST)
{
	UNUSED;
	return collective(c, "ncclDevKernel_SendRecv", count, type, 0, root, 1, stream);
}

EXPORT ncclResult_t ncclScatter(BUFFERS, int root, REST)
{
	UNUSED;
	return collective(c, "ncclDevKernel_SendRecv", count, type, 0, root, 1, stream);
}

EXPORT ncclResult_t ncclSend(const void *buffer, size_t count, int type, int peer, REST)
{
	(void)buffer;
	return message(c, count, type, peer, 0, stream);
}

EXPORT ncclResult_t ncclRecv(void *buffer, size_t count, int type, int peer, REST)
{
	(void)buffer;
	return message(c, count, type, peer, 1, stream);
}

EXPORT ncclResult_t ncclMemAlloc(void **p, size_t n)
{
	int err = p ? nccl_driver() : nccl_fail(NCCL_ARGUMENT, "no place for the address");

	if (!err && drv.cuMemAlloc_v2((devptr *)p, n))
		err = nccl_fail(NCCL_CUDA, "no memory");
	return err;
}

EXPORT ncclResult_t ncclMemFree(void *p)
{
	int err = nccl_driver();

	if (!err && drv.cuMemFree_v2((devptr)p))
		err = nccl_fail(NCCL_CUDA, "not allocated");
	return err;
}
