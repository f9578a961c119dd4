/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, copies and memsets. */
#include "rt.h"

EXPORT int cudaMalloc(devptr *p, size_t n)
{
	BEGIN;
	if (!p)
		return rt_fail(ERR_INVALID_VALUE);
	*p = 0;
	return n ? done(DRV(cuMemAlloc)(p, n)) : OK;
}

static int cudaMallocAsync_on(const struct driver *d, devptr *p, size_t n, void *s)
{
	return n ? d->cuMemAllocAsync(p, n, s) : ERR_INVALID_VALUE;
}
TWIN(cudaMallocAsync, _ptsz, (devptr * p, size_t n, void *s), p, n, s)

static int cudaMallocFromPoolAsync_on(const struct driver *d, devptr *p, size_t n, void *pool,
				      void *s)
{
	return d->cuMemAllocFromPoolAsync(p, n, pool, s);
}
TWIN(cudaMallocFromPoolAsync, _ptsz, (devptr * p, size_t n, void *pool, void *s), p, n, pool, s)

EXPORT int cudaMallocManaged(devptr *p, size_t n, u32 flags)
{
	BEGIN;
	return done(p && n ? DRV(cuMemAllocManaged)(p, n, flags) : ERR_INVALID_VALUE);
}

EXPORT int cudaMallocHost(void **p, size_t n)
{
	BEGIN;
	return done(p && n ? DRV(cuMemAllocHost)(p, n) : ERR_INVALID_VALUE);
}

EXPORT int cudaHostAlloc(void **p, size_t n, u32 flags)
{
	BEGIN;
	return done(p && n ? DRV(cuMemHostAlloc)(p, n, flags) : ERR_INVALID_VALUE);
}

EXPORT int cudaMallocPitch(devptr *p, size_t *pitch, size_t w, size_t h)
{
	BEGIN;
	return done(DRV(cuMemAllocPitch)(p, pitch, w, h, 4));
}

struct pitched { /* cudaPitchedPtr */
	devptr ptr;
	size_t pitch, w, h;
};

struct extent {
	size_t w, h, depth;
};

EXPORT int cudaMalloc3D(struct pitched *p, struct extent e)
{
	BEGIN;
	if (!p)
		return rt_fail(ERR_INVALID_VALUE);
	p->w = e.w;
	p->h = e.h;
	return done(DRV(cuMemAllocPitch)(&p->ptr, &p->pitch, e.w, e.h * e.depth, 4));
}

EXPORT int cudaFree(devptr p)
{
	BEGIN;
	return p ? done(DRV(cuMemFree)(p)) : OK;
}

static int cudaFreeAsync_on(const struct driver *d, devptr p, void *s)
{
	return d->cuMemFreeAsync(p, s);
}
TWIN(cudaFreeAsync, _ptsz, (devptr p, void *s), p, s)

EXPORT int cudaFreeHost(void *p)
{
	BEGIN;
	return p ? done(DRV(cuMemFreeHost)(p)) : OK;
}

EXPORT int cudaHostRegister(void *p, size_t n, u32 flags)
{
	BEGIN;
	return done(DRV(cuMemHostRegister)(p, n, flags));
}

EXPORT int cudaHostUnregister(void *p)
{
	BEGIN;
	return done(DRV(cuMemHostUnregister)(p));
}

EXPORT int cudaHostGetDevicePointer(devptr *d, void *p, u32 flags)
{
	BEGIN;
	return done(DRV(cuMemHostGetDevicePointer)(d, p, flags));
}

EXPORT int cudaMemGetInfo(size_t *free, size_t *total)
{
	BEGIN;
	return done(DRV(cuMemGetInfo)(free, total));
}

struct pointer_attributes { /* cudaPointerAttributes */
	int type; /* 0 unregistered, 1 host, 2 device, 3 managed */
	int device;
	void *device_ptr, *host_ptr;
};

EXPORT int cudaPointerGetAttributes(struct pointer_attributes *a, void *p)
{
	u32 type = 0, managed = 0;

	BEGIN;
	if (!a)
		return rt_fail(ERR_INVALID_VALUE);
	memset(a, 0, sizeof(*a));
	a->device = rt_self()->device;
	if (!DRV(cuPointerGetAttribute)(&type, 2, (devptr)p))
		DRV(cuPointerGetAttribute)(&managed, 8, (devptr)p);
	a->type = managed ? 3 : (int)type;
	a->device_ptr = type ? p : NULL;
	a->host_ptr = type == 2 && !managed ? NULL : p;
	return OK;
}

int rt_copy(const struct driver *d, u64 dst, u64 src, size_t n, int kind)
{
	switch (kind) {
	case H2D:
		return d->cuMemcpyHtoD(dst, (void *)src, n);
	case D2H:
		return d->cuMemcpyDtoH((void *)dst, src, n);
	case D2D:
		return d->cuMemcpyDtoD(dst, src, n);
	case H2H:
	case DEFAULT:
		return d->cuMemcpy(dst, src, n);
	}
	return ERR_INVALID_DIRECTION;
}
#define cudaMemcpy_on rt_copy
TWIN(cudaMemcpy, _ptds, (u64 dst, u64 src, size_t n, int kind), dst, src, n, kind)

