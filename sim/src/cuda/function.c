/* SPDX-License-Identifier: Apache-2.0 */
/* Queries about functions, kernels and libraries. */
#include "gpu.h"

#define MAX_PARAMETERS 4096

/* Returns the current context's module of a library; the first call creates it. */
static int library_module(struct thread *t, struct library *l, struct module **out)
{
	struct module **m = &l->module[t->ctx->o.index];

	lock(&g.lock);
	if (!*m)
		*m = (void *)object_new(KIND_MODULE);
	if (*m) {
		(*m)->ctx = t->ctx; /* its kernels belong to the library */
		(*m)->library = l;
	}
	unlock(&g.lock);
	*out = *m;
	return *m ? OK : ERR_OUT_OF_MEMORY;
}

CU(cuLibraryGetModule)(void **mod, void *handle)
{
	struct library *l = object_get(handle, KIND_LIBRARY);

	ENTER;
	if (!l)
		return ERR_INVALID_HANDLE;
	return mod ? library_module(t, l, (struct module **)mod) : ERR_INVALID_VALUE;
}

CU(cuLibraryGetGlobal)(devptr *p, size_t *n, void *handle, const char *name)
{
	struct library *l = object_get(handle, KIND_LIBRARY);
	struct module *m;

	ENTER;
	if (!l)
		return ERR_INVALID_HANDLE;
	err = library_module(t, l, &m);
	return err ? err : impl_cuModuleGetGlobal_v2(p, n, m, name);
}

CU(cuKernelGetFunction)(void **out, void *handle)
{
	struct function *k = object_get(handle, KIND_KERNEL);
	struct module *m;

	ENTER;
	if (!k)
		return ERR_INVALID_HANDLE;
	if (!out)
		return ERR_INVALID_VALUE;
	err = library_module(t, (struct library *)k->of, &m);
	return err ? err : impl_cuModuleGetFunction(out, m, k->name);
}

CU(cuKernelGetLibrary)(void **lib, void *handle)
{
	const struct function *k = object_get(handle, KIND_KERNEL);

	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!k || !lib)
		return k ? ERR_INVALID_VALUE : ERR_INVALID_HANDLE;
	*lib = k->of;
	return OK;
}

static int name_of(const char **name, const struct function *f)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!f)
		return ERR_INVALID_HANDLE;
	if (!name)
		return ERR_INVALID_VALUE;
	*name = f->name;
	return OK;
}

CU(cuKernelGetName)(const char **name, void *kernel)
{
	return name_of(name, object_get(kernel, KIND_KERNEL));
}

CU(cuFuncGetName)(const char **name, void *f)
{
	return name_of(name, object_get(f, KIND_FUNCTION));
}

CU(cuFuncGetModule)(void **mod, void *handle)
{
	const struct function *f = object_get(handle, KIND_FUNCTION);

	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!f || !mod)
		return f ? ERR_INVALID_VALUE : ERR_INVALID_HANDLE;
	*mod = f->of;
	return OK;
}

CU(cuFuncSetBlockShape)(void *f, int x, int y, int z)
{
	ENTER;
	if (!function_get(f))
		return ERR_INVALID_HANDLE;
	return x > 0 && y > 0 && z > 0 ? OK : ERR_INVALID_VALUE;
}

static int attribute(int *v, int attr, const void *f)
{
	if (!function_get(f))
		return ERR_INVALID_HANDLE;
	if (!v)
		return ERR_INVALID_VALUE;
	*v = attr == 0 ? 1024 : attr == 4 ? 32 : 0; /* threads per block, registers */
	return OK;
}

CU(cuFuncSetCacheConfig)(void *f, u32 config)
{
	ENTER;
	if (!function_get(f))
		return ERR_INVALID_HANDLE;
	return config <= 3 ? OK : ERR_INVALID_VALUE;
}

CU(cuFuncSetSharedMemConfig)(void *f, u32 config)
{
	ENTER;
	if (!function_get(f))
		return ERR_INVALID_HANDLE;
	return config <= 2 ? OK : ERR_INVALID_VALUE;
}

CU(cuFuncSetSharedSize)(void *f, u32 bytes)
{
	ENTER;
	if (!function_get(f))
		return ERR_INVALID_HANDLE;
	return bytes <= SHARED_OPTIN ? OK : ERR_INVALID_VALUE;
}

/* Parameters of cuLaunch: kernels do not read them, so only their offsets are checked. */
static int parameter(const char *op, void *f, int at, u64 n)
{
	ENTER_AS(op);
	if (!function_get(f))
		return ERR_INVALID_HANDLE;
	return at >= 0 && (u64)at + n <= MAX_PARAMETERS ? OK : ERR_INVALID_VALUE;
}

CU(cuParamSetSize)(void *f, u32 n)
{
	return parameter("cuParamSetSize", f, 0, n);
}

CU(cuParamSeti)(void *f, int at, u32 value)
{
	(void)value;
	return parameter("cuParamSeti", f, at, sizeof(value));
}

CU(cuParamSetf)(void *f, int at, float value)
{
	(void)value;
	return parameter("cuParamSetf", f, at, sizeof(value));
}

CU(cuParamSetv)(void *f, int at, const void *p, u32 n)
{
	(void)p;
	return parameter("cuParamSetv", f, at, n);
}

CU(cuFuncGetAttribute)(int *v, int attr, void *f)
{
	ENTER;
	return attribute(v, attr, f);
}

CU(cuFuncSetAttribute)(void *f, int attr, int v)
{
	ENTER;
	(void)attr, (void)v;
	return function_get(f) ? OK : ERR_INVALID_HANDLE;
}

CU(cuKernelGetAttribute)(int *v, int attr, void *kernel, int dev)
{
	ENTER;
	(void)dev;
	return attribute(v, attr, kernel);
}

CU(cuKernelSetAttribute)(int attr, int v, void *kernel, int dev)
{
	ENTER;
	(void)attr, (void)v, (void)dev;
	return object_get(kernel, KIND_KERNEL) ? OK : ERR_INVALID_HANDLE;
}
