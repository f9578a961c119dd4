/* SPDX-License-Identifier: Apache-2.0 */
/* Images, kernels and variables that a program registers at its start. Each is loaded on
 * first use. The tables grow; when memory runs out, a message goes to standard error, and
 * each later call fails with error 2. */
#include "table.h"

static struct image *image_of(void **handle)
{
	return image_get(handle ? (char *)handle - offsetof(struct image, library) : NULL);
}

/* Returns the library of an image, loading it if needed. The caller holds the lock. */
static int library_of(struct image *im, void **lib)
{
	int err = OK;

	if (!im->library)
		err = DRV(cuLibraryLoadData)(&im->library, im->data, NULL, NULL, 0, NULL, NULL, 0);
	*lib = im->library;
	return err;
}

/* Looks the symbol's kernel up in the driver; returns an error if there is none. The caller
 * holds the lock. */
static int load_locked(struct symbol *s)
{
	struct symbol *alias;
	void *lib, *k;
	int err;

	if (!s->name || s->size)
		return ERR_INVALID_DEVICE_FUNCTION;
	err = library_of(s->image, &lib);
	if (!err)
		err = DRV(cuLibraryGetKernel)(&k, lib, s->name);
	if (err)
		return err == ERR_OUT_OF_MEMORY ? err : ERR_INVALID_DEVICE_FUNCTION;
	alias = symbol_take(k);
	if (!alias)
		return ERR_OUT_OF_MEMORY;
	__atomic_store_n(&alias->kernel, k, __ATOMIC_RELEASE);
	__atomic_store_n(&s->kernel, k, __ATOMIC_RELEASE);
	return OK;
}

static void *load(struct symbol *s)
{
	lock(&symbols_lock);
	rt_self()->no_kernel = load_locked(s);
	unlock(&symbols_lock);
	return rt_self()->no_kernel ? NULL : s->kernel;
}

/* Returns the reason why the thread's last rt_kernel() returned NULL, and clears it. */
int rt_no_kernel(void)
{
	int err = rt_self()->no_kernel;

	rt_self()->no_kernel = OK;
	return err ? err : ERR_INVALID_DEVICE_FUNCTION;
}

/* Returns the driver's kernel for a registered kernel, by host function or handle; NULL if
 * it is not registered. */
void *rt_kernel(const void *host)
{
	struct symbol *s = host ? symbol_of(host) : NULL;
	void *k;

	if (unlikely(!s))
		return NULL;
	k = __atomic_load_n(&s->kernel, __ATOMIC_ACQUIRE);
	return likely(k != NULL) ? k : load(s);
}

/* Returns the address and size of a registered variable on the thread's device. */
int rt_variable(const void *host, devptr *p, u64 *size)
{
	struct symbol *s = host ? symbol_of(host) : NULL;
	int dev = rt_self()->device, err = ERR_INVALID_SYMBOL;
	void *lib;
	size_t n;

	if (!s || !s->name || !s->size)
		return ERR_INVALID_SYMBOL;
	lock(&symbols_lock);
	if (s->addr[dev])
		err = OK;
	else if (!library_of(s->image, &lib))
		err = DRV(cuLibraryGetGlobal)(&s->addr[dev], &n, lib, s->name);
	*p = s->addr[dev];
	*size = s->size;
	unlock(&symbols_lock);
	return err;
}

EXPORT void **__cudaRegisterFatBinary(void *data)
{
	struct image *im;

	lock(&symbols_lock);
	im = image_take();
	if (im)
		im->data = data ? data : "";
	unlock(&symbols_lock);
	return im ? &im->library : NULL;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

/* Called at the end of a program, or when its library is unloaded: drops the kernels. */
EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	struct image *im = image_of(handle);

	if (!im)
		return;
	lock(&symbols_lock);
	while (im->symbols) {
		struct symbol *s = im->symbols, *alias = s->kernel ? symbol_of(s->kernel) : NULL;

		im->symbols = s->next;
		if (alias)
			alias->kernel = NULL;
		s->next = NULL;
		s->image = NULL;
		s->name = NULL;
		s->kernel = NULL;
	}
	if (im->library)
		DRV(cuLibraryUnload)(im->library);
	image_free(im);
	unlock(&symbols_lock);
}

EXPORT char __cudaInitModule(void **handle)
{
	(void)handle;
	return 1;
}

