/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: device memory without an address that the program can use. */
#include "gpu.h"

struct desc2d { /* CUDA_ARRAY_DESCRIPTOR */
	size_t w, h;
	u32 format, channels;
};

/* Returns the bytes of one channel of a CUarray_format; 0 if the format is unknown. */
static u64 bytes_of(u32 format)
{
	switch (format) {
	case 0x01: /* unsigned and signed 8 bits */
	case 0x08:
		return 1;
	case 0x02:
	case 0x09:
	case 0x10: /* half */
		return 2;
	case 0x03:
	case 0x0a:
	case 0x20: /* float */
		return 4;
	}
	return 0;
}

/* A height or depth of 0 means that the dimension is absent. */
CU(cuArray3DCreate_v2)(void **out, const struct desc3d *d)
{
	u64 addr, bytes;
	struct array *a;

	ENTER;
	if (!out || !d || !d->w || !bytes_of(d->format) ||
	    (d->channels != 1 && d->channels != 2 && d->channels != 4))
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	bytes = d->w * (d->h ? d->h : 1) * (d->depth ? d->depth : 1) * d->channels *
		bytes_of(d->format);
	err = mem_alloc(FAM_ARRAY, t->ctx, NULL, bytes, &addr);
	if (err)
		return err;
	lock(&g.lock);
	a = (void *)object_new(KIND_ARRAY);
	if (a) {
		a->ctx = t->ctx;
		a->addr = addr;
		a->w = d->w;
		a->h = d->h;
		a->depth = d->depth;
		a->format = d->format;
		a->channels = d->channels;
		a->flags = d->flags;
		*out = a;
	}
	unlock(&g.lock);
	if (!a)
		mem_free(FREES(FAM_ARRAY), addr);
	return a ? OK : ERR_OUT_OF_MEMORY;
}

CU(cuArrayCreate_v2)(void **out, const struct desc2d *d)
{
	struct desc3d all = { 0 };

	if (!d)
		return *g.live ? ERR_INVALID_VALUE : ERR_NOT_INITIALIZED;
	all.w = d->w;
	all.h = d->h;
	all.format = d->format;
	all.channels = d->channels;
	return impl_cuArray3DCreate_v2(out, &all);
}

CU(cuArrayDestroy)(void *handle)
{
	struct array *a = object_get(handle, KIND_ARRAY);

	ENTER;
	if (!a)
		return ERR_INVALID_HANDLE;
	burn(g.cfg.call_ns);
	if (!g.capturing)
		context_wait(t->ctx);
	mem_free(FREES(FAM_ARRAY), a->addr);
	lock(&g.lock);
	object_free(&a->o);
	unlock(&g.lock);
	return OK;
}

CU(cuArrayGetDescriptor_v2)(struct desc2d *d, void *handle)
{
	const struct array *a = object_get(handle, KIND_ARRAY);

	ENTER;
	if (!d || !a)
		return a ? ERR_INVALID_VALUE : ERR_INVALID_HANDLE;
	*d = (struct desc2d){ a->w, a->h, a->format, a->channels };
	return OK;
}

CU(cuArray3DGetDescriptor_v2)(struct desc3d *d, void *handle)
{
	const struct array *a = object_get(handle, KIND_ARRAY);

	ENTER;
	if (!d || !a)
		return a ? ERR_INVALID_VALUE : ERR_INVALID_HANDLE;
	*d = (struct desc3d){ a->w, a->h, a->depth, a->format, a->channels, a->flags, 0 };
	return OK;
}

/* Frees a context's arrays. Their memory is freed with the context's. The caller holds the
 * lock. */
void arrays_forget(const struct context *ctx)
{
	for (u32 i = 0; i < object_count(KIND_ARRAY); i++) {
		struct array *a = (void *)object_at(KIND_ARRAY, i);

		if (a && a->ctx == ctx)
			object_free(&a->o);
	}
}

/* CUmemorytype: 1 host, 2 device, 3 array, 4 unified (the device field holds the address).
 * Returns 0 if the type or address is invalid. */
u64 copy_end(u32 type, const void *host, devptr device, const void *array)
{
	const struct array *a = type == 3 ? object_get(array, KIND_ARRAY) : NULL;

	switch (type) {
	case 1:
		return (u64)host;
	case 2:
	case 4:
		return device;
	}
	return a ? a->addr : 0;
}

static int copy_3d(const char *op, void *dflt, const struct copy3d *c, void *stream, int async)
{
	u64 dst, src, n;

	if (!*g.live)
		return ERR_NOT_INITIALIZED;
	if (!c)
		return ERR_INVALID_VALUE;
	dst = copy_end(c->dst.type, c->dst.host, c->dst.device, c->dst.array);
	src = copy_end(c->src.type, c->src.host, c->src.device, c->src.array);
	n = c->w * c->h * c->depth;
	if (n && (!dst || !src || (c->dst.type != 3 && c->dst.pitch && c->dst.pitch < c->w) ||
		  (c->src.type != 3 && c->src.pitch && c->src.pitch < c->w)))
		return ERR_INVALID_VALUE;
	return copy_call(op, dflt, stream, dst, src, n, async);
}

#define COPY_3D(name)                                                                              \
	static int name##_on(void *dflt, const struct copy3d *c)                                   \
	{                                                                                          \
		return copy_3d(#name, dflt, c, NULL, 0);                                           \
	}                                                                                          \
	TWIN(name, _ptds, (const struct copy3d *c), c)
#define COPY_3D_ASYNC(name)                                                                        \
	static int name##_on(void *dflt, const struct copy3d *c, void *s)                          \
	{                                                                                          \
		return copy_3d(#name, dflt, c, s, 1);                                              \
	}                                                                                          \
	TWIN(name, _ptsz, (const struct copy3d *c, void *s), c, s)

COPY_3D(cuMemcpy3D_v2)
COPY_3D(cuMemcpy3DPeer)
COPY_3D_ASYNC(cuMemcpy3DAsync_v2)
COPY_3D_ASYNC(cuMemcpy3DPeerAsync)
