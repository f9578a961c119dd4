/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and contexts. */
#include "gpu.h"

#define DRIVER_VERSION 13000

CU(cuDriverGetVersion)(int *v)
{
	if (!v)
		return ERR_INVALID_VALUE;
	*v = DRIVER_VERSION;
	return OK;
}

static int check_device(int dev)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	return dev >= 0 && dev < g.device_count ? OK : ERR_INVALID_DEVICE;
}

CU(cuDeviceGetCount)(int *n)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!n)
		return ERR_INVALID_VALUE;
	*n = g.device_count;
	return OK;
}

CU(cuDeviceGet)(int *dev, int ordinal)
{
	int err = check_device(ordinal);

	if (!err && dev)
		*dev = ordinal;
	return err;
}

static void copy_text(char *dst, int len, const char *src)
{
	for (; len > 1 && *src; len--)
		*dst++ = *src++;
	if (len > 0)
		*dst = 0;
}

CU(cuDeviceGetName)(char *name, int len, int dev)
{
	int err = check_device(dev);

	if (!err)
		copy_text(name, len, "Simulated GPU");
	return err;
}

/* The attributes that programs ask for; others are 0. Numbers as in CUdevice_attribute. */
CU(cuDeviceGetAttribute)(int *v, int attr, int dev)
{
	static const int values[] = {
		[1] = 1024,   [2] = 1024,     [3] = 1024,  [4] = 64,        [5] = 2147483647,
		[6] = 65535,  [7] = 65535,    [8] = 49152, [9] = 65536,     [10] = 32,
		[12] = 65536, [13] = 1410000, [15] = 1,    [16] = 108,      [19] = 1,
		[31] = 1,     [36] = 1215000, [37] = 5120, [38] = 41943040, [39] = 2048,
		[40] = 3,     [41] = 1,       [75] = 8,    [76] = 0,        [81] = 167936,
		[82] = 65536, [83] = 1,       [89] = 1,    [90] = 1,        [95] = 1,
		[96] = 1,     [115] = 1,
	};
	int err = check_device(dev);

	if (err)
		return err;
	if (!v || attr < 1)
		return ERR_INVALID_VALUE;
	if (attr == 33) /* PCI bus */
		*v = 0x10 + dev;
	else
		*v = attr < (int)ARRAY_SIZE(values) ? values[attr] : 0;
	return OK;
}

CU(cuDeviceTotalMem_v2)(size_t *n, int dev)
{
	int err = check_device(dev);

	if (!err)
		*n = g.cfg.mem;
	return err;
}

CU(cuDeviceTotalMem)(u32 *n, int dev)
{
	int err = check_device(dev);

	if (!err)
		*n = g.cfg.mem > ~0u ? ~0u : (u32)g.cfg.mem;
	return err;
}

CU(cuDeviceGetUuid_v2)(u8 *uuid, int dev)
{
	int err = check_device(dev);

	for (int i = 0; !err && i < 16; i++)
		uuid[i] = (u8)(i == 15 ? dev : 0x51);
	return err;
}

CU(cuDeviceGetUuid)(u8 *uuid, int dev)
{
	return impl_cuDeviceGetUuid_v2(uuid, dev);
}

CU(cuDeviceGetPCIBusId)(char *text, int len, int dev)
{
	char id[] = "0000:10:00.0";
	int err = check_device(dev);

	if (err)
		return err;
	id[6] = "0123456789abcdef"[dev & 15];
	copy_text(text, len, id);
	return OK;
}

CU(cuDeviceComputeCapability)(int *major, int *minor, int dev)
{
	int err = check_device(dev);

	if (!err) {
		*major = 8;
		*minor = 0;
	}
	return err;
}

CU(cuDeviceCanAccessPeer)(int *can, int dev, int peer)
{
	int err = check_device(dev);

	if (!err)
		err = check_device(peer);
	if (!err)
		*can = dev != peer;
	return err;
}

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
	ctx->legacy = s;
	s->ctx = ctx;
	return ctx;
}

/* Frees a context and its streams and functions. The caller holds the lock. */
static void context_free(struct context *ctx)
{
	for (u32 i = 0; i < object_count(KIND_STREAM); i++) {
		struct stream *s = (void *)object_at(KIND_STREAM, i);

		if (s && s->ctx == ctx)
			stream_free(s);
	}
	functions_forget(ctx, NULL);
	object_free(&ctx->o);
}

CU(cuDevicePrimaryCtxRetain)(void **out, int dev)
{
	int err = check_device(dev);
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
	int err = check_device(dev);
	struct device *d = &g.dev[dev & (MAX_DEVICES - 1)];

	if (err)
		return err;
	lock(&g.lock);
	if (d->primary)
		context_free(d->primary);
	d->primary = NULL;
	d->primary_refs = 0;
	mem_forget((u32)dev);
	g.lost = OK;
	unlock(&g.lock);
	return OK;
}

CU(cuDevicePrimaryCtxRelease_v2)(int dev)
{
	int err = check_device(dev);
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
	int err = check_device(dev);

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
	int err = check_device(dev);

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
	int err = check_device(dev);
	struct context *ctx;

	if (err)
		return err;
	lock(&g.lock);
	ctx = context_new((u32)dev, flags);
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
		*least = 0;
	if (greatest)
		*greatest = -5;
	return OK;
}
