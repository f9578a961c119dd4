/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts. */
#include "gpu.h"

static struct context *context_new(u32 dev, u32 flags)
{
	struct context *ctx = (void *)object_new(KIND_CONTEXT);
	struct stream *s = ctx ? (void *)object_new(KIND_STREAM) : NULL;

	if (!s) {
		if (ctx)
			object_free(&ctx->o);
		return NULL;
	}
	ctx->device = dev;
	ctx->flags = flags;
	limits_init(ctx);
	ctx->legacy = s;
	s->ctx = ctx;
	return ctx;
}

/* Frees a context with its streams, modules, arrays and memory. The caller holds the lock. */
static void context_free(struct context *ctx)
{
	for (u32 i = 0; i < object_count(KIND_STREAM); i++) {
		struct stream *s = (void *)object_at(KIND_STREAM, i);

		if (s && s->ctx == ctx)
			stream_free(s);
	}
	modules_forget(ctx);
	arrays_forget(ctx);
	mem_forget(ctx);
	object_free(&ctx->o);
}

CU(cuDevicePrimaryCtxRetain)(void **out, int dev)
{
	int err = device_check(dev);
	struct device *d = &g.dev[dev & (MAX_DEVICES - 1)];

	if (err)
		return err;
	if (!out)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	if (!d->primary)
		d->primary = context_new((u32)dev, d->primary_flags);
	if (d->primary)
		d->primary_refs++;
	*out = d->primary;
	unlock(&g.lock);
	return *out ? OK : ERR_OUT_OF_MEMORY;
}

CU(cuDevicePrimaryCtxReset_v2)(int dev)
{
	int err = device_check(dev);
	struct device *d = &g.dev[dev & (MAX_DEVICES - 1)];

	if (err)
		return err;
	lock(&g.lock);
	if (d->primary)
		context_free(d->primary);
	d->primary = NULL;
	d->primary_refs = 0;
	g.lost = OK;
	unlock(&g.lock);
	return OK;
}

CU(cuDevicePrimaryCtxRelease_v2)(int dev)
{
	int err = device_check(dev);
	struct device *d = &g.dev[dev & (MAX_DEVICES - 1)];
	int last;

	if (err)
		return err;
	lock(&g.lock);
	last = d->primary_refs && !--d->primary_refs;
	unlock(&g.lock);
	return last ? impl_cuDevicePrimaryCtxReset_v2(dev) : OK;
}

CU(cuDevicePrimaryCtxReset)(int dev)
{
	return impl_cuDevicePrimaryCtxReset_v2(dev);
}

CU(cuDevicePrimaryCtxRelease)(int dev)
{
	return impl_cuDevicePrimaryCtxRelease_v2(dev);
}

CU(cuDevicePrimaryCtxSetFlags_v2)(int dev, u32 flags)
{
	int err = device_check(dev);

	if (err)
		return err;
	g.dev[dev].primary_flags = flags;
	if (g.dev[dev].primary)
		g.dev[dev].primary->flags = flags;
	return OK;
}

CU(cuDevicePrimaryCtxSetFlags)(int dev, u32 flags)
{
	return impl_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CU(cuDevicePrimaryCtxGetState)(int dev, u32 *flags, int *active)
{
	int err = device_check(dev);

	if (!err) {
		*flags = g.dev[dev].primary_flags;
		*active = g.dev[dev].primary != NULL;
	}
	return err;
}

CU(cuCtxSetCurrent)(void *ctx)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (ctx && !object_get(ctx, KIND_CONTEXT))
		return ERR_INVALID_CONTEXT;
	thread_self()->ctx = ctx;
	return OK;
}

CU(cuCtxGetCurrent)(void **ctx)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	*ctx = thread_self()->ctx;
	return OK;
}

CU(cuCtxPushCurrent_v2)(void *ctx)
{
	struct thread *t = thread_self();

	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!object_get(ctx, KIND_CONTEXT) || t->depth == ARRAY_SIZE(t->stack))
		return ERR_INVALID_CONTEXT;
	t->stack[t->depth++] = t->ctx;
	t->ctx = ctx;
	return OK;
}

