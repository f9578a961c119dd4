/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: a graph is a number of nodes and the GPU time that they take together. */
#include "gpu.h"

#define NODE_LAUNCH_NS 50 /* CPU time that each node adds to a graph launch */

static int graph_new(u32 kind, const struct graph *from, void **out)
{
	struct graph *gr;

	if (!out)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	gr = (void *)object_new(kind);
	if (gr && from) {
		gr->nodes = from->nodes;
		gr->gpu_ns = from->gpu_ns;
	}
	unlock(&g.lock);
	*out = gr;
	return gr ? OK : ERR_OUT_OF_MEMORY;
}

static int begin_capture(const char *op, void *dflt, void *handle, int mode)
{
	struct stream *s;
	void *gr;

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
	err = graph_new(KIND_GRAPH, NULL, &gr);
	if (err)
		return err;
	lock(&g.lock);
	s->capture = gr;
	s->capture->captures = 1;
	s->capture_broken = 0;
	g.capturing++;
	unlock(&g.lock);
	return OK;
}

static int cuStreamBeginCapture_v2_on(void *dflt, void *s, int mode)
{
	return begin_capture("cuStreamBeginCapture", dflt, s, mode);
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
	for (u32 i = 0; i < object_count(KIND_STREAM); i++) { /* all that joined leave with it */
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
		object_free(&gr->o);
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

CU(cuGraphCreate)(void **out, u32 flags)
{
	ENTER;
	return flags ? ERR_INVALID_VALUE : graph_new(KIND_GRAPH, NULL, out);
}

static int destroy(void *handle, u32 kind)
{
	struct graph *gr = object_get(handle, kind);

	if (!gr)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	object_free(&gr->o);
	unlock(&g.lock);
	return OK;
}

CU(cuGraphDestroy)(void *handle)
{
	ENTER;
	return destroy(handle, KIND_GRAPH);
}

CU(cuGraphExecDestroy)(void *handle)
{
	ENTER;
	return destroy(handle, KIND_EXEC);
}

static int add_node(void **node, void *graph, u64 gpu_ns)
{
	struct graph *gr = object_get(graph, KIND_GRAPH);

	if (!gr || !node)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	gr->nodes++;
	gr->gpu_ns += gpu_ns;
	*node = (void *)((u64)gr + gr->nodes); /* names the node; nothing looks behind it */
	unlock(&g.lock);
	return OK;
}

CU(cuGraphAddKernelNode_v2)
(void **node, void *graph, const void *deps, size_t n, void *const *params)
{
	struct function *f;

	ENTER;
	(void)deps, (void)n;
	f = params ? function_get(params[0]) : NULL;
	if (!f)
		return ERR_INVALID_VALUE;
	return add_node(node, graph, f->has_ns ? f->kernel_ns : g.cfg.kernel_ns);
}

CU(cuGraphAddKernelNode)(void **node, void *graph, const void *deps, size_t n, void *const *params)
{
	return impl_cuGraphAddKernelNode_v2(node, graph, deps, n, params);
}

CU(cuGraphAddEmptyNode)(void **node, void *graph, const void *deps, size_t n)
{
	ENTER;
	(void)deps, (void)n;
	return add_node(node, graph, 0);
}

CU(cuGraphGetNodes)(void *graph, void **nodes, size_t *n)
{
	struct graph *gr;

	ENTER;
	gr = object_get(graph, KIND_GRAPH);
	if (!gr || !n)
		return ERR_INVALID_VALUE;
	for (size_t i = 0; nodes && i < *n; i++)
		nodes[i] = i < gr->nodes ? (void *)((u64)gr + i + 1) : NULL;
	if (!nodes || *n > gr->nodes)
		*n = gr->nodes;
	return OK;
}

static int instantiate(const char *op, void **exec, void *graph)
{
	struct graph *gr;

	ENTER_AS(op);
	gr = object_get(graph, KIND_GRAPH);
	if (!gr || gr->captures)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns * (1 + gr->nodes));
	return graph_new(KIND_EXEC, gr, exec);
}

/* Five arguments in CUDA 10 and 11; the form of 12 has three and the next name. */
CU(cuGraphInstantiate)(void **exec, void *graph, void **bad, char *log, size_t len)
{
	(void)bad, (void)log, (void)len;
	return instantiate("cuGraphInstantiate", exec, graph);
}

CU(cuGraphInstantiate_v2)(void **exec, void *graph, void **bad, char *log, size_t len)
{
	(void)bad, (void)log, (void)len;
	return instantiate("cuGraphInstantiate", exec, graph);
}

CU(cuGraphInstantiateWithFlags)(void **exec, void *graph, unsigned long long flags)
{
	(void)flags;
	return instantiate("cuGraphInstantiateWithFlags", exec, graph);
}

static int cuGraphInstantiateWithParams_on(void *dflt, void **exec, void *graph, void *params)
{
	(void)dflt, (void)params;
	return instantiate("cuGraphInstantiateWithParams", exec, graph);
}
TWIN(cuGraphInstantiateWithParams, _ptsz, (void **exec, void *graph, void *params), exec, graph,
     params)

static int submit_exec(const char *op, void *dflt, void *exec, void *stream, int run)
{
	struct graph *gr;
	struct stream *s;

	ENTER_AS(op);
	gr = object_get(exec, KIND_EXEC);
	err = stream_find(t, stream, dflt, &s);
	if (!gr || err)
		return gr ? err : ERR_INVALID_VALUE;
	if (!run)
		return stream_submit(s, g.cfg.call_ns, 0, NULL);
	return stream_submit(s, g.cfg.launch_ns ? g.cfg.launch_ns + gr->nodes * NODE_LAUNCH_NS : 0,
			     gr->gpu_ns, NULL);
}

static int cuGraphLaunch_on(void *dflt, void *exec, void *s)
{
	return submit_exec("cuGraphLaunch", dflt, exec, s, 1);
}
TWIN(cuGraphLaunch, _ptsz, (void *exec, void *s), exec, s)

static int cuGraphUpload_on(void *dflt, void *exec, void *s)
{
	return submit_exec("cuGraphUpload", dflt, exec, s, 0);
}
TWIN(cuGraphUpload, _ptsz, (void *exec, void *s), exec, s)

CU(cuGraphExecUpdate_v2)(void *exec, void *graph, void *info)
{
	struct graph *e, *gr;

	ENTER;
	(void)info;
	e = object_get(exec, KIND_EXEC);
	gr = object_get(graph, KIND_GRAPH);
	if (!e || !gr)
		return ERR_INVALID_VALUE;
	if (e->nodes != gr->nodes)
		return 910; /* CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: the shape has changed */
	e->gpu_ns = gr->gpu_ns;
	return OK;
}

CU(cuGraphExecUpdate)(void *exec, void *graph, void **bad, int *result)
{
	int err = impl_cuGraphExecUpdate_v2(exec, graph, NULL);

	(void)bad;
	if (result)
		*result = err == 910;
	return err;
}
