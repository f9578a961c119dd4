/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, functions and kernel launches. */
#include "gpu.h"

/* "..._250us" takes 250 us of GPU time, whatever INGERO_SIM_KERNEL_NS says. */
static void time_of_name(struct function *f)
{
	const char *p = f->name, *from = NULL;
	u64 v = 0;

	for (; *p; p++)
		if (*p == '_')
			from = p + 1;
	if (!from || *from < '0' || *from > '9')
		return;
	for (; *from >= '0' && *from <= '9'; from++)
		v = v * 10 + (u64)(*from - '0');
	if (strcmp(from, "us"))
		return;
	f->kernel_ns = v * 1000;
	f->has_ns = 1;
}

/* A module has no contents: any name is a function of it. */
CU(cuModuleLoadData)(void **mod, const void *image)
{
	ENTER;
	if (!mod || !image)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	lock(&g.lock);
	*mod = object_new(KIND_MODULE);
	unlock(&g.lock);
	return *mod ? OK : ERR_OUT_OF_MEMORY;
}

/* Frees the functions of a context or of a module. The caller holds the lock. */
void functions_forget(const struct context *ctx, const struct object *module)
{
	for (u32 i = 0; i < object_count(KIND_FUNCTION); i++) {
		struct function *f = (void *)object_at(KIND_FUNCTION, i);

		if (f && (f->ctx == ctx || f->module == module))
			object_free(&f->o);
	}
}

CU(cuModuleLoadDataEx)(void **mod, const void *image, u32 n, void *options, void **values)
{
	(void)n, (void)options, (void)values;
	return impl_cuModuleLoadData(mod, image);
}

CU(cuModuleLoadFatBinary)(void **mod, const void *image)
{
	return impl_cuModuleLoadData(mod, image);
}

CU(cuModuleLoad)(void **mod, const char *file)
{
	(void)mod;
	return file ? ERR_FILE_NOT_FOUND : ERR_INVALID_VALUE;
}

CU(cuModuleUnload)(void *mod)
{
	ENTER;
	if (!object_get(mod, KIND_MODULE))
		return ERR_INVALID_HANDLE;
	lock(&g.lock);
	functions_forget(NULL, mod);
	object_free(mod);
	unlock(&g.lock);
	return OK;
}

CU(cuModuleGetFunction)(void **out, void *mod, const char *name)
{
	struct function *f;
	size_t n;

	ENTER;
	if (!object_get(mod, KIND_MODULE))
		return ERR_INVALID_HANDLE;
	if (!out || !name || !*name)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	f = (void *)object_new(KIND_FUNCTION);
	unlock(&g.lock);
	if (!f)
		return ERR_OUT_OF_MEMORY;
	n = strlen(name);
	if (n >= sizeof(f->name))
		n = sizeof(f->name) - 1;
	memcpy(f->name, name, n);
	f->name[n] = 0;
	f->module = mod;
	f->ctx = t->ctx;
	time_of_name(f);
	*out = f;
	return OK;
}

CU(cuFuncSetBlockShape)(void *f, int x, int y, int z)
{
	ENTER;
	if (!object_get(f, KIND_FUNCTION))
		return ERR_INVALID_HANDLE;
	return x > 0 && y > 0 && z > 0 ? OK : ERR_INVALID_VALUE;
}

CU(cuFuncGetAttribute)(int *v, int attr, void *f)
{
	ENTER;
	if (!object_get(f, KIND_FUNCTION))
		return ERR_INVALID_HANDLE;
	*v = attr == 0 ? 1024 : attr == 4 ? 32 : 0; /* threads a block, registers */
	return OK;
}

CU(cuFuncSetAttribute)(void *f, int attr, int v)
{
	ENTER;
	(void)attr, (void)v;
	return object_get(f, KIND_FUNCTION) ? OK : ERR_INVALID_HANDLE;
}

static inline int launch(struct thread *t, void *handle, void *stream, void *dflt)
{
	struct function *f = object_get(handle, KIND_FUNCTION);
	struct stream *s;
	int err;

	if (unlikely(!f))
		return ERR_INVALID_HANDLE;
	err = stream_find(t, stream, dflt, &s);
	if (unlikely(err))
		return err;
	return stream_submit(s, g.cfg.launch_ns, f->has_ns ? f->kernel_ns : g.cfg.kernel_ns, NULL);
}

static inline int bad_shape(u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz)
{
	return !gx || !gy || !gz || !bx || !by || !bz || (u64)bx * by * bz > 1024;
}

#define LAUNCH_PARAMS                                                                              \
	void *f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, void *s, void **params

static inline int cuLaunchKernel_on(void *dflt, LAUNCH_PARAMS, void **extra)
{
	ENTER_AS("cuLaunchKernel");
	(void)shared, (void)params, (void)extra;
	if (unlikely(bad_shape(gx, gy, gz, bx, by, bz)))
		return ERR_INVALID_VALUE;
	return launch(t, f, s, dflt);
}
TWIN(cuLaunchKernel, _ptsz, (LAUNCH_PARAMS, void **extra), f, gx, gy, gz, bx, by, bz, shared, s,
     params, extra)

static int cuLaunchCooperativeKernel_on(void *dflt, LAUNCH_PARAMS)
{
	ENTER_AS("cuLaunchCooperativeKernel");
	(void)shared, (void)params;
	if (bad_shape(gx, gy, gz, bx, by, bz))
		return ERR_INVALID_VALUE;
	return launch(t, f, s, dflt);
}
TWIN(cuLaunchCooperativeKernel, _ptsz, (LAUNCH_PARAMS), f, gx, gy, gz, bx, by, bz, shared, s,
     params)

static int cuLaunchKernelEx_on(void *dflt, const struct launch_config *c, void *f, void **params,
			       void **extra)
{
	ENTER_AS("cuLaunchKernelEx");
	(void)params, (void)extra;
	if (!c ||
	    bad_shape(c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2]))
		return ERR_INVALID_VALUE;
	return launch(t, f, c->stream, dflt);
}
TWIN(cuLaunchKernelEx, _ptsz, (const struct launch_config *c, void *f, void **params, void **extra),
     c, f, params, extra)

struct multi_launch { /* CUDA_LAUNCH_PARAMS */
	void *f;
	u32 grid[3], block[3], shared;
	u32 pad;
	void *stream, **params;
};

CU(cuLaunchCooperativeKernelMultiDevice)(const struct multi_launch *list, u32 n, u32 flags)
{
	ENTER;
	(void)flags;
	if (!list || !n || n > (u32)g.device_count)
		return ERR_INVALID_VALUE;
	for (u32 i = 0; i < n && !err; i++)
		err = launch(t, list[i].f, list[i].stream, STREAM_LEGACY);
	return err;
}

CU(cuLaunch)(void *f)
{
	ENTER;
	return launch(t, f, NULL, STREAM_LEGACY);
}

CU(cuLaunchGrid)(void *f, int w, int h)
{
	ENTER;
	return w > 0 && h > 0 ? launch(t, f, NULL, STREAM_LEGACY) : ERR_INVALID_VALUE;
}

CU(cuLaunchGridAsync)(void *f, int w, int h, void *s)
{
	ENTER;
	return w > 0 && h > 0 ? launch(t, f, s, STREAM_LEGACY) : ERR_INVALID_VALUE;
}
