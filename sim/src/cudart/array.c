/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays, 3D copies, and variables of the program. */
#include "rt.h"

struct channels { /* cudaChannelFormatDesc: bits per channel; kind 0 signed, 1 unsigned, 2 float */
	int x, y, z, w, kind;
};

struct extent {
	size_t w, h, depth;
};

/* Returns the CUarray_format for the bits and kind; 0 if there is none. */
static u32 format_of(const struct channels *c)
{
	u32 log = c->x == 8 ? 0 : c->x == 16 ? 1 : c->x == 32 ? 2 : 9;

	if (log == 9 || c->kind < 0 || c->kind > 2 || (c->kind == 2 && !log))
		return 0;
	return c->kind == 2 ? log * 0x10 : (c->kind ? 0x01 : 0x08) + log;
}

static int array_new(void **array, const struct channels *c, struct extent e, u32 flags)
{
	struct desc3d d = { e.w, e.h, e.depth, 0, 0, flags, 0 };

	if (!array || !c)
		return ERR_INVALID_VALUE;
	d.format = format_of(c);
	d.channels = 1u + (c->y > 0) + (c->z > 0) + (c->w > 0);
	return d.format ? DRV(cuArray3DCreate)(array, &d) : ERR_INVALID_CHANNELS;
}

EXPORT int cudaMallocArray(void **array, const struct channels *c, size_t w, size_t h, u32 flags)
{
	BEGIN;
	return done(array_new(array, c, (struct extent){ w, h, 0 }, flags));
}

EXPORT int cudaMalloc3DArray(void **array, const struct channels *c, struct extent e, u32 flags)
{
	BEGIN;
	return done(array_new(array, c, e, flags));
}

EXPORT int cudaFreeArray(void *array)
{
	BEGIN;
	return array ? done(DRV(cuArrayDestroy)(array)) : OK;
}

/* Returns the bytes of an array's element, the unit of a copy's width; 0 for no array. */
static size_t element_of(void *array)
{
	struct desc3d d;

	if (!array || DRV(cuArray3DGetDescriptor)(&d, array))
		return 0;
	return d.channels * (d.format >= 0x10  ? d.format / 0x10 * 2
			     : d.format < 0x08 ? 1u << (d.format - 1)
					       : 1u << (d.format - 8));
}

struct pitched { /* cudaPitchedPtr */
	devptr ptr;
	size_t pitch, w, h;
};

struct copy3d_params { /* cudaMemcpy3DParms */
	void *src_array;
	struct extent src_pos;
	struct pitched src;
	void *dst_array;
	struct extent dst_pos;
	struct pitched dst;
	struct extent extent;
	int kind;
};

struct copy3d_peer_params { /* cudaMemcpy3DPeerParms */
	void *src_array;
	struct extent src_pos;
	struct pitched src;
	int src_dev;
	void *dst_array;
	struct extent dst_pos;
	struct pitched dst;
	int dst_dev;
	struct extent extent;
};

_Static_assert(offsetof(struct copy3d_params, extent) == 128,
	       "cudaMemcpy3DParms has extent at 128");

static struct end3d end_of(void *array, struct extent at, struct pitched p)
{
	struct end3d e = { .x = at.w, .y = at.h, .z = at.depth, .type = array ? 3 : 4 };

	e.device = p.ptr;
	e.array = array;
	e.pitch = p.pitch;
	e.height = p.h;
	return e;
}

static void extent_of(struct copy3d *c, struct extent e, void *src_array, void *dst_array)
{
	size_t size = element_of(src_array ? src_array : dst_array);

	c->w = e.w * (size ? size : 1);
	c->h = e.h;
	c->depth = e.depth;
}

static int of_params(struct copy3d *c, const struct copy3d_params *p)
{
	if (!p)
		return ERR_INVALID_VALUE;
	if (p->kind < H2H || p->kind > DEFAULT)
		return ERR_INVALID_DIRECTION;
	c->src = end_of(p->src_array, p->src_pos, p->src);
	c->dst = end_of(p->dst_array, p->dst_pos, p->dst);
	extent_of(c, p->extent, p->src_array, p->dst_array);
	return OK;
}

