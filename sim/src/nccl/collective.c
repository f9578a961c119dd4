/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives and messages: each is one kernel on a stream. */
#include "nccl.h"

static const struct {
	const char *name;
	u32 size;
} types[] = {
	{ "i8", 1 },  { "u8", 1 },  { "i32", 4 }, { "u32", 4 },  { "i64", 8 },    { "u64", 8 },
	{ "f16", 2 }, { "f32", 4 }, { "f64", 8 }, { "bf16", 2 }, { "f8e4m3", 1 }, { "f8e5m2", 1 },
};

static const char *const ops[] = { "Sum", "Prod", "Max", "Min", "Avg" };

/* Returns a kernel's name, never freed: "ncclDevKernel_AllReduce_Sum_f32_RING_LL" for "AllReduce";
 * what itself, a whole name, for collectives without an operation in the name. */
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

/* GPU time once all ranks have arrived: a latency, plus the bytes that each rank moves. */
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

/* parts: how many times a rank's data crosses the wire. */
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
