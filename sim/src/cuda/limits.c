/* SPDX-License-Identifier: Apache-2.0 */
/* Settings and queries of a context: limits, caches, reference counts, the profiler. */
#include "gpu.h"

static const u64 default_limits[LIMITS] = {
	1024, /* stack per thread, bytes */
	1 << 20, /* printf buffer, bytes */
	8 << 20, /* heap, bytes */
	2, /* device synchronization depth */
	2048, /* pending launches from kernels */
	64, /* L2 fetch granularity */
	0, /* persisting L2, bytes */
};

void limits_init(struct context *ctx)
{
	memcpy(ctx->limit, default_limits, sizeof(ctx->limit));
	ctx->banks = 1; /* four bytes wide */
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

/* The width of the banks is fixed: other widths are accepted and change nothing. */
CU(cuCtxSetSharedMemConfig)(u32 config)
{
	ENTER;
	return config <= 2 ? OK : ERR_INVALID_VALUE;
}

/* A context is destroyed once each attach has been matched by a detach. */
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
