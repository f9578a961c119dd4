/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events. */
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

static int cudaStreamGetPriority_on(const struct driver *d, void *s, int *priority)
{
	return d->cuStreamGetPriority(s, priority);
}
TWIN(cudaStreamGetPriority, _ptsz, (void *s, int *priority), s, priority)

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

static int cudaStreamBeginCaptureToGraph_on(const struct driver *d, void *s, void *graph,
					    const void *deps, const void *edges, size_t n, int mode)
{
	return d->cuStreamBeginCaptureToGraph(s, graph, deps, edges, n, mode);
}
TWIN(cudaStreamBeginCaptureToGraph, _ptsz,
     (void *s, void *graph, const void *deps, const void *edges, size_t n, int mode), s, graph,
     deps, edges, n, mode)

/* The plain name has three arguments up to 12, and eight in 13. */
#define INFO_V2 void *s, int *status, u64 *id, void **graph, const void **deps, size_t *n
#define INFO_V3                                                                                    \
	void *s, int *status, u64 *id, void **graph, const void **deps, const void **edges,        \
		size_t *n

static int cudaStreamGetCaptureInfo_v3_on(const struct driver *d, INFO_V3)
{
	return d->cuStreamGetCaptureInfo_v3(s, status, id, graph, deps, edges, n);
}
TWIN(cudaStreamGetCaptureInfo_v3, _ptsz, (INFO_V3), s, status, id, graph, deps, edges, n)

static int cudaStreamGetCaptureInfo_v2_on(const struct driver *d, INFO_V2)
{
	return d->cuStreamGetCaptureInfo_v3(s, status, id, graph, deps, NULL, n);
}
TWIN(cudaStreamGetCaptureInfo_v2, _ptsz, (INFO_V2), s, status, id, graph, deps, n)

#if CUDART >= 13
#define cudaStreamGetCaptureInfo_on cudaStreamGetCaptureInfo_v3_on
TWIN(cudaStreamGetCaptureInfo, _ptsz, (INFO_V3), s, status, id, graph, deps, edges, n)
#else
static int cudaStreamGetCaptureInfo_on(const struct driver *d, void *s, int *status, u64 *id)
{
	return d->cuStreamGetCaptureInfo_v3(s, status, id, NULL, NULL, NULL, NULL);
}
TWIN(cudaStreamGetCaptureInfo, _ptsz, (void *s, int *status, u64 *id), s, status, id)
#endif

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

static int cudaEventRecordWithFlags_on(const struct driver *d, void *ev, void *s, u32 flags)
{
	return d->cuEventRecordWithFlags(ev, s, flags);
}
TWIN(cudaEventRecordWithFlags, _ptsz, (void *ev, void *s, u32 flags), ev, s, flags)

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