static void add(void **handle, const void *host, const char *name, u64 size)
{
	struct image *im = image_of(handle);
	struct symbol *s;

	if (!im || !host || !name)
		return;
	lock(&symbols_lock);
	s = symbol_take(host);
	if (s && !s->name && (!size || symbol_addresses(s))) {
		s->image = im;
		s->next = im->symbols;
		im->symbols = s;
		s->size = size;
		s->name = name;
	}
	unlock(&symbols_lock);
}

EXPORT void __cudaRegisterFunction(void **handle, const char *host_fn, char *device_fn,
				   const char *name, int limit, void *tid, void *bid, void *bdim,
				   void *gdim, int *warp)
{
	(void)device_fn, (void)limit, (void)tid, (void)bid, (void)bdim, (void)gdim, (void)warp;
	add(handle, host_fn, name, 0);
}

EXPORT void __cudaRegisterVar(void **handle, char *host, char *dev, const char *name, int ext,
			      size_t size, int constant, int global)
{
	(void)dev, (void)ext, (void)constant, (void)global;
	if (size)
		add(handle, host, name, size);
}

/* Code from nvcc 13 calls this once per kernel, then launches by the handle, which is the
 * driver's CUkernel. */
static int get_kernel(void **kernel, const void *host_fn)
{
	void *k = rt_kernel(host_fn);

	if (!kernel)
		return ERR_INVALID_VALUE;
	if (!k)
		return rt_no_kernel();
	*kernel = k;
	return OK;
}

EXPORT int __cudaGetKernel(void **kernel, const void *host_fn)
{
	BEGIN;
	return done(get_kernel(kernel, host_fn));
}

EXPORT int cudaGetKernel(void **kernel, const void *host_fn)
{
	BEGIN;
	return done(get_kernel(kernel, host_fn));
}

EXPORT int cudaGetFuncBySymbol(void **f, const void *host_fn)
{
	void *k;
	int err;

	BEGIN;
	err = get_kernel(&k, host_fn);
	return done(err ? err : DRV(cuKernelGetFunction)(f, k));
}

EXPORT int cudaFuncGetName(const char **name, const void *func)
{
	void *k;
	int err;

	BEGIN;
	err = get_kernel(&k, func);
	return done(err ? err : DRV(cuKernelGetName)(name, k));
}

struct func_attributes { /* cudaFuncAttributes, up to the last field that is filled in */
	size_t shared, constant, local;
	int max_threads, registers, ptx, binary, cache_ca, max_shared, carveout;
};

EXPORT int cudaFuncGetAttributes(struct func_attributes *a, const void *func)
{
	void *k;
	int err;

	BEGIN;
	err = get_kernel(&k, func);
	if (!err && !a)
		err = ERR_INVALID_VALUE;
	if (err)
		return rt_fail(err);
	memset(a, 0, sizeof(*a));
	err = DRV(cuFuncGetAttribute)(&a->max_threads, 0, k);
	return done(err ? err : DRV(cuFuncGetAttribute)(&a->registers, 4, k));
}

EXPORT int cudaFuncSetAttribute(const void *func, int attr, int v)
{
	void *k;
	int err;

	BEGIN;
	err = get_kernel(&k, func);
	return done(err ? err : DRV(cuFuncSetAttribute)(k, attr, v));
}

EXPORT int cudaLibraryLoadData(void **lib, const void *image, LIBRARY_OPTIONS)
{
	BEGIN;
	return done(DRV(cuLibraryLoadData)(lib, image, jit, jit_values, n_jit, options, values,
					   n_options));
}

EXPORT int cudaLibraryLoadFromFile(void **lib, const char *file, LIBRARY_OPTIONS)
{
	BEGIN;
	return done(DRV(cuLibraryLoadFromFile)(lib, file, jit, jit_values, n_jit, options, values,
					       n_options));
}

/* Handles of its kernels stay registered; the driver rejects them as dead. */
EXPORT int cudaLibraryUnload(void *lib)
{
	BEGIN;
	return done(DRV(cuLibraryUnload)(lib));
}

EXPORT int cudaLibraryGetKernel(void **kernel, void *lib, const char *name)
{
	int err;

	BEGIN;
	err = DRV(cuLibraryGetKernel)(kernel, lib, name);
	if (!err) {
		struct symbol *s;

		lock(&symbols_lock);
		s = symbol_take(*kernel);
		if (s)
			s->kernel = *kernel;
		unlock(&symbols_lock);
		err = s ? OK : ERR_OUT_OF_MEMORY;
	}
	return done(err);
}