static int of_peer_params(struct copy3d *c, const struct copy3d_peer_params *p)
{
	int err;

	if (!p)
		return ERR_INVALID_VALUE;
	c->src = end_of(p->src_array, p->src_pos, p->src);
	c->dst = end_of(p->dst_array, p->dst_pos, p->dst);
	err = rt_peers(p->dst_dev, p->src_dev, &c->dst.reserved, &c->src.reserved);
	extent_of(c, p->extent, p->src_array, p->dst_array);
	return err;
}

#define COPY_3D(name, driver_name, type, from)                                                     \
	static int name##_on(const struct driver *d, const struct type *p)                         \
	{                                                                                          \
		struct copy3d c;                                                                   \
		int err = from(&c, p);                                                             \
		return err ? err : d->driver_name(&c);                                             \
	}                                                                                          \
	TWIN(name, _ptds, (const struct type *p), p)                                               \
	static int name##Async_on(const struct driver *d, const struct type *p, void *s)           \
	{                                                                                          \
		struct copy3d c;                                                                   \
		int err = from(&c, p);                                                             \
		return err ? err : d->driver_name##Async(&c, s);                                   \
	}                                                                                          \
	TWIN(name##Async, _ptsz, (const struct type *p, void *s), p, s)

COPY_3D(cudaMemcpy3D, cuMemcpy3D, copy3d_params, of_params)
COPY_3D(cudaMemcpy3DPeer, cuMemcpy3DPeer, copy3d_peer_params, of_peer_params)

/* Copies to and from arrays: x and y are the place in the array, in bytes and rows. */
static struct copy2d array_copy(void *array, size_t x, size_t y, u64 p, size_t pitch, size_t w,
				size_t h, int to_array)
{
	struct copy2d c = { .width = w, .height = h };

	c.src_type = to_array ? 4 : 3;
	c.dst_type = to_array ? 3 : 4;
	c.src_device = c.dst_device = p;
	c.src_array = c.dst_array = array;
	c.src_pitch = c.dst_pitch = pitch;
	c.src_x = to_array ? 0 : x;
	c.src_y = to_array ? 0 : y;
	c.dst_x = to_array ? x : 0;
	c.dst_y = to_array ? y : 0;
	return c;
}

#define ARRAY_COPY(name, async, to_array)                                                          \
	static int name##_on(const struct driver *d, void *array, size_t x, size_t y, u64 p,       \
			     size_t pitch, size_t w, size_t h, int kind)                           \
	{                                                                                          \
		struct copy2d c = array_copy(array, x, y, p, pitch, w, h, to_array);               \
		return kind < H2H || kind > DEFAULT ? ERR_INVALID_DIRECTION                        \
						    : d->cuMemcpy2DUnaligned(&c);                  \
	}                                                                                          \
	static int async##_on(const struct driver *d, void *array, size_t x, size_t y, u64 p,      \
			      size_t pitch, size_t w, size_t h, int kind, void *s)                 \
	{                                                                                          \
		struct copy2d c = array_copy(array, x, y, p, pitch, w, h, to_array);               \
		return kind < H2H || kind > DEFAULT ? ERR_INVALID_DIRECTION                        \
						    : d->cuMemcpy2DAsync(&c, s);                   \
	}

ARRAY_COPY(cudaMemcpy2DToArray, cudaMemcpy2DToArrayAsync, 1)
ARRAY_COPY(cudaMemcpy2DFromArray, cudaMemcpy2DFromArrayAsync, 0)

#define TO_2D void *array, size_t x, size_t y, u64 p, size_t pitch, size_t w, size_t h, int kind
#define FROM_2D u64 p, size_t pitch, void *array, size_t x, size_t y, size_t w, size_t h, int kind
#define ARGS_2D array, x, y, p, pitch, w, h, kind
TWIN(cudaMemcpy2DToArray, _ptds, (TO_2D), ARGS_2D)
TWIN(cudaMemcpy2DToArrayAsync, _ptsz, (TO_2D, void *s), ARGS_2D, s)
TWIN(cudaMemcpy2DFromArray, _ptds, (FROM_2D), ARGS_2D)
TWIN(cudaMemcpy2DFromArrayAsync, _ptsz, (FROM_2D, void *s), ARGS_2D, s)

