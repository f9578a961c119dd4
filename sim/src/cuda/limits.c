/* SPDX-License-Identifier: Apache-2.0 */
/* What a context can be told and asked: limits, caches, its users, the profiler. */
#include "gpu.h"

static const u64 default_limits[LIMITS] = {
	1024, /* bytes of stack a thread */
	1 << 20, /* bytes that printf buffers */
	8 << 20, /* bytes of heap */
	2, /* depth of synchronisation */
	2048, /* launches from kernels that wait */
	64, /* granularity of reads into L2 */
	0, /* bytes of L2 that persist */
};

void limits_init(struct context *ctx)
{
	memcpy(ctx->limit, default_limits, sizeof(ctx->limit));
	ctx->banks = 1; /* of four bytes */
}

CU(cuCtxGetLimit)(size_t *value, u32 limit)
{
	ENTER;
	if (!value)
		return ERR_INVALID_VALUE;
	if (limit >= LIMITS)
		return ERR_UNSUPPORTED_LIMIT;
	*value = t->ctx->limit[limit];
	return OK;
}

CU(cuCtxSetLimit)(u32 limit, size_t value)
{
	ENTER;
	if (limit >= LIMITS)
		return ERR_UNSUPPORTED_LIMIT;
	t->ctx->limit[limit] = value;
	return OK;
}

CU(cuCtxGetCacheConfig)(u32 *config)
{
	ENTER;
	if (!config)
		return ERR_INVALID_VALUE;
	*config = t->ctx->cache;
	return OK;
}

CU(cuCtxSetCacheConfig)(u32 config)
{
	ENTER;
	if (config > 3)
		return ERR_INVALID_VALUE;
	t->ctx->cache = config;
	return OK;
}

CU(cuCtxGetSharedMemConfig)(u32 *config)
{
	ENTER;
	if (!config)
		return ERR_INVALID_VALUE;
	*config = t->ctx->banks;
	return OK;
}

/* The banks are as wide as they are: other widths are taken, and change nothing. */
CU(cuCtxSetSharedMemConfig)(u32 config)
{
	ENTER;
	return config <= 2 ? OK : ERR_INVALID_VALUE;
}

/* A context is there until as many have left it as came to it. */
CU(cuCtxAttach)(void **ctx, u32 flags)
{
	ENTER;
	if (!ctx || flags)
		return ERR_INVALID_VALUE;
	__atomic_add_fetch(&t->ctx->refs, 1, __ATOMIC_RELAXED);
	*ctx = t->ctx;
	return OK;
}

CU(cuCtxDetach)(void *handle)
{
	struct context *ctx = object_get(handle, KIND_CONTEXT);

	ENTER;
	if (!ctx || ctx != t->ctx || !ctx->refs)
		return ERR_INVALID_CONTEXT;
	if (__atomic_sub_fetch(&ctx->refs, 1, __ATOMIC_RELAXED) ||
	    ctx == g.dev[ctx->device].primary)
		return OK;
	return impl_cuCtxDestroy_v2(ctx);
}

CU(cuProfilerStart)(void)
{
	ENTER;
	return OK;
}

CU(cuProfilerStop)(void)
{
	ENTER;
	return OK;
}
