/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and graphs. */
#include "rt.h"

EXPORT int cudaStreamCreate(void **s)
{
	BEGIN;
	return done(DRV(cuStreamCreate)(s, 0));
}

EXPORT int cudaStreamCreateWithFlags(void **s, u32 flags)
{
	BEGIN;
	return done(DRV(cuStreamCreate)(s, flags));
}

EXPORT int cudaStreamCreateWithPriority(void **s, u32 flags, int prio)
{
	BEGIN;
	return done(DRV(cuStreamCreateWithPriority)(s, flags, prio));
}

EXPORT int cudaStreamDestroy(void *s)
{
	BEGIN;
	return done(DRV(cuStreamDestroy)(s));
}

static int cudaStreamSynchronize_on(const struct driver *d, void *s)
{
	return d->cuStreamSynchronize(s);
}
TWIN(cudaStreamSynchronize, _ptsz, (void *s), s)

static int cudaStreamQuery_on(const struct driver *d, void *s)
{
	return d->cuStreamQuery(s);
}
TWIN(cudaStreamQuery, _ptsz, (void *s), s)

static int cudaStreamWaitEvent_on(const struct driver *d, void *s, void *ev, u32 flags)
{
	return d->cuStreamWaitEvent(s, ev, flags);
}
TWIN(cudaStreamWaitEvent, _ptsz, (void *s, void *ev, u32 flags), s, ev, flags)

static int cudaStreamGetFlags_on(const struct driver *d, void *s, u32 *flags)
{
	return d->cuStreamGetFlags(s, flags);
}
TWIN(cudaStreamGetFlags, _ptsz, (void *s, u32 *flags), s, flags)

static int cudaStreamAddCallback_on(const struct driver *d, void *s, void *cb, void *data,
				    u32 flags)
{
	return d->cuStreamAddCallback(s, cb, data, flags);
}
TWIN(cudaStreamAddCallback, _ptsz, (void *s, void *cb, void *data, u32 flags), s, cb, data, flags)

static int cudaStreamBeginCapture_on(const struct driver *d, void *s, int mode)
{
	return d->cuStreamBeginCapture(s, mode);
}
TWIN(cudaStreamBeginCapture, _ptsz, (void *s, int mode), s, mode)

static int cudaStreamEndCapture_on(const struct driver *d, void *s, void **graph)
{
	return d->cuStreamEndCapture(s, graph);
}
TWIN(cudaStreamEndCapture, _ptsz, (void *s, void **graph), s, graph)

static int cudaStreamIsCapturing_on(const struct driver *d, void *s, int *status)
{
	return d->cuStreamIsCapturing(s, status);
}
TWIN(cudaStreamIsCapturing, _ptsz, (void *s, int *status), s, status)

EXPORT int cudaThreadExchangeStreamCaptureMode(int *mode)
{
	BEGIN;
	return done(DRV(cuThreadExchangeStreamCaptureMode)(mode));
}

EXPORT int cudaEventCreate(void **ev)
{
	BEGIN;
	return done(DRV(cuEventCreate)(ev, 0));
}

EXPORT int cudaEventCreateWithFlags(void **ev, u32 flags)
{
	BEGIN;
	return done(DRV(cuEventCreate)(ev, flags));
}

static int cudaEventRecord_on(const struct driver *d, void *ev, void *s)
{
	return d->cuEventRecord(ev, s);
}
TWIN(cudaEventRecord, _ptsz, (void *ev, void *s), ev, s)

EXPORT int cudaEventQuery(void *ev)
{
	BEGIN;
	return done(DRV(cuEventQuery)(ev));
}

EXPORT int cudaEventSynchronize(void *ev)
{
	BEGIN;
	return done(DRV(cuEventSynchronize)(ev));
}

EXPORT int cudaEventDestroy(void *ev)
{
	BEGIN;
	return done(DRV(cuEventDestroy)(ev));
}

EXPORT int cudaEventElapsedTime(float *ms, void *from, void *to)
{
	BEGIN;
	return done(DRV(cuEventElapsedTime)(ms, from, to));
}

EXPORT int cudaGraphCreate(void **graph, u32 flags)
{
	BEGIN;
	return done(DRV(cuGraphCreate)(graph, flags));
}

EXPORT int cudaGraphDestroy(void *graph)
{
	BEGIN;
	return done(DRV(cuGraphDestroy)(graph));
}

struct kernel_node_params { /* cudaKernelNodeParams */
	void *func;
	u32 grid[3], block[3], shared;
	void **params, **extra;
};

EXPORT int cudaGraphAddKernelNode(void **node, void *graph, const void *deps, size_t n,
				  const struct kernel_node_params *p)
{
	struct kernel_node_params q;

	BEGIN;
	if (!p)
		return rt_fail(ERR_INVALID_VALUE);
	q = *p;
	q.func = rt_kernel(p->func);
	if (!q.func)
		return rt_fail(ERR_INVALID_DEVICE_FUNCTION);
	return done(DRV(cuGraphAddKernelNode)(node, graph, deps, n, &q));
}

EXPORT int cudaGraphAddEmptyNode(void **node, void *graph, const void *deps, size_t n)
{
	BEGIN;
	return done(DRV(cuGraphAddEmptyNode)(node, graph, deps, n));
}

EXPORT int cudaGraphGetNodes(void *graph, void **nodes, size_t *n)
{
	BEGIN;
	return done(DRV(cuGraphGetNodes)(graph, nodes, n));
}

/* Three arguments since 12.0; 11 had five. */
EXPORT int cudaGraphInstantiate(void **exec, void *graph, unsigned long long flags)
{
	BEGIN;
	return done(DRV(cuGraphInstantiateWithFlags)(exec, graph, flags));
}

EXPORT int cudaGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
	BEGIN;
	return done(DRV(cuGraphInstantiateWithFlags)(exec, graph, flags));
}

static int cudaGraphInstantiateWithParams_on(const struct driver *d, void **exec, void *graph,
					     void *params)
{
	return d->cuGraphInstantiateWithParams(exec, graph, params);
}
TWIN(cudaGraphInstantiateWithParams, _ptsz, (void **exec, void *graph, void *params), exec, graph,
     params)

static int cudaGraphLaunch_on(const struct driver *d, void *exec, void *s)
{
	return d->cuGraphLaunch(exec, s);
}
TWIN(cudaGraphLaunch, _ptsz, (void *exec, void *s), exec, s)

static int cudaGraphUpload_on(const struct driver *d, void *exec, void *s)
{
	return d->cuGraphUpload(exec, s);
}
TWIN(cudaGraphUpload, _ptsz, (void *exec, void *s), exec, s)

EXPORT int cudaGraphExecUpdate(void *exec, void *graph, void *info)
{
	BEGIN;
	return done(DRV(cuGraphExecUpdate)(exec, graph, info));
}

EXPORT int cudaGraphExecDestroy(void *exec)
{
	BEGIN;
	return done(DRV(cuGraphExecDestroy)(exec));
}
