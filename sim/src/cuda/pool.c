/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered memory and its pools. A pool caches nothing: freed memory returns to the
 * device at once. */
#include "gpu.h"

/* The handle of a device's default pool is a number. */
struct pool *pool_get(const void *handle)
{
	u64 dev = (u64)handle - POOL_HANDLE_BASE;

	return dev < (u64)g.device_count ? &g.dev[dev].pool : object_get(handle, KIND_POOL);
}

static int alloc_async(struct thread *t, void *dflt, struct pool *pool, devptr *p, size_t n,
		       void *stream)
{
	struct stream *s;
	int err = stream_find(t, stream, dflt, &s);

	if (err)
		return err;
	if (!p || !n || !pool)
		return ERR_INVALID_VALUE;
	stream_submit(s, g.cfg.call_ns, 0, NULL);
	return mem_alloc(FAM_POOL, t->ctx, pool, n, p);
}

static int cuMemAllocAsync_on(void *dflt, devptr *p, size_t n, void *s)
{
	ENTER_AS("cuMemAllocAsync");
	return alloc_async(t, dflt, g.dev[t->ctx->device].current, p, n, s);
}
TWIN(cuMemAllocAsync, _ptsz, (devptr * p, size_t n, void *s), p, n, s)

static int cuMemAllocFromPoolAsync_on(void *dflt, devptr *p, size_t n, void *pool, void *s)
{
	ENTER_AS("cuMemAllocFromPoolAsync");
	return alloc_async(t, dflt, pool_get(pool), p, n, s);
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
	return mem_free(FREES(FAM_DEVICE) | FREES(FAM_POOL), p);
}
TWIN(cuMemFreeAsync, _ptsz, (devptr p, void *s), p, s)

CU(cuDeviceGetDefaultMemPool)(void **pool, int dev)
{
	int err = device_check(dev);

	if (!err)
		*pool = (void *)(u64)(POOL_HANDLE_BASE + dev);
	return err;
}

CU(cuDeviceGetMemPool)(void **pool, int dev)
{
	int err = device_check(dev);

	if (!err && g.dev[dev].current == &g.dev[dev].pool)
		return impl_cuDeviceGetDefaultMemPool(pool, dev);
	if (!err)
		*pool = g.dev[dev].current;
	return err;
}

CU(cuDeviceSetMemPool)(int dev, void *pool)
{
	int err = device_check(dev);

	if (err)
		return err;
	if (!pool_get(pool) || pool_get(pool)->dev != (u32)dev)
		return ERR_INVALID_VALUE;
	g.dev[dev].current = pool_get(pool);
	return OK;
}

struct pool_props { /* CUmemPoolProps */
	int alloc_type, handle_types;
	struct location location;
};

CU(cuMemPoolCreate)(void **pool, const struct pool_props *props)
{
	struct pool *p;

	ENTER;
	if (!pool || !props || props->alloc_type > 1 ||
	    (u32)location_device(props->location) >= (u32)g.device_count)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	p = (void *)object_new(KIND_POOL);
	if (p)
		p->dev = (u32)props->location.id;
	unlock(&g.lock);
	*pool = p;
	return p ? OK : ERR_OUT_OF_MEMORY;
}

/* Allocations from the pool stay valid, so the object lives until the last is freed. */
CU(cuMemPoolDestroy)(void *handle)
{
	struct pool *p = object_get(handle, KIND_POOL);

	ENTER;
	if (!p)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	if (g.dev[p->dev].current == p)
		g.dev[p->dev].current = &g.dev[p->dev].pool;
	if (p->used)
		p->o.kind = KIND_DEAD_POOL;
	else
		object_free(&p->o);
	unlock(&g.lock);
	return OK;
}

CU(cuMemPoolTrimTo)(void *pool, size_t keep)
{
	ENTER;
	(void)keep;
	return pool_get(pool) ? OK : ERR_INVALID_VALUE;
}

/* CUmemPool_attribute: 1 to 3 ints that allow reuse; 4 release threshold; 5 reserved memory,
 * 6 its peak; 7 used memory, 8 its peak. */
CU(cuMemPoolGetAttribute)(void *handle, int attr, void *value)
{
	struct pool *p = pool_get(handle);

	ENTER;
	if (!p || !value || attr < 1 || attr > 8)
		return ERR_INVALID_VALUE;
	if (attr < 4)
		*(int *)value = !p->reuse[attr - 1];
	else if (attr == 4)
		*(u64 *)value = p->threshold;
	else
		*(u64 *)value = attr & 1 ? p->used : p->high;
	return OK;
}

CU(cuMemPoolSetAttribute)(void *handle, int attr, void *value)
{
	struct pool *p = pool_get(handle);

	ENTER;
	if (!p || !value || attr < 1 || attr > 8 || attr == 5 || attr == 7)
		return ERR_INVALID_VALUE;
	if (attr < 4)
		p->reuse[attr - 1] = !*(int *)value;
	else if (attr == 4)
		p->threshold = *(u64 *)value;
	else if (*(u64 *)value) /* a peak can only be reset to 0 */
		return ERR_INVALID_VALUE;
	else
		p->high = p->used;
	return OK;
}

CU(cuMemPoolSetAccess)(void *handle, const void *map, size_t n)
{
	ENTER;
	return pool_get(handle) && (map || !n) ? OK : ERR_INVALID_VALUE;
}

CU(cuMemPoolGetAccess)(u32 *flags, void *handle, const struct location *at)
{
	ENTER;
	if (!flags || !at || !pool_get(handle))
		return ERR_INVALID_VALUE;
	*flags = at->type == 1 ? 3 : 0; /* read and write */
	return OK;
}