CU(cuCtxPopCurrent_v2)(void **ctx)
{
	struct thread *t = thread_self();

	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!t->ctx)
		return ERR_INVALID_CONTEXT;
	if (ctx)
		*ctx = t->ctx;
	t->ctx = t->depth ? t->stack[--t->depth] : NULL;
	return OK;
}

CU(cuCtxPushCurrent)(void *ctx)
{
	return impl_cuCtxPushCurrent_v2(ctx);
}

CU(cuCtxPopCurrent)(void **ctx)
{
	return impl_cuCtxPopCurrent_v2(ctx);
}

CU(cuCtxCreate_v2)(void **out, u32 flags, int dev)
{
	int err = device_check(dev);
	struct context *ctx;

	if (err)
		return err;
	lock(&g.lock);
	ctx = context_new((u32)dev, flags);
	if (ctx)
		ctx->refs = 1;
	unlock(&g.lock);
	if (!ctx)
		return ERR_OUT_OF_MEMORY;
	*out = ctx;
	return impl_cuCtxPushCurrent_v2(ctx);
}

CU(cuCtxCreate)(void **out, u32 flags, int dev)
{
	return impl_cuCtxCreate_v2(out, flags, dev);
}

/* With execution affinities. CUDA 13's form takes them, and more, in one structure. */
CU(cuCtxCreate_v3)(void **out, const void *affinity, int n, u32 flags, int dev)
{
	(void)affinity;
	if (n < 0)
		return *g.live ? ERR_INVALID_VALUE : ERR_NOT_INITIALIZED;
	return impl_cuCtxCreate_v2(out, flags, dev);
}

CU(cuCtxCreate_v4)(void **out, const void *params, u32 flags, int dev)
{
	(void)params;
	return impl_cuCtxCreate_v2(out, flags, dev);
}

/* Devices always see each other's memory, so the call only checks its arguments. */
CU(cuCtxEnablePeerAccess)(void *peer, u32 flags)
{
	ENTER;
	if (flags)
		return ERR_INVALID_VALUE;
	return object_get(peer, KIND_CONTEXT) && peer != t->ctx ? OK : ERR_INVALID_CONTEXT;
}

CU(cuCtxDisablePeerAccess)(void *peer)
{
	ENTER;
	return object_get(peer, KIND_CONTEXT) && peer != t->ctx ? OK : ERR_INVALID_CONTEXT;
}

CU(cuCtxGetId)(void *ctx, u64 *id)
{
	const struct context *c = ctx ? object_get(ctx, KIND_CONTEXT) : thread_self()->ctx;

	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!c || !id)
		return c ? ERR_INVALID_VALUE : ERR_INVALID_CONTEXT;
	*id = c->o.index + 1;
	return OK;
}

CU(cuCtxDestroy_v2)(void *ctx)
{
	struct thread *t = thread_self();

	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!object_get(ctx, KIND_CONTEXT))
		return ERR_INVALID_CONTEXT;
	if (t->ctx == ctx)
		impl_cuCtxPopCurrent_v2(NULL);
	lock(&g.lock);
	context_free(ctx);
	unlock(&g.lock);
	return OK;
}

CU(cuCtxDestroy)(void *ctx)
{
	return impl_cuCtxDestroy_v2(ctx);
}

CU(cuCtxGetDevice)(int *dev)
{
	ENTER;
	*dev = (int)t->ctx->device;
	return OK;
}

CU(cuCtxGetFlags)(u32 *flags)
{
	ENTER;
	*flags = t->ctx->flags;
	return OK;
}

CU(cuCtxGetApiVersion)(void *ctx, u32 *v)
{
	(void)ctx;
	*v = DRIVER_VERSION;
	return OK;
}

CU(cuCtxGetStreamPriorityRange)(int *least, int *greatest)
{
	ENTER;
	if (least)
		*least = LEAST_PRIORITY;
	if (greatest)
		*greatest = GREATEST_PRIORITY;
	return OK;
}
