/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: lists of nodes, each with a GPU time, that run one after the other. */
#include "gpu.h"

#define NODE_LAUNCH_NS 50 /* CPU time that each node adds to a graph launch */

/* Appends a node of gpu_ns; returns NULL when there is no room. The caller holds the lock. */
struct node *node_new(struct graph *gr, u64 gpu_ns, struct sim_gate *gate)
{
	struct node *n = (void *)object_new(KIND_NODE);

	if (!n)
		return NULL;
	n->graph = gr;
	n->gpu_ns = gpu_ns;
	if (gr->last)
		gr->last->next = n;
	else
		gr->first = n;
	gr->last = n;
	n->gate = gate;
	gr->gated += gate != NULL;
	gr->nodes++;
	gr->gpu_ns += gpu_ns;
	return n;
}

void graph_free(struct graph *gr)
{
	for (struct node *n = gr->first, *next; n; n = next) {
		next = n->next;
		object_free(&n->o);
	}
	object_free(&gr->o);
}

/* Creates a graph, or a copy of one. */
int graph_new(u32 kind, const struct graph *from, void **out)
{
	struct graph *gr;

	if (!out)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	gr = (void *)object_new(kind);
	for (struct node *n = from ? from->first : NULL; gr && n; n = n->next) {
		struct node *copy = node_new(gr, n->gpu_ns, n->gate);

		if (copy)
			copy->from = n;
		else {
			graph_free(gr);
			gr = NULL;
		}
	}
	if (gr)
		*out = gr;
	unlock(&g.lock);
	return gr ? OK : ERR_OUT_OF_MEMORY;
}

CU(cuGraphClone)(void **out, void *graph)
{
	struct graph *gr = object_get(graph, KIND_GRAPH);

	ENTER;
	return gr ? graph_new(KIND_GRAPH, gr, out) : ERR_INVALID_VALUE;
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
	graph_free(gr);
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

/* Five arguments in CUDA 10 and 11. CUDA 12's form has three, and another name here. */
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

/* Submits the nodes one by one, since some wait for other processes. */
static int submit_gated(struct stream *s, const struct graph *gr)
{
	int err = OK;
	u64 ns = 0;

	for (const struct node *n = gr->first; n && !err; n = n->next) {
		struct sim_gate *gate = n->gate ? n->gate->again(n->gate) : NULL;

		if (!n->gate) {
			ns += n->gpu_ns;
			continue;
		}
		stream_submit(s, 0, ns, NULL);
		ns = 0;
		err = gate ? stream_gate(s, 0, gate, n->gpu_ns) : ERR_INVALID_VALUE;
	}
	return err ? err : stream_submit(s, 0, ns, NULL);
}

static int add_number(struct text *t, u32 v)
{
	char digits[10];
	u32 n = sizeof(digits);

	do
		digits[--n] = (char)('0' + v % 10);
	while (v /= 10);
	return text_add(t, digits + n, sizeof(digits) - n);
}

static int add_string(struct text *t, const char *s)
{
	return text_add(t, s, strlen(s));
}

/* Draws the nodes as they run: one after the other. */
static int draw(struct text *t, const struct graph *gr)
{
	int err = add_string(t, "digraph dot {\n");

	for (u32 i = 0; i < gr->nodes && !err; i++) {
		err = add_string(t, i ? " -> node_" : "node_");
		if (!err)
			err = add_number(t, i);
	}
	return err ? err : add_string(t, gr->nodes ? ";\n}\n" : "}\n");
}

CU(cuGraphDebugDotPrint)(void *graph, const char *path, u32 flags)
{
	struct graph *gr = object_get(graph, KIND_GRAPH);
	struct text t2 = { 0 };
	int fd;

	ENTER;
	(void)flags;
	if (!gr || !path)
		return ERR_INVALID_VALUE;
	err = draw(&t2, gr);
	if (err)
		return err;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, t2.p, t2.len) != (long)t2.len)
		err = ERR_OPERATING_SYSTEM;
	if (fd >= 0)
		close(fd);
	text_free(&t2);
	return err;
}

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
	if (gr->gated && !s->capture) {
		burn(g.cfg.launch_ns);
		return submit_gated(s, gr);
	}
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
		return ERR_EXEC_UPDATE; /* the shape has changed */
	lock(&g.lock);
	for (struct node *to = e->first, *n = gr->first; to && n; to = to->next, n = n->next) {
		to->gpu_ns = n->gpu_ns;
		to->from = n;
	}
	e->gpu_ns = gr->gpu_ns;
	unlock(&g.lock);
	return OK;
}

CU(cuGraphExecUpdate)(void *exec, void *graph, void **bad, int *result)
{
	int err = impl_cuGraphExecUpdate_v2(exec, graph, NULL);

	(void)bad;
	if (result)
		*result = err == ERR_EXEC_UPDATE;
	return err;
}
