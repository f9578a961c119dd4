/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs. */
#include "rt.h"

EXPORT int cudaGraphCreate(void **graph, u32 flags)
{
	BEGIN;
	return done(DRV(cuGraphCreate)(graph, flags));
}

EXPORT int cudaGraphDebugDotPrint(void *graph, const char *path, u32 flags)
{
	BEGIN;
	return done(DRV(cuGraphDebugDotPrint)(graph, path, flags));
}

EXPORT int cudaGraphDestroy(void *graph)
{
	BEGIN;
	return done(DRV(cuGraphDestroy)(graph));
}

struct kernel_node_params { /* cudaKernelNodeParams, followed by the driver's extra fields */
	void *func;
	u32 grid[3], block[3], shared;
	void **params, **extra, *kernel, *ctx;
};

/* Fills in the driver's form: the function replaces its host address. */
static int of_kernel(struct kernel_node_params *q, const struct kernel_node_params *p)
{
	if (!p)
		return ERR_INVALID_VALUE;
	memcpy(q, p, offsetof(struct kernel_node_params, kernel));
	q->kernel = q->ctx = NULL;
	q->func = rt_kernel(p->func);
	return q->func ? OK : rt_no_kernel();
}

EXPORT int cudaGraphAddKernelNode(void **node, void *graph, const void *deps, size_t n,
				  const struct kernel_node_params *p)
{
	struct kernel_node_params q;
	int err;

	BEGIN;
	err = of_kernel(&q, p);
	return done(err ? err : DRV(cuGraphAddKernelNode)(node, graph, deps, n, &q));
}

EXPORT int cudaGraphKernelNodeSetParams(void *node, const struct kernel_node_params *p)
{
	struct kernel_node_params q;
	int err;

	BEGIN;
	err = of_kernel(&q, p);
	return done(err ? err : DRV(cuGraphKernelNodeSetParams)(node, &q));
}

EXPORT int cudaGraphExecKernelNodeSetParams(void *exec, void *node,
					    const struct kernel_node_params *p)
{
	struct kernel_node_params q;
	int err;

	BEGIN;
	err = of_kernel(&q, p);
	return done(err ? err : DRV(cuGraphExecKernelNodeSetParams)(exec, node, &q));
}

EXPORT int cudaGraphAddMemcpyNode1D(void **node, void *graph, const void *deps, size_t n, void *dst,
				    const void *src, size_t count, int kind)
{
	struct copy3d c = { .w = count, .h = 1, .depth = 1 };

	BEGIN;
	if (kind < H2H || kind > DEFAULT)
		return rt_fail(ERR_INVALID_DIRECTION);
	if (!dst || !src)
		return rt_fail(ERR_INVALID_VALUE);
	return done(DRV(cuGraphAddMemcpyNode)(node, graph, deps, n, &c, NULL));
}

EXPORT int cudaGraphAddMemsetNode(void **node, void *graph, const void *deps, size_t n,
				  const void *p)
{
	BEGIN;
	return done(DRV(cuGraphAddMemsetNode)(node, graph, deps, n, p, NULL));
}

EXPORT int cudaGraphAddHostNode(void **node, void *graph, const void *deps, size_t n, const void *p)
{
	BEGIN;
	return done(DRV(cuGraphAddHostNode)(node, graph, deps, n, p));
}

EXPORT int cudaGraphAddChildGraphNode(void **node, void *graph, const void *deps, size_t n,
				      void *child)
{
	BEGIN;
	return done(DRV(cuGraphAddChildGraphNode)(node, graph, deps, n, child));
}

EXPORT int cudaGraphClone(void **out, void *graph)
{
	BEGIN;
	return done(DRV(cuGraphClone)(out, graph));
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

/* Three arguments since 12.0; before that five, and four for the update. */
#if CUDART >= 12
EXPORT int cudaGraphInstantiate(void **exec, void *graph, unsigned long long flags)
{
	BEGIN;
	return done(DRV(cuGraphInstantiateWithFlags)(exec, graph, flags));
}

EXPORT int cudaGraphExecUpdate(void *exec, void *graph, void *info)
{
	BEGIN;
	return done(DRV(cuGraphExecUpdate_v2)(exec, graph, info));
}
#else
EXPORT int cudaGraphInstantiate(void **exec, void *graph, void **bad, char *log, size_t len)
{
	BEGIN;
	(void)bad, (void)log, (void)len;
	return done(DRV(cuGraphInstantiateWithFlags)(exec, graph, 0));
}

EXPORT int cudaGraphExecUpdate(void *exec, void *graph, void **bad, int *result)
{
	int err;

	BEGIN;
	(void)bad;
	err = DRV(cuGraphExecUpdate_v2)(exec, graph, NULL);
	if (result)
		*result = err == ERR_EXEC_UPDATE;
	return done(err);
}
#endif

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

EXPORT int cudaGraphExecDestroy(void *exec)
{
	BEGIN;
	return done(DRV(cuGraphExecDestroy)(exec));
}
