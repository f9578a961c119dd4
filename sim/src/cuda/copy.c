/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and memsets. Copies between pinned and device memory run at the GPU's speed while
 * the CPU goes on. Pageable memory is copied by the CPU, page by page. */
#include "gpu.h"

#define STAGED_MAX 65536 /* larger pageable copies to the device first wait for the stream */
#define PAGE 4096

static int on_device(int kind)
{
	return kind == MEM_DEVICE || kind == MEM_MANAGED;
}

/* The CPU's part of a pageable copy: it faults pages in, as the real copy does, and
 * burns the time of the copy. A page that is written keeps its bytes. */
static void stage(u64 p, u64 n, int write)
{
	u64 last = p + n - 1;

	for (u64 at = p; at <= last; at = (at & ~(u64)(PAGE - 1)) + PAGE) {
		if (write)
			__atomic_fetch_or((u8 *)at, 0, __ATOMIC_RELAXED);
		else
			(void)*(volatile u8 *)at;
	}
	if (g.cfg.pageable_mbps)
		burn(n * 1000 / g.cfg.pageable_mbps);
}

static int copy_pageable(struct thread *t, struct stream *s, u64 dst, int kd, u64 src, int ks,
			 u64 n, int async)
{
	u32 sched = sched_of(t->ctx);
	int err = OK;

	if (s->capture) {
		s->capture_broken = 1;
		return ERR_CAPTURE_UNSUPPORTED;
	}
	if (!on_device(ks) && !on_device(kd)) { /* host to host */
		err = stream_wait(s, sched);
		stage(src, n, 0);
		stage(dst, n, 1);
		return err;
	}
	if (on_device(ks)) { /* to the host: the CPU does the last part */
		stream_submit(s, g.cfg.call_ns, copy_gpu_ns(n), NULL);
		err = stream_wait(s, sched);
		stage(dst, n, 1);
		return err;
	}
	if (n > STAGED_MAX)
		err = stream_wait(s, sched);
	stage(src, n, 0);
	stream_submit(s, g.cfg.call_ns, copy_gpu_ns(n), NULL);
	return !err && !async && n > STAGED_MAX ? stream_wait(s, sched) : err;
}

static int copy(struct thread *t, struct stream *s, u64 dst, u64 src, u64 n, int async)
{
	int kd = mem_kind(dst), ks = mem_kind(src);

	if (mem_check(dst, n) || mem_check(src, n))
		return ERR_INVALID_VALUE;
	if (!n)
		return OK;
	if (kd == MEM_PAGEABLE || ks == MEM_PAGEABLE)
		return copy_pageable(t, s, dst, kd, src, ks, n, async);
	if (s->capture && !async) {
		s->capture_broken = 1;
		return ERR_CAPTURE_UNSUPPORTED;
	}
	stream_submit(s, g.cfg.call_ns, copy_gpu_ns(n), NULL);
	return async || (on_device(kd) && on_device(ks)) ? OK : stream_wait(s, sched_of(t->ctx));
}

int copy_call(const char *op, void *dflt, void *stream, u64 dst, u64 src, u64 n, int async)
{
	struct stream *s;

	ENTER_AS(op);
	err = stream_find(t, stream, dflt, &s);
	return err ? err : copy(t, s, dst, src, n, async);
}

/* A copy with the direction in its name: the device's end must be device memory. */
static int copy_named(const char *op, void *dflt, void *stream, u64 dst, u64 src, u64 n, int async,
		      int dev_dst, int dev_src)
{
	if (n && ((dev_dst && mem_kind(dst) == MEM_PAGEABLE) ||
		  (dev_src && mem_kind(src) == MEM_PAGEABLE)))
		return *g.live ? ERR_INVALID_VALUE : ERR_NOT_INITIALIZED;
	return copy_call(op, dflt, stream, dst, src, n, async);
}

