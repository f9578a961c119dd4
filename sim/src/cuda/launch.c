/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel launches. */
#include "gpu.h"

/* Launches a kernel that waits for those of other processes: see gate.h. */
static int launch_gated(struct stream *s, void **params)
{
	if (!params)
		return ERR_INVALID_VALUE;
	return stream_gate(s, g.cfg.launch_ns, *(struct sim_gate **)params[0], *(u64 *)params[1]);
}

/* Marks a function: its parameters are from then on a gate and a GPU time. */
CU(simGate)(void *handle)
{
	struct function *f = function_get(handle);

	if (!f)
		return ERR_INVALID_HANDLE;
	f->gated = 1;
	return OK;
}

/* Sets the GPU time of the calling thread's next kernel. cuBLAS and cuDNN use it, since they
 * know the work of their kernels. No effect where kernels take no time. */
CU(simKernelTime)(u64 ns)
{
	thread_self()->next_ns = g.cfg.kernel_ns ? ns : 0;
	return OK;
}

static inline u64 kernel_ns(struct thread *t, const struct function *f)
{
	u64 ns = t->next_ns;

	if (likely(!ns))
		return f->has_ns ? f->kernel_ns : g.cfg.kernel_ns;
	t->next_ns = 0;
	return ns;
}

static inline int launch(struct thread *t, void *handle, void *stream, void *dflt, void **params)
{
	struct function *f = function_get(handle);
	struct stream *s;
	int err;

	if (unlikely(!f))
		return ERR_INVALID_HANDLE;
	err = stream_find(t, stream, dflt, &s);
	if (unlikely(err))
		return err;
	if (unlikely(g.watched))
		counts_add(f->name);
	if (unlikely(f->gated))
		return launch_gated(s, params);
	return stream_submit(s, g.cfg.launch_ns, kernel_ns(t, f), NULL);
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
	(void)shared, (void)extra;
	if (unlikely(bad_shape(gx, gy, gz, bx, by, bz)))
		return ERR_INVALID_VALUE;
	return launch(t, f, s, dflt, params);
}
TWIN(cuLaunchKernel, _ptsz, (LAUNCH_PARAMS, void **extra), f, gx, gy, gz, bx, by, bz, shared, s,
     params, extra)

static int cuLaunchCooperativeKernel_on(void *dflt, LAUNCH_PARAMS)
{
	ENTER_AS("cuLaunchCooperativeKernel");
	(void)shared;
	if (bad_shape(gx, gy, gz, bx, by, bz))
		return ERR_INVALID_VALUE;
	return launch(t, f, s, dflt, params);
}
TWIN(cuLaunchCooperativeKernel, _ptsz, (LAUNCH_PARAMS), f, gx, gy, gz, bx, by, bz, shared, s,
     params)

static int cuLaunchKernelEx_on(void *dflt, const struct launch_config *c, void *f, void **params,
			       void **extra)
{
	ENTER_AS("cuLaunchKernelEx");
	(void)extra;
	if (!c ||
	    bad_shape(c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2]))
		return ERR_INVALID_VALUE;
	return launch(t, f, c->stream, dflt, params);
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
		err = launch(t, list[i].f, list[i].stream, STREAM_LEGACY, list[i].params);
	return err;
}

CU(cuLaunch)(void *f)
{
	ENTER;
	return launch(t, f, NULL, STREAM_LEGACY, NULL);
}

CU(cuLaunchGrid)(void *f, int w, int h)
{
	ENTER;
	return w > 0 && h > 0 ? launch(t, f, NULL, STREAM_LEGACY, NULL) : ERR_INVALID_VALUE;
}

CU(cuLaunchGridAsync)(void *f, int w, int h, void *s)
{
	ENTER;
	return w > 0 && h > 0 ? launch(t, f, s, STREAM_LEGACY, NULL) : ERR_INVALID_VALUE;
}
