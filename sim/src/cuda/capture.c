/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: work enqueued on a capturing stream goes to a graph. */
#include "gpu.h"

static u64 captures; /* source of the captures' unique ids */

/* into: the graph to extend, or NULL for a new one. */
static int begin_capture(const char *op, void *dflt, void *handle, int mode, void *into)
{
	struct stream *s;
	void *gr = into;

	ENTER_AS(op);
	err = stream_find(t, handle, dflt, &s);
	if (err)
		return err;
	if (mode < 0 || mode > 2)
		return ERR_INVALID_VALUE;
	if (s == t->ctx->legacy)
		return ERR_CAPTURE_UNSUPPORTED;
	if (s->capture)
		return ERR_ILLEGAL_STATE;
	if (into && !object_get(into, KIND_GRAPH))
		return ERR_INVALID_VALUE;
	err = into ? OK : graph_new(KIND_GRAPH, NULL, &gr);
	if (err)
		return err;
	lock(&g.lock);
	s->capture = gr;
	s->capture->captures = 1;
	s->capture->borrowed = into != NULL;
	s->capture_broken = 0;
	s->capture_id = ++captures;
	g.capturing++;
	unlock(&g.lock);
	return OK;
}

static int cuStreamBeginCapture_v2_on(void *dflt, void *s, int mode)
{
	return begin_capture("cuStreamBeginCapture", dflt, s, mode, NULL);
}
TWIN(cuStreamBeginCapture_v2, _ptsz, (void *s, int mode), s, mode)
CU(cuStreamBeginCapture)(void *s)
{
	return cuStreamBeginCapture_v2_on(STREAM_LEGACY, s, 0);
}
CU(cuStreamBeginCapture_ptsz)(void *s)
{
	return cuStreamBeginCapture_v2_on(STREAM_PER_THREAD, s, 0);
}

static int cuStreamEndCapture_on(void *dflt, void *handle, void **out)
{
	struct stream *s;
	struct graph *gr;
	int broken = 0;

	ENTER_AS("cuStreamEndCapture");
	err = stream_find(t, handle, dflt, &s);
	if (err)
		return err;
	if (!s->capture)
		return ERR_ILLEGAL_STATE;
	lock(&g.lock);
	gr = s->capture;
	for (u32 i = 0; i < object_count(KIND_STREAM); i++) { /* joined streams leave too */
		struct stream *o = (void *)object_at(KIND_STREAM, i);

		if (o && o->capture == gr) {
			broken |= (int)o->capture_broken;
			o->capture = NULL;
			o->capture_broken = 0;
			g.capturing--;
		}
	}
	gr->captures = 0;
	if (broken)
		gr->borrowed ? (void)0 : graph_free(gr);
	unlock(&g.lock);
	if (out)
		*out = broken ? NULL : gr;
	return broken ? ERR_CAPTURE_INVALIDATED : OK;
}
TWIN(cuStreamEndCapture, _ptsz, (void *s, void **out), s, out)

static int cuStreamIsCapturing_on(void *dflt, void *handle, int *status)
{
	struct stream *s;

	ENTER_AS("cuStreamIsCapturing");
	err = stream_find(t, handle, dflt, &s);
	if (!err)
		*status = !s->capture ? 0 : s->capture_broken ? 2 : 1;
	return err;
}
TWIN(cuStreamIsCapturing, _ptsz, (void *s, int *status), s, status)

CU(cuThreadExchangeStreamCaptureMode)(int *mode)
{
	int old;

	ENTER;
	if (!mode)
		return ERR_INVALID_VALUE;
	old = t->capture_mode;
	t->capture_mode = *mode;
	*mode = old;
	return OK;
}

static int cuStreamBeginCaptureToGraph_on(void *dflt, void *s, void *graph, const void *deps,
					  const void *edges, size_t n, int mode)
{
	(void)deps, (void)edges, (void)n;
	if (!graph)
		return *g.live ? ERR_INVALID_VALUE : ERR_NOT_INITIALIZED;
	return begin_capture("cuStreamBeginCaptureToGraph", dflt, s, mode, graph);
}
TWIN(cuStreamBeginCaptureToGraph, _ptsz,
     (void *s, void *graph, const void *deps, const void *edges, size_t n, int mode), s, graph,
     deps, edges, n, mode)

/* Reports no dependencies of the next node, since they are not kept. */
static int info(void *dflt, void *handle, int *status, u64 *id, void **graph, size_t *n)
{
	struct stream *s;

	ENTER_AS("cuStreamGetCaptureInfo");
	err = stream_find(t, handle, dflt, &s);
	if (err)
		return err;
	if (!status)
		return ERR_INVALID_VALUE;
	*status = !s->capture ? 0 : s->capture_broken ? 2 : 1;
	if (id && s->capture)
		*id = s->capture_id;
	if (graph)
		*graph = s->capture;
	if (n)
		*n = 0;
	return OK;
}

static int cuStreamGetCaptureInfo_on(void *dflt, void *s, int *status, u64 *id)
{
	return info(dflt, s, status, id, NULL, NULL);
}
TWIN(cuStreamGetCaptureInfo, _ptsz, (void *s, int *status, u64 *id), s, status, id)

static int cuStreamGetCaptureInfo_v2_on(void *dflt, void *s, int *status, u64 *id, void **graph,
					const void **deps, size_t *n)
{
	if (deps)
		*deps = NULL;
	return info(dflt, s, status, id, graph, n);
}
TWIN(cuStreamGetCaptureInfo_v2, _ptsz,
     (void *s, int *status, u64 *id, void **graph, const void **deps, size_t *n), s, status, id,
     graph, deps, n)

static int cuStreamGetCaptureInfo_v3_on(void *dflt, void *s, int *status, u64 *id, void **graph,
					const void **deps, const void **edges, size_t *n)
{
	if (deps)
		*deps = NULL;
	if (edges)
		*edges = NULL;
	return info(dflt, s, status, id, graph, n);
}
TWIN(cuStreamGetCaptureInfo_v3, _ptsz,
     (void *s, int *status, u64 *id, void **graph, const void **deps, const void **edges,
      size_t *n),
     s, status, id, graph, deps, edges, n)
