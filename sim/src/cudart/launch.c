/* SPDX-License-Identifier: Apache-2.0 */
/* Launches. */
#include "rt.h"

/* The two calls behind f<<<grid, block, shared, stream>>>(). */
EXPORT u32 __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
				       void *stream)
{
	struct rt_thread *t = rt_self();

	if (t->depth == ARRAY_SIZE(t->config))
		return ERR_INVALID_CONFIGURATION;
	t->config[t->depth].grid = grid;
	t->config[t->depth].block = block;
	t->config[t->depth].shared = shared;
	t->config[t->depth++].stream = stream;
	return OK;
}

EXPORT int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared,
				      void **stream)
{
	struct rt_thread *t = rt_self();

	if (!t->depth)
		return ERR_INVALID_CONFIGURATION;
	t->depth--;
	*grid = t->config[t->depth].grid;
	*block = t->config[t->depth].block;
	*shared = t->config[t->depth].shared;
	*stream = t->config[t->depth].stream;
	return OK;
}

static inline int cudaLaunchKernel_on(const struct driver *d, const void *func, struct dim3 g,
				      struct dim3 b, void **args, size_t shared, void *s)
{
	void *f = rt_kernel(func);
	int err;

	if (unlikely(!f))
		return rt_no_kernel();
	err = d->cuLaunchKernel(f, g.x, g.y, g.z, b.x, b.y, b.z, (u32)shared, s, args, NULL);
	return unlikely(err == ERR_INVALID_VALUE) ? ERR_INVALID_CONFIGURATION : err;
}
TWIN(cudaLaunchKernel, _ptsz,
     (const void *func, struct dim3 g, struct dim3 b, void **args, size_t shared, void *s), func, g,
     b, args, shared, s)

static int cudaLaunchCooperativeKernel_on(const struct driver *d, const void *func, struct dim3 g,
					  struct dim3 b, void **args, size_t shared, void *s)
{
	void *f = rt_kernel(func);

	if (!f)
		return rt_no_kernel();
	return d->cuLaunchCooperativeKernel(f, g.x, g.y, g.z, b.x, b.y, b.z, (u32)shared, s, args);
}
TWIN(cudaLaunchCooperativeKernel, _ptsz,
     (const void *func, struct dim3 g, struct dim3 b, void **args, size_t shared, void *s), func, g,
     b, args, shared, s)

struct rt_launch_config { /* cudaLaunchConfig_t */
	struct dim3 grid, block;
	size_t shared;
	void *stream, *attrs;
	u32 n_attrs;
};

_Static_assert(offsetof(struct rt_launch_config, stream) == 32,
	       "cudaLaunchConfig_t has stream at 32");

static int cudaLaunchKernelExC_on(const struct driver *d, const struct rt_launch_config *c,
				  const void *func, void **args)
{
	struct launch_config l = { 0 };
	void *f = rt_kernel(func);

	if (!c)
		return ERR_INVALID_VALUE;
	if (!f)
		return rt_no_kernel();
	memcpy(l.grid, &c->grid, sizeof(l.grid));
	memcpy(l.block, &c->block, sizeof(l.block));
	l.shared = (u32)c->shared;
	l.stream = c->stream;
	return d->cuLaunchKernelEx(&l, f, args, NULL);
}
TWIN(cudaLaunchKernelExC, _ptsz, (const struct rt_launch_config *c, const void *func, void **args),
     c, func, args)

struct rt_multi_launch { /* cudaLaunchParams */
	const void *func;
	struct dim3 grid, block;
	void **args;
	size_t shared;
	void *stream;
};

EXPORT int cudaLaunchCooperativeKernelMultiDevice(const struct rt_multi_launch *list, u32 n,
						  u32 flags)
{
	int err = OK;

	BEGIN;
	(void)flags;
	if (!list || !n)
		return rt_fail(ERR_INVALID_VALUE);
	for (u32 i = 0; i < n && !err; i++)
		err = cudaLaunchCooperativeKernel_on(&rt.drv[0], list[i].func, list[i].grid,
						     list[i].block, list[i].args, list[i].shared,
						     list[i].stream);
	return done(err);
}

/* Takes a kernel's handle instead of its host function. In 12 the launch then calls
 * cudaLaunchKernel. */
#if CUDART < 13
EXPORT int __cudaLaunchKernel(void *kernel, struct dim3 g, struct dim3 b, void **args,
			      size_t shared, void *s)
{
	BEGIN;
	return cudaLaunchKernel(kernel, g, b, args, shared, s);
}

EXPORT int __cudaLaunchKernel_ptsz(void *kernel, struct dim3 g, struct dim3 b, void **args,
				   size_t shared, void *s)
{
	BEGIN;
	return cudaLaunchKernel_ptsz(kernel, g, b, args, shared, s);
}
#else
#define __cudaLaunchKernel_on cudaLaunchKernel_on
TWIN(__cudaLaunchKernel, _ptsz,
     (void *kernel, struct dim3 g, struct dim3 b, void **args, size_t shared, void *s), kernel, g,
     b, args, shared, s)
#endif

static int cudaLaunchHostFunc_on(const struct driver *d, void *s, host_fn fn, void *data)
{
	return d->cuLaunchHostFunc(s, fn, data);
}
TWIN(cudaLaunchHostFunc, _ptsz, (void *s, host_fn fn, void *data), s, fn, data)
