/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation calls (plain, pitched, managed, pinned) and pointer queries. */
#include "gpu.h"

static int alloc(struct thread *t, u32 family, u64 size, u64 *out)
{
	if (!out || !size)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	return mem_alloc(family, t->ctx, NULL, size, out);
}

CU(cuMemAlloc_v2)(devptr *p, size_t n)
{
	ENTER;
	return alloc(t, FAM_DEVICE, n, p);
}

/* The 32-bit forms (before CUDA 3.2) cannot hold an address of a 64-bit context. */
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
	return alloc(t, FAM_DEVICE, row * h, p);
}

CU(cuMemAllocManaged)(devptr *p, size_t n, u32 flags)
{
	ENTER;
	if (flags != 1 && flags != 2) /* CU_MEM_ATTACH_GLOBAL, _HOST */
		return ERR_INVALID_VALUE;
	return alloc(t, FAM_MANAGED, n, p);
}

CU(cuMemHostAlloc)(void **p, size_t n, u32 flags)
{
	ENTER;
	if (flags & ~7u)
		return ERR_INVALID_VALUE;
	err = alloc(t, FAM_PINNED, n, (u64 *)p);
	if (!err)
		mem_set_flags((u64)*p, flags);
	return err;
}

CU(cuMemAllocHost_v2)(void **p, size_t n)
{
	ENTER;
	return alloc(t, FAM_PINNED, n, (u64 *)p);
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
	return mem_free(FREES(FAM_DEVICE) | FREES(FAM_POOL) | FREES(FAM_MANAGED), p);
}

CU(cuMemFreeHost)(void *p)
{
	ENTER;
	burn(g.cfg.call_ns);
	if (!g.capturing)
		context_wait(t->ctx);
	return mem_free(FREES(FAM_PINNED), (u64)p);
}

CU(cuMemGetInfo_v2)(size_t *free, size_t *total)
{
	ENTER;
	if (!free || !total)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	*free = g.cfg.mem - g.dev[t->ctx->device].all.live_bytes;
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

CU(cuMemHostGetFlags)(u32 *flags, void *p)
{
	ENTER;
	return flags ? mem_host_flags((u64)p, flags) : ERR_INVALID_VALUE;
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
		*(int *)data = mem_device(p) < 0 ? (int)t->ctx->device : mem_device(p);
	else
		return ERR_NOT_SUPPORTED;
	return OK;
}

static int prefetch(const char *op, void *dflt, devptr p, size_t n, int dev, void *stream)
{
	struct stream *s;

	ENTER_AS(op);
	err = stream_find(t, stream, dflt, &s);
	if (err)
		return err;
	if (mem_kind(p) != MEM_MANAGED || dev < -1 || dev >= g.device_count)
		return ERR_INVALID_VALUE;
	return stream_submit(s, g.cfg.call_ns, copy_gpu_ns(n), NULL);
}

static int cuMemPrefetchAsync_on(void *dflt, devptr p, size_t n, int dev, void *s)
{
	return prefetch("cuMemPrefetchAsync", dflt, p, n, dev, s);
}
TWIN(cuMemPrefetchAsync, _ptsz, (devptr p, size_t n, int dev, void *s), p, n, dev, s)

static int cuMemPrefetchAsync_v2_on(void *dflt, devptr p, size_t n, struct location to, u32 flags,
				    void *s)
{
	if (flags)
		return *g.live ? ERR_INVALID_VALUE : ERR_NOT_INITIALIZED;
	return prefetch("cuMemPrefetchAsync_v2", dflt, p, n, location_device(to), s);
}
TWIN(cuMemPrefetchAsync_v2, _ptsz, (devptr p, size_t n, struct location to, u32 flags, void *s), p,
     n, to, flags, s)

static int advise(struct thread *t, devptr p, size_t n, int advice, int dev)
{
	(void)t;
	if (!n || mem_kind(p) != MEM_MANAGED || advice < 1 || advice > 6 || dev < -1 ||
	    dev >= g.device_count)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	return OK;
}

CU(cuMemAdvise)(devptr p, size_t n, int advice, int dev)
{
	ENTER;
	return advise(t, p, n, advice, dev);
}

CU(cuMemAdvise_v2)(devptr p, size_t n, int advice, struct location to)
{
	ENTER;
	return advise(t, p, n, advice, location_device(to));
}