int rt_copy_async(const struct driver *d, u64 dst, u64 src, size_t n, int kind, void *s)
{
	switch (kind) {
	case H2D:
		return d->cuMemcpyHtoDAsync(dst, (void *)src, n, s);
	case D2H:
		return d->cuMemcpyDtoHAsync((void *)dst, src, n, s);
	case D2D:
		return d->cuMemcpyDtoDAsync(dst, src, n, s);
	case H2H:
	case DEFAULT:
		return d->cuMemcpyAsync(dst, src, n, s);
	}
	return ERR_INVALID_DIRECTION;
}
#define cudaMemcpyAsync_on rt_copy_async
TWIN(cudaMemcpyAsync, _ptsz, (u64 dst, u64 src, size_t n, int kind, void *s), dst, src, n, kind, s)

static int copy2d_of(struct copy2d *c, u64 dst, size_t dpitch, u64 src, size_t spitch, size_t w,
		     size_t h, int kind)
{
	if (kind < H2H || kind > DEFAULT)
		return ERR_INVALID_DIRECTION;
	memset(c, 0, sizeof(*c));
	c->src_type = c->dst_type = 4; /* unified: the address decides */
	c->src_device = src;
	c->dst_device = dst;
	c->src_pitch = spitch;
	c->dst_pitch = dpitch;
	c->width = w;
	c->height = h;
	return OK;
}

static int cudaMemcpy2D_on(const struct driver *d, u64 dst, size_t dpitch, u64 src, size_t spitch,
			   size_t w, size_t h, int kind)
{
	struct copy2d c;
	int err = copy2d_of(&c, dst, dpitch, src, spitch, w, h, kind);

	return err ? err : d->cuMemcpy2DUnaligned(&c);
}
TWIN(cudaMemcpy2D, _ptds,
     (u64 dst, size_t dpitch, u64 src, size_t spitch, size_t w, size_t h, int kind), dst, dpitch,
     src, spitch, w, h, kind)

static int cudaMemcpy2DAsync_on(const struct driver *d, u64 dst, size_t dpitch, u64 src,
				size_t spitch, size_t w, size_t h, int kind, void *s)
{
	struct copy2d c;
	int err = copy2d_of(&c, dst, dpitch, src, spitch, w, h, kind);

	return err ? err : d->cuMemcpy2DAsync(&c, s);
}
TWIN(cudaMemcpy2DAsync, _ptsz,
     (u64 dst, size_t dpitch, u64 src, size_t spitch, size_t w, size_t h, int kind, void *s), dst,
     dpitch, src, spitch, w, h, kind, s)

int rt_peers(int dst, int src, void **dctx, void **sctx)
{
	int n, err = DRV(cuDeviceGetCount)(&n);

	if (err)
		return err;
	if (dst < 0 || dst >= n || src < 0 || src >= n)
		return ERR_INVALID_DEVICE;
	*dctx = rt_context(dst);
	*sctx = rt_context(src);
	return OK;
}

EXPORT int cudaMemcpyPeer(devptr dst, int dst_dev, devptr src, int src_dev, size_t n)
{
	void *dctx, *sctx;
	int err;

	BEGIN;
	err = rt_peers(dst_dev, src_dev, &dctx, &sctx);
	return done(err ? err : DRV(cuMemcpyPeer)(dst, dctx, src, sctx, n));
}

EXPORT int cudaMemcpyPeerAsync(devptr dst, int dst_dev, devptr src, int src_dev, size_t n, void *s)
{
	void *dctx, *sctx;
	int err;

	BEGIN;
	err = rt_peers(dst_dev, src_dev, &dctx, &sctx);
	return done(err ? err : DRV(cuMemcpyPeerAsync)(dst, dctx, src, sctx, n, s));
}

static int cudaMemset_on(const struct driver *d, devptr p, int v, size_t n)
{
	return d->cuMemsetD8(p, (u8)v, n);
}
TWIN(cudaMemset, _ptds, (devptr p, int v, size_t n), p, v, n)

static int cudaMemsetAsync_on(const struct driver *d, devptr p, int v, size_t n, void *s)
{
	return d->cuMemsetD8Async(p, (u8)v, n, s);
}
TWIN(cudaMemsetAsync, _ptsz, (devptr p, int v, size_t n, void *s), p, v, n, s)

static int cudaMemset2D_on(const struct driver *d, devptr p, size_t pitch, int v, size_t w,
			   size_t h)
{
	return d->cuMemsetD2D8(p, pitch, (u8)v, w, h);
}
TWIN(cudaMemset2D, _ptds, (devptr p, size_t pitch, int v, size_t w, size_t h), p, pitch, v, w, h)

static int cudaMemset2DAsync_on(const struct driver *d, devptr p, size_t pitch, int v, size_t w,
				size_t h, void *s)
{
	return d->cuMemsetD2D8Async(p, pitch, (u8)v, w, h, s);
}
TWIN(cudaMemset2DAsync, _ptsz, (devptr p, size_t pitch, int v, size_t w, size_t h, void *s), p,
     pitch, v, w, h, s)
