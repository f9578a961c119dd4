/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation calls: plain, stream-ordered, pooled, pitched, managed, pinned. */
#include "gpu.h"

#define FREES(kind) (1u << (kind))

static int alloc(struct thread *t, u32 kind, u64 size, u64 *out)
{
	if (!out || !size)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	return mem_alloc(kind, t->ctx->device, size, out);
}

CU(cuMemAlloc_v2)(devptr *p, size_t n)
{
	ENTER;
	return alloc(t, MEM_DEVICE, n, p);
}

/* The 32-bit forms of before CUDA 3.2 cannot hold an address of a 64-bit context. */
CU(cuMemAlloc)(u32 *p, u32 n)
{
	ENTER;
	(void)p, (void)n;
	return ERR_INVALID_CONTEXT;
}

CU(cuMemAllocPitch)(u32 *p, u32 *pitch, u32 w, u32 h, u32 elem)
{
	ENTER;
	(void)p, (void)pitch, (void)w, (void)h, (void)elem;
	return ERR_INVALID_CONTEXT;
}

CU(cuMemFree)(u32 p)
{
	ENTER;
	return p ? ERR_INVALID_CONTEXT : OK;
}

CU(cuMemAllocPitch_v2)(devptr *p, size_t *pitch, size_t w, size_t h, u32 elem)
{
	u64 row = (w + 511) & ~511ull;

	ENTER;
	if (!pitch || !w || !h || (elem != 4 && elem != 8 && elem != 16))
		return ERR_INVALID_VALUE;
	*pitch = row;
	return alloc(t, MEM_DEVICE, row * h, p);
}

CU(cuMemAllocManaged)(devptr *p, size_t n, u32 flags)
{
	ENTER;
	if (flags != 1 && flags != 2) /* CU_MEM_ATTACH_GLOBAL, _HOST */
		return ERR_INVALID_VALUE;
	return alloc(t, MEM_MANAGED, n, p);
}

CU(cuMemHostAlloc)(void **p, size_t n, u32 flags)
{
	ENTER;
	if (flags & ~7u)
		return ERR_INVALID_VALUE;
	return alloc(t, MEM_PINNED, n, (u64 *)p);
}

CU(cuMemAllocHost_v2)(void **p, size_t n)
{
	ENTER;
	return alloc(t, MEM_PINNED, n, (u64 *)p);
}

CU(cuMemAllocHost)(void **p, u32 n)
{
	return impl_cuMemAllocHost_v2(p, n);
}

/* Freeing waits for the device, as the real call does. */
CU(cuMemFree_v2)(devptr p)
{
	ENTER;
	if (!p)
		return OK;
	burn(g.cfg.call_ns);
	if (!g.capturing)
		context_wait(t->ctx);
	return mem_free(FREES(MEM_DEVICE) | FREES(MEM_MANAGED), p);
}

CU(cuMemFreeHost)(void *p)
{
	ENTER;
	burn(g.cfg.call_ns);
	if (!g.capturing)
		context_wait(t->ctx);
	return mem_free(FREES(MEM_PINNED), (u64)p);
}

/* A device's default pool has a number for a handle. */
static int is_pool(const void *pool)
{
	return object_get(pool, KIND_POOL) || (u64)pool - POOL_HANDLE_BASE < (u64)g.device_count;
}

static int alloc_async(struct thread *t, void *dflt, devptr *p, size_t n, void *stream)
{
	struct stream *s;
	int err = stream_find(t, stream, dflt, &s);

	if (err)
		return err;
	if (!p || !n)
		return ERR_INVALID_VALUE;
	stream_submit(s, g.cfg.call_ns, 0, NULL);
	return mem_alloc(MEM_DEVICE, t->ctx->device, n, p);
}

static int cuMemAllocAsync_on(void *dflt, devptr *p, size_t n, void *s)
{
	ENTER_AS("cuMemAllocAsync");
	return alloc_async(t, dflt, p, n, s);
}
TWIN(cuMemAllocAsync, _ptsz, (devptr * p, size_t n, void *s), p, n, s)

static int cuMemAllocFromPoolAsync_on(void *dflt, devptr *p, size_t n, void *pool, void *s)
{
	ENTER_AS("cuMemAllocFromPoolAsync");
	return is_pool(pool) ? alloc_async(t, dflt, p, n, s) : ERR_INVALID_VALUE;
}
TWIN(cuMemAllocFromPoolAsync, _ptsz, (devptr * p, size_t n, void *pool, void *s), p, n, pool, s)