/* The old forms copy one row. */
#define TO_1D void *array, size_t x, size_t y, u64 p, size_t n, int kind
#define FROM_1D u64 p, void *array, size_t x, size_t y, size_t n, int kind
#define ARGS_1D array, x, y, p, n, n, 1, kind
#define cudaMemcpyToArray_on cudaMemcpy2DToArray_on
#define cudaMemcpyToArrayAsync_on cudaMemcpy2DToArrayAsync_on
#define cudaMemcpyFromArray_on cudaMemcpy2DFromArray_on
#define cudaMemcpyFromArrayAsync_on cudaMemcpy2DFromArrayAsync_on
TWIN(cudaMemcpyToArray, _ptds, (TO_1D), ARGS_1D)
TWIN(cudaMemcpyToArrayAsync, _ptsz, (TO_1D, void *s), ARGS_1D, s)
TWIN(cudaMemcpyFromArray, _ptds, (FROM_1D), ARGS_1D)
TWIN(cudaMemcpyFromArrayAsync, _ptsz, (FROM_1D, void *s), ARGS_1D, s)

static int cudaMemset3D_on(const struct driver *d, struct pitched p, int v, struct extent e)
{
	return d->cuMemsetD8(p.ptr, (u8)v, e.w * e.h * e.depth);
}
TWIN(cudaMemset3D, _ptds, (struct pitched p, int v, struct extent e), p, v, e)

static int cudaMemset3DAsync_on(const struct driver *d, struct pitched p, int v, struct extent e,
				void *s)
{
	return d->cuMemsetD8Async(p.ptr, (u8)v, e.w * e.h * e.depth, s);
}
TWIN(cudaMemset3DAsync, _ptsz, (struct pitched p, int v, struct extent e, void *s), p, v, e, s)

EXPORT int cudaGetSymbolAddress(devptr *p, const void *symbol)
{
	u64 size;

	BEGIN;
	return done(p ? rt_variable(symbol, p, &size) : ERR_INVALID_VALUE);
}

EXPORT int cudaGetSymbolSize(size_t *n, const void *symbol)
{
	devptr p;
	u64 size = 0;
	int err;

	BEGIN;
	err = n ? rt_variable(symbol, &p, &size) : ERR_INVALID_VALUE;
	if (!err)
		*n = size;
	return done(err);
}

static int variable(const void *symbol, size_t n, size_t offset, devptr *p)
{
	u64 size;
	int err = rt_variable(symbol, p, &size);

	if (err)
		return err;
	*p += offset;
	return offset + n > size ? ERR_INVALID_VALUE : OK;
}

#define SYMBOL_COPY(name, sym, other, dst, src)                                                    \
	static int name##_on(const struct driver *d, const void *sym, u64 other, size_t n,         \
			     size_t offset, int kind)                                              \
	{                                                                                          \
		devptr sym##_at;                                                                   \
		int err = variable(sym, n, offset, &sym##_at);                                     \
		return err ? err : rt_copy(d, dst, src, n, kind);                                  \
	}                                                                                          \
	static int name##Async_on(const struct driver *d, const void *sym, u64 other, size_t n,    \
				  size_t offset, int kind, void *s)                                \
	{                                                                                          \
		devptr sym##_at;                                                                   \
		int err = variable(sym, n, offset, &sym##_at);                                     \
		return err ? err : rt_copy_async(d, dst, src, n, kind, s);                         \
	}

SYMBOL_COPY(cudaMemcpyToSymbol, symbol, src, symbol_at, src)
SYMBOL_COPY(cudaMemcpyFromSymbol, symbol, dst, dst, symbol_at)

#define TO_SYMBOL const void *symbol, u64 p, size_t n, size_t offset, int kind
#define FROM_SYMBOL u64 p, const void *symbol, size_t n, size_t offset, int kind
TWIN(cudaMemcpyToSymbol, _ptds, (TO_SYMBOL), symbol, p, n, offset, kind)
TWIN(cudaMemcpyToSymbolAsync, _ptsz, (TO_SYMBOL, void *s), symbol, p, n, offset, kind, s)
TWIN(cudaMemcpyFromSymbol, _ptds, (FROM_SYMBOL), symbol, p, n, offset, kind)
TWIN(cudaMemcpyFromSymbolAsync, _ptsz, (FROM_SYMBOL, void *s), symbol, p, n, offset, kind, s)
