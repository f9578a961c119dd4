/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools, placement of managed memory, and memory of other processes. */
#include "rt.h"

EXPORT int cudaDeviceGetDefaultMemPool(void **pool, int dev)
{
	BEGIN;
	return done(DRV(cuDeviceGetDefaultMemPool)(pool, dev));
}

EXPORT int cudaDeviceGetMemPool(void **pool, int dev)
{
	BEGIN;
	return done(DRV(cuDeviceGetMemPool)(pool, dev));
}

EXPORT int cudaDeviceSetMemPool(int dev, void *pool)
{
	BEGIN;
	return done(DRV(cuDeviceSetMemPool)(dev, pool));
}

EXPORT int cudaMemPoolCreate(void **pool, const void *props)
{
	BEGIN;
	return done(DRV(cuMemPoolCreate)(pool, props));
}

EXPORT int cudaMemPoolDestroy(void *pool)
{
	BEGIN;
	return done(DRV(cuMemPoolDestroy)(pool));
}

EXPORT int cudaMemPoolTrimTo(void *pool, size_t keep)
{
	BEGIN;
	return done(DRV(cuMemPoolTrimTo)(pool, keep));
}

EXPORT int cudaMemPoolGetAttribute(void *pool, int attr, void *value)
{
	BEGIN;
	return done(DRV(cuMemPoolGetAttribute)(pool, attr, value));
}

EXPORT int cudaMemPoolSetAttribute(void *pool, int attr, void *value)
{
	BEGIN;
	return done(DRV(cuMemPoolSetAttribute)(pool, attr, value));
}

EXPORT int cudaMemPoolGetAccess(u32 *flags, void *pool, const struct location *at)
{
	BEGIN;
	return done(DRV(cuMemPoolGetAccess)(flags, pool, at));
}

EXPORT int cudaMemPoolSetAccess(void *pool, const void *map, size_t n)
{
	BEGIN;
	return done(DRV(cuMemPoolSetAccess)(pool, map, n));
}

/* CUDA 13 takes a location where 12 takes a device; 12 has the new form under another name. */
#if CUDART >= 13
static int cudaMemPrefetchAsync_on(const struct driver *d, devptr p, size_t n, struct location to,
				   u32 flags, void *s)
{
	return d->cuMemPrefetchAsync_v2(p, n, to, flags, s);
}
TWIN(cudaMemPrefetchAsync, _ptsz, (devptr p, size_t n, struct location to, u32 flags, void *s), p,
     n, to, flags, s)

EXPORT int cudaMemAdvise(devptr p, size_t n, int advice, struct location to)
{
	BEGIN;
	return done(DRV(cuMemAdvise_v2)(p, n, advice, to));
}
#else
static int cudaMemPrefetchAsync_on(const struct driver *d, devptr p, size_t n, int dev, void *s)
{
	return d->cuMemPrefetchAsync(p, n, dev, s);
}
TWIN(cudaMemPrefetchAsync, _ptsz, (devptr p, size_t n, int dev, void *s), p, n, dev, s)

EXPORT int cudaMemAdvise(devptr p, size_t n, int advice, int dev)
{
	BEGIN;
	return done(DRV(cuMemAdvise)(p, n, advice, dev));
}
#endif

static int cudaMemPrefetchAsync_v2_on(const struct driver *d, devptr p, size_t n,
				      struct location to, u32 flags, void *s)
{
	return d->cuMemPrefetchAsync_v2(p, n, to, flags, s);
}
TWIN(cudaMemPrefetchAsync_v2, _ptsz, (devptr p, size_t n, struct location to, u32 flags, void *s),
     p, n, to, flags, s)

EXPORT int cudaMemAdvise_v2(devptr p, size_t n, int advice, struct location to)
{
	BEGIN;
	return done(DRV(cuMemAdvise_v2)(p, n, advice, to));
}

EXPORT int cudaIpcGetMemHandle(struct ipc_handle *h, devptr p)
{
	BEGIN;
	return done(DRV(cuIpcGetMemHandle)(h, p));
}

EXPORT int cudaIpcOpenMemHandle(devptr *p, struct ipc_handle h, u32 flags)
{
	BEGIN;
	return done(DRV(cuIpcOpenMemHandle)(p, h, flags));
}

EXPORT int cudaIpcCloseMemHandle(devptr p)
{
	BEGIN;
	return done(DRV(cuIpcCloseMemHandle)(p));
}
