/* SPDX-License-Identifier: Apache-2.0 */
/* Registered kernels and launches. */
#include "rt.h"

#define KERNEL_BITS 12

/* A kernel that the program registered: host function to driver function. */
struct kernel {
	const void *host_fn; /* 0: free */
	const char *name;
	void *fn[16]; /* by device, loaded at first use */
};

static struct kernel kernels[1 << KERNEL_BITS]; /* hash, open addressing, only grows */
static struct lock kernels_lock;
static void *modules[16];

static struct kernel *slot_of(const void *host_fn)
{
	u32 i = (u32)((u64)host_fn * 0x9e3779b97f4a7c15ull >> (64 - KERNEL_BITS));

	while (kernels[i].host_fn && kernels[i].host_fn != host_fn)
		i = (i + 1) & ((1u << KERNEL_BITS) - 1);
	return &kernels[i];
}

static void *load(struct kernel *k, int dev)
{
	void *fn = NULL;

	lock(&kernels_lock);
	if (!modules[dev])
		DRV(cuModuleLoadData)(&modules[dev], "simulated");
	if (modules[dev] && !DRV(cuModuleGetFunction)(&fn, modules[dev], k->name))
		__atomic_store_n(&k->fn[dev], fn, __ATOMIC_RELEASE);
	unlock(&kernels_lock);
	return fn;
}

/* The driver's function for a registered kernel, NULL for one that is not. */
void *rt_kernel(const void *host_fn)
{
	struct kernel *k = slot_of(host_fn);
	int dev = rt_self()->device;
	void *fn;

	if (unlikely(!host_fn || !k->host_fn))
		return NULL;
	fn = __atomic_load_n(&k->fn[dev], __ATOMIC_ACQUIRE);
	return likely(fn != NULL) ? fn : load(k, dev);
}

/* After a reset of the device its functions are gone. */
void rt_forget_kernels(int dev)
{
	lock(&kernels_lock);
	modules[dev] = NULL;
	for (u32 i = 0; i < ARRAY_SIZE(kernels); i++)
		kernels[i].fn[dev] = NULL;
	unlock(&kernels_lock);
}

EXPORT void **__cudaRegisterFatBinary(void *image)
{
	static void *handle;

	handle = image;
	return &handle;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

EXPORT char __cudaInitModule(void **handle)
{
	(void)handle;
	return 1;
}

EXPORT void __cudaRegisterFunction(void **handle, const char *host_fn, char *device_fn,
				   const char *name, int limit, void *tid, void *bid, void *bdim,
				   void *gdim, int *warp)
{
	static u32 used;
	struct kernel *k;

	(void)handle, (void)device_fn, (void)limit, (void)tid, (void)bid, (void)bdim, (void)gdim,
		(void)warp;
	if (!host_fn || !name)
		return;
	lock(&kernels_lock);
	k = slot_of(host_fn);
	if (!k->host_fn && used < ARRAY_SIZE(kernels) / 2) {
		used++;
		k->name = name;
		__atomic_store_n(&k->host_fn, host_fn, __ATOMIC_RELEASE);
	}
	unlock(&kernels_lock);
}

EXPORT void __cudaRegisterVar(void **handle, char *host, char *dev, const char *name, int ext,
			      size_t size, int constant, int global)
{
	(void)handle, (void)host, (void)dev, (void)name, (void)ext, (void)size, (void)constant,
		(void)global;
}

/* The pair behind f<<<grid, block, shared, stream>>>(). */
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
		return ERR_INVALID_DEVICE_FUNCTION;
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
		return ERR_INVALID_DEVICE_FUNCTION;
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
		return ERR_INVALID_DEVICE_FUNCTION;
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

/* What code that nvcc 13 makes calls: the kernel's handle once, then a launch with it.
 * A handle is the host function; in 12 the launch goes on through cudaLaunchKernel. */
EXPORT int __cudaGetKernel(void **kernel, const void *host_fn)
{
	BEGIN;
	if (!kernel)
		return rt_fail(ERR_INVALID_VALUE);
	if (!rt_kernel(host_fn))
		return rt_fail(ERR_INVALID_DEVICE_FUNCTION);
	*kernel = (void *)host_fn;
	return OK;
}

EXPORT int cudaGetKernel(void **kernel, const void *host_fn)
{
	return __cudaGetKernel(kernel, host_fn);
}

#if CUDART == 12
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