#define SYNC_COPY(name, suffix, dtype, stype, to_dev, from_dev)                                    \
	static int name##_on(void *dflt, dtype dst, stype src, size_t n)                           \
	{                                                                                          \
		return copy_named(#name, dflt, NULL, (u64)dst, (u64)src, n, 0, to_dev, from_dev);  \
	}                                                                                          \
	TWIN(name, suffix, (dtype dst, stype src, size_t n), dst, src, n)

#define ASYNC_COPY(name, suffix, dtype, stype, to_dev, from_dev)                                   \
	static int name##_on(void *dflt, dtype dst, stype src, size_t n, void *s)                  \
	{                                                                                          \
		return copy_named(#name, dflt, s, (u64)dst, (u64)src, n, 1, to_dev, from_dev);     \
	}                                                                                          \
	TWIN(name, suffix, (dtype dst, stype src, size_t n, void *s), dst, src, n, s)

SYNC_COPY(cuMemcpy, _ptds, devptr, devptr, 0, 0)
SYNC_COPY(cuMemcpyHtoD_v2, _ptds, devptr, const void *, 1, 0)
SYNC_COPY(cuMemcpyDtoH_v2, _ptds, void *, devptr, 0, 1)
SYNC_COPY(cuMemcpyDtoD_v2, _ptds, devptr, devptr, 1, 1)
ASYNC_COPY(cuMemcpyAsync, _ptsz, devptr, devptr, 0, 0)
ASYNC_COPY(cuMemcpyHtoDAsync_v2, _ptsz, devptr, const void *, 1, 0)
ASYNC_COPY(cuMemcpyDtoHAsync_v2, _ptsz, void *, devptr, 0, 1)
ASYNC_COPY(cuMemcpyDtoDAsync_v2, _ptsz, devptr, devptr, 1, 1)

static int cuMemcpyPeer_on(void *dflt, devptr dst, void *dctx, devptr src, void *sctx, size_t n)
{
	if (*g.live && (!object_get(dctx, KIND_CONTEXT) || !object_get(sctx, KIND_CONTEXT)))
		return ERR_INVALID_CONTEXT;
	return copy_named("cuMemcpyPeer", dflt, NULL, dst, src, n, 0, 1, 1);
}
TWIN(cuMemcpyPeer, _ptds, (devptr dst, void *dctx, devptr src, void *sctx, size_t n), dst, dctx,
     src, sctx, n)

static int cuMemcpyPeerAsync_on(void *dflt, devptr dst, void *dctx, devptr src, void *sctx,
				size_t n, void *s)
{
	if (*g.live && (!object_get(dctx, KIND_CONTEXT) || !object_get(sctx, KIND_CONTEXT)))
		return ERR_INVALID_CONTEXT;
	return copy_named("cuMemcpyPeerAsync", dflt, s, dst, src, n, 1, 1, 1);
}
TWIN(cuMemcpyPeerAsync, _ptsz, (devptr dst, void *dctx, devptr src, void *sctx, size_t n, void *s),
     dst, dctx, src, sctx, n, s)

static int copy_2d(const char *op, void *dflt, const struct copy2d *c, void *stream, int async)
{
	u64 dst, src;

	if (!c)
		return *g.live ? ERR_INVALID_VALUE : ERR_NOT_INITIALIZED;
	dst = copy_end(c->dst_type, c->dst_host, c->dst_device, c->dst_array);
	src = copy_end(c->src_type, c->src_host, c->src_device, c->src_array);
	if (c->width && c->height &&
	    (!dst || !src || (c->dst_type != 3 && c->dst_pitch < c->width) ||
	     (c->src_type != 3 && c->src_pitch < c->width)))
		return *g.live ? ERR_INVALID_VALUE : ERR_NOT_INITIALIZED;
	return copy_call(op, dflt, stream, dst + c->dst_x, src + c->src_x, c->width * c->height,
			 async);
}

#define SYNC_2D(name)                                                                              \
	static int name##_on(void *dflt, const struct copy2d *c)                                   \
	{                                                                                          \
		return copy_2d(#name, dflt, c, NULL, 0);                                           \
	}                                                                                          \
	TWIN(name, _ptds, (const struct copy2d *c), c)

SYNC_2D(cuMemcpy2D_v2)
SYNC_2D(cuMemcpy2DUnaligned_v2)

static int cuMemcpy2DAsync_v2_on(void *dflt, const struct copy2d *c, void *s)
{
	return copy_2d("cuMemcpy2DAsync_v2", dflt, c, s, 1);
}
TWIN(cuMemcpy2DAsync_v2, _ptsz, (const struct copy2d *c, void *s), c, s)

/* Memsets run on the device and return at once; only those of pinned host memory wait. */
static int set(const char *op, void *dflt, void *stream, u64 p, u64 bytes, int async)
{
	struct stream *s;

	ENTER_AS(op);
	err = stream_find(t, stream, dflt, &s);
	if (err)
		return err;
	if (bytes && (mem_kind(p) == MEM_PAGEABLE || mem_check(p, bytes)))
		return ERR_INVALID_VALUE;
	stream_submit(s, g.cfg.call_ns, bytes ? copy_gpu_ns(bytes) : 0, NULL);
	return !async && mem_kind(p) == MEM_PINNED ? stream_wait(s, sched_of(t->ctx)) : OK;
}

#define SET_1D(name, async_name, type)                                                             \
	static int name##_on(void *dflt, devptr p, type v, size_t n)                               \
	{                                                                                          \
		(void)v;                                                                           \
		return set(#name, dflt, NULL, p, n * sizeof(type), 0);                             \
	}                                                                                          \
	TWIN(name, _ptds, (devptr p, type v, size_t n), p, v, n)                                   \
	static int async_name##_on(void *dflt, devptr p, type v, size_t n, void *s)                \
	{                                                                                          \
		(void)v;                                                                           \
		return set(#async_name, dflt, s, p, n * sizeof(type), 1);                          \
	}                                                                                          \
	TWIN(async_name, _ptsz, (devptr p, type v, size_t n, void *s), p, v, n, s)

#define SET_2D(name, async_name, type)                                                             \
	static int name##_on(void *dflt, devptr p, size_t pitch, type v, size_t w, size_t h)       \
	{                                                                                          \
		(void)v, (void)pitch;                                                              \
		return set(#name, dflt, NULL, p, w * h * sizeof(type), 0);                         \
	}                                                                                          \
	TWIN(name, _ptds, (devptr p, size_t pitch, type v, size_t w, size_t h), p, pitch, v, w, h) \
	static int async_name##_on(void *dflt, devptr p, size_t pitch, type v, size_t w, size_t h, \
				   void *s)                                                        \
	{                                                                                          \
		(void)v, (void)pitch;                                                              \
		return set(#async_name, dflt, s, p, w * h * sizeof(type), 1);                      \
	}                                                                                          \
	TWIN(async_name, _ptsz, (devptr p, size_t pitch, type v, size_t w, size_t h, void *s), p,  \
	     pitch, v, w, h, s)

SET_1D(cuMemsetD8_v2, cuMemsetD8Async, u8)
SET_1D(cuMemsetD16_v2, cuMemsetD16Async, unsigned short)
SET_1D(cuMemsetD32_v2, cuMemsetD32Async, u32)
SET_2D(cuMemsetD2D8_v2, cuMemsetD2D8Async, u8)
SET_2D(cuMemsetD2D16_v2, cuMemsetD2D16Async, unsigned short)
SET_2D(cuMemsetD2D32_v2, cuMemsetD2D32Async, u32)