static int cuMemFreeAsync_on(void *dflt, devptr p, void *stream)
{
	struct stream *s;

	ENTER_AS("cuMemFreeAsync");
	err = stream_find(t, stream, dflt, &s);
	if (err)
		return err;
	stream_submit(s, g.cfg.call_ns, 0, NULL);
	return p ? mem_free(FREES(MEM_DEVICE), p) : OK;
}
TWIN(cuMemFreeAsync, _ptsz, (devptr p, void *s), p, s)

CU(cuDeviceGetDefaultMemPool)(void **pool, int dev)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (dev < 0 || dev >= g.device_count)
		return ERR_INVALID_DEVICE;
	*pool = (void *)(u64)(POOL_HANDLE_BASE + dev);
	return OK;
}

CU(cuDeviceGetMemPool)(void **pool, int dev)
{
	return impl_cuDeviceGetDefaultMemPool(pool, dev);
}

CU(cuDeviceSetMemPool)(int dev, void *pool)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (dev < 0 || dev >= g.device_count)
		return ERR_INVALID_DEVICE;
	return is_pool(pool) ? OK : ERR_INVALID_VALUE;
}

CU(cuMemPoolCreate)(void **pool, const void *props)
{
	ENTER;
	if (!pool || !props)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	*pool = object_new(KIND_POOL);
	unlock(&g.lock);
	return *pool ? OK : ERR_OUT_OF_MEMORY;
}

CU(cuMemPoolDestroy)(void *pool)
{
	ENTER;
	if (!object_get(pool, KIND_POOL))
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	object_free(pool);
	unlock(&g.lock);
	return OK;
}

CU(cuMemPoolTrimTo)(void *pool, size_t keep)
{
	ENTER;
	(void)keep;
	return is_pool(pool) ? OK : ERR_INVALID_VALUE;
}

CU(cuMemGetInfo_v2)(size_t *free, size_t *total)
{
	ENTER;
	if (!free || !total)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	*free = g.cfg.mem - g.dev[t->ctx->device].used;
	*total = g.cfg.mem;
	unlock(&g.lock);
	return OK;
}

CU(cuMemGetInfo)(u32 *free, u32 *total)
{
	size_t f, n;
	int err = impl_cuMemGetInfo_v2(&f, &n);

	if (err)
		return err;
	*free = f > ~0u ? ~0u : (u32)f;
	*total = n > ~0u ? ~0u : (u32)n;
	return OK;
}

CU(cuMemHostGetDevicePointer_v2)(devptr *d, void *p, u32 flags)
{
	ENTER;
	if (!d || flags || mem_kind((u64)p) != MEM_PINNED)
		return ERR_INVALID_VALUE;
	*d = (u64)p;
	return OK;
}

CU(cuMemHostGetDevicePointer)(u32 *d, void *p, u32 flags)
{
	ENTER;
	(void)d, (void)p, (void)flags;
	return ERR_INVALID_CONTEXT;
}

CU(cuMemGetAddressRange_v2)(devptr *base, size_t *size, devptr p)
{
	u64 n = mem_size(p);

	ENTER;
	if (!n)
		return ERR_NOT_FOUND;
	if (base)
		*base = p;
	if (size)
		*size = n;
	return OK;
}

CU(cuMemGetAddressRange)(u32 *base, u32 *size, u32 p)
{
	ENTER;
	(void)base, (void)size, (void)p;
	return ERR_INVALID_CONTEXT;
}

/* CU_POINTER_ATTRIBUTE_MEMORY_TYPE (2), _IS_MANAGED (8) and _DEVICE_ORDINAL (9). */
CU(cuPointerGetAttribute)(void *data, int attr, devptr p)
{
	int kind = mem_kind(p);

	ENTER;
	if (!data || kind == MEM_PAGEABLE)
		return ERR_INVALID_VALUE;
	if (attr == 2)
		*(u32 *)data = kind == MEM_PINNED ? 1 : 2;
	else if (attr == 8)
		*(u32 *)data = kind == MEM_MANAGED;
	else if (attr == 9)
		*(int *)data = (int)t->ctx->device;
	else
		return ERR_NOT_SUPPORTED;
	return OK;
}

static int cuMemPrefetchAsync_on(void *dflt, devptr p, size_t n, int dev, void *stream)
{
	struct stream *s;

	ENTER_AS("cuMemPrefetchAsync");
	err = stream_find(t, stream, dflt, &s);
	if (err)
		return err;
	if (mem_kind(p) != MEM_MANAGED || dev < -1 || dev >= g.device_count)
		return ERR_INVALID_VALUE;
	return stream_submit(s, g.cfg.call_ns, copy_gpu_ns(n), NULL);
}
TWIN(cuMemPrefetchAsync, _ptsz, (devptr p, size_t n, int dev, void *s), p, n, dev, s)
