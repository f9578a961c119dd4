/* SPDX-License-Identifier: Apache-2.0 */
/* Graph nodes. Their dependencies are not kept. */
#include "gpu.h"

int add_node(void **node, void *graph, u64 gpu_ns)
{
	struct graph *gr = object_get(graph, KIND_GRAPH);
	struct node *n;

	if (!gr || !node)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	n = node_new(gr, gpu_ns, NULL);
	unlock(&g.lock);
	if (!n)
		return ERR_OUT_OF_MEMORY;
	*node = n;
	return OK;
}

/* CUDA_KERNEL_NODE_PARAMS begins with the function. The second form may have a CUkernel
 * instead, after the parameters. */
static struct function *kernel_of(void *const *params)
{
	struct function *f = params ? function_get(params[0]) : NULL;

	return f || !params || params[0] ? f : object_get(params[6], KIND_KERNEL);
}

static u64 time_of(const struct function *f)
{
	return f->has_ns ? f->kernel_ns : g.cfg.kernel_ns;
}

#define ADD void **node, void *graph, const void *deps, size_t n_deps
#define UNUSED (void)deps, (void)n_deps

CU(cuGraphAddKernelNode_v2)(ADD, void *const *params)
{
	struct function *f;

	ENTER;
	UNUSED;
	f = kernel_of(params);
	return f ? add_node(node, graph, time_of(f)) : ERR_INVALID_VALUE;
}

CU(cuGraphAddKernelNode)(ADD, void *const *params)
{
	struct function *f;

	ENTER;
	UNUSED;
	f = params ? function_get(params[0]) : NULL;
	return f ? add_node(node, graph, time_of(f)) : ERR_INVALID_VALUE;
}

CU(cuGraphAddEmptyNode)(ADD)
{
	ENTER;
	UNUSED;
	return add_node(node, graph, 0);
}

CU(cuGraphAddMemcpyNode)(ADD, const struct copy3d *c, void *ctx)
{
	ENTER;
	UNUSED, (void)ctx;
	return c ? add_node(node, graph, copy_gpu_ns(c->w * c->h * c->depth)) : ERR_INVALID_VALUE;
}

struct memset_params { /* CUDA_MEMSET_NODE_PARAMS */
	devptr dst;
	size_t pitch;
	u32 value, size;
	size_t w, h;
};

CU(cuGraphAddMemsetNode)(ADD, const struct memset_params *p, void *ctx)
{
	ENTER;
	UNUSED, (void)ctx;
	return p ? add_node(node, graph, copy_gpu_ns(p->w * p->h * p->size)) : ERR_INVALID_VALUE;
}

CU(cuGraphAddHostNode)(ADD, void *const *params)
{
	ENTER;
	UNUSED;
	return params && params[0] ? add_node(node, graph, 0) : ERR_INVALID_VALUE;
}

CU(cuGraphAddChildGraphNode)(ADD, void *child)
{
	const struct graph *c = object_get(child, KIND_GRAPH);

	ENTER;
	UNUSED;
	return c ? add_node(node, graph, c->gpu_ns) : ERR_INVALID_VALUE;
}

/* An event's place in a graph: takes no time. */
CU(cuGraphAddEventRecordNode)(ADD, void *event)
{
	ENTER;
	UNUSED;
	return object_get(event, KIND_EVENT) ? add_node(node, graph, 0) : ERR_INVALID_VALUE;
}

CU(cuGraphAddEventWaitNode)(ADD, void *event)
{
	ENTER;
	UNUSED;
	return object_get(event, KIND_EVENT) ? add_node(node, graph, 0) : ERR_INVALID_VALUE;
}

CU(cuGraphGetNodes)(void *graph, void **nodes, size_t *n)
{
	const struct graph *gr;
	size_t i = 0;

	ENTER;
	gr = object_get(graph, KIND_GRAPH);
	if (!gr || !n)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	for (struct node *p = gr->first; nodes && i < *n; i++, p = p ? p->next : NULL)
		nodes[i] = p;
	if (!nodes || *n > gr->nodes)
		*n = gr->nodes;
	unlock(&g.lock);
	return OK;
}

static int set_params(struct node *n, void *const *params)
{
	const struct function *f = kernel_of(params);

	if (!n || !f)
		return ERR_INVALID_VALUE;
	n->graph->gpu_ns += time_of(f) - n->gpu_ns;
	n->gpu_ns = time_of(f);
	return OK;
}

CU(cuGraphKernelNodeSetParams_v2)(void *node, void *const *params)
{
	ENTER;
	return set_params(object_get(node, KIND_NODE), params);
}

CU(cuGraphKernelNodeSetParams)(void *node, void *const *params)
{
	ENTER;
	return set_params(object_get(node, KIND_NODE), params);
}

/* Finds the executable graph's node that was created from a graph's node. */
static int set_exec_params(void *exec, void *node, void *const *params)
{
	struct graph *e = object_get(exec, KIND_EXEC);
	struct node *n = e ? e->first : NULL;

	while (n && n->from != node)
		n = n->next;
	return set_params(n, params);
}

CU(cuGraphExecKernelNodeSetParams_v2)(void *exec, void *node, void *const *params)
{
	ENTER;
	burn(g.cfg.call_ns);
	return set_exec_params(exec, node, params);
}

CU(cuGraphExecKernelNodeSetParams)(void *exec, void *node, void *const *params)
{
	ENTER;
	burn(g.cfg.call_ns);
	return set_exec_params(exec, node, params);
}
