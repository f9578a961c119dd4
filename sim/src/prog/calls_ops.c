/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"
#include "../driver.h"

/* Varies sizes and shapes from call to call, so a sum shows whether every value was right. */
static u64 vary(u64 i)
{
	return i & 1023;
}

static const struct dim3 block = { 64, 2, 1 };
static void *undo_fn;
static u64 undone;
static const char *undo_of;
static char kernel;

#define CALL(name) static int name(void *fn, struct call_state *s, u64 i, u64 *sum)
#define FN(...) ((int (*)(__VA_ARGS__))fn)
#define UNDO(...) ((int (*)(__VA_ARGS__))undo_fn)

static int undo(int err)
{
	__atomic_add_fetch(&undone, 1, __ATOMIC_RELAXED);
	return err;
}

CALL(rt_launch)
{
	struct dim3 grid = { 1 + (u32)vary(i), 2, 1 };

	*sum += grid.x;
	return FN(const void *, struct dim3, struct dim3, void **, size_t,
		  void *)(&kernel, grid, block, NULL, 0, s->stream);
}

struct rt_config { /* cudaLaunchConfig_t */
	struct dim3 grid, block;
	size_t shared;
	void *stream, *attrs;
	u32 n;
};

CALL(rt_launch_ex)
{
	struct rt_config c = { { 1 + (u32)vary(i), 2, 1 }, block, 0, s->stream, NULL, 0 };

	*sum += c.grid.x;
	return FN(const struct rt_config *, const void *, void **)(&c, &kernel, NULL);
}

CALL(drv_launch)
{
	u32 gx = 1 + (u32)vary(i);

	*sum += gx;
	return FN(void *, u32, u32, u32, u32, u32, u32, u32, void *, void **, void **)(
		s->kernel, gx, 2, 1, block.x, block.y, block.z, 0, s->stream, NULL, NULL);
}

CALL(drv_launch_ex)
{
	struct launch_config c = { .grid = { 1 + (u32)vary(i), 2, 1 },
				   .block = { 64, 2, 1 },
				   .stream = s->stream };

	*sum += c.grid[0];
	return FN(const struct launch_config *, void *, void **, void **)(&c, s->kernel, NULL,
									  NULL);
}

/* Allocates and frees, in either layer: cudaMalloc and cuMemAlloc_v2 have the same form. */
CALL(alloc)
{
	void *p = NULL;
	u64 n = s->size + vary(i);
	int err = FN(void **, size_t)(&p, n);

	*sum += n;
	if (!err)
		undo(UNDO(void *)(p));
	return err;
}

CALL(alloc_flags)
{
	void *p = NULL;
	u64 n = s->size + vary(i);
	int err = FN(void **, size_t, u32)(&p, n, 1);

	*sum += n;
	if (!err)
		undo(UNDO(void *)(p));
	return err;
}

CALL(alloc_async)
{
	void *p = NULL;
	u64 n = s->size + vary(i);
	int err = FN(void **, size_t, void *)(&p, n, s->stream);

	*sum += n;
	if (!err)
		undo(UNDO(void *, void *)(p, s->stream));
	return err;
}

/* The reverse: counts the free; the allocation before it is the undo call. */
CALL(release)
{
	void *p = NULL;

	*sum += s->size + vary(i);
	if (undo(UNDO(void **, size_t)(&p, s->size + vary(i))))
		return -1;
	return FN(void *)(p);
}

#define COPY(name, dst, src, kind)                                                                 \
	CALL(name)                                                                                 \
	{                                                                                          \
		*sum += s->size + vary(i);                                                         \
		return FN(void *, void *, size_t, int)(s->dst, s->src, s->size + vary(i), kind);   \
	}                                                                                          \
	CALL(name##_async)                                                                         \
	{                                                                                          \
		*sum += s->size + vary(i);                                                         \
		return FN(void *, void *, size_t, int, void *)(s->dst, s->src, s->size + vary(i),  \
							       kind, s->stream);                   \
	}
COPY(rt_h2d, device, host, H2D)
COPY(rt_d2h, host, device, D2H)

#define DRV_COPY(name, dst, src)                                                                   \
	CALL(name)                                                                                 \
	{                                                                                          \
		*sum += s->size + vary(i);                                                         \
		return FN(void *, void *, size_t)(s->dst, s->src, s->size + vary(i));              \
	}                                                                                          \
	CALL(name##_async)                                                                         \
	{                                                                                          \
		*sum += s->size + vary(i);                                                         \
		return FN(void *, void *, size_t, void *)(s->dst, s->src, s->size + vary(i),       \
							  s->stream);                              \
	}
DRV_COPY(drv_h2d, device, host)
DRV_COPY(drv_d2h, host, device)
DRV_COPY(drv_d2d, device, device)

CALL(set)
{
	*sum += s->size + vary(i);
	return FN(void *, int, size_t)(s->device, (int)vary(i) & 255, s->size + vary(i));
}

CALL(set_async)
{
	*sum += s->size + vary(i);
	return FN(void *, int, size_t, void *)(s->device, (int)vary(i) & 255, s->size + vary(i),
					       s->stream);
}

#define WITH(name, object)                                                                         \
	CALL(name)                                                                                 \
	{                                                                                          \
		(void)i, (void)sum;                                                                \
		return FN(void *)(s->object);                                                      \
	}
WITH(on_stream, stream)
WITH(on_event, event)

CALL(on_device)
{
	(void)s, (void)i, (void)sum;
	return FN(void)();
}

CALL(graph_launch)
{
	(void)i, (void)sum;
	return FN(void *, void *)(s->exec, s->stream);
}

#define M (NEED_STREAM | NEED_MEMORY)
#define K (NEED_STREAM | NEED_KERNEL)
static const struct call_op ops[] = {
	{ "cudaLaunchKernel", "launch", rt_launch, K, NULL },
	{ "__cudaLaunchKernel", "", rt_launch, K, NULL },
	{ "cudaLaunchKernelExC", "", rt_launch_ex, K, NULL },
	{ "cudaLaunchCooperativeKernel", "", rt_launch, K, NULL },
	{ "cudaMalloc", "malloc", alloc, 0, "cudaFree" },
	{ "cudaFree", "free", release, 0, "cudaMalloc" },
	{ "cudaMallocHost", "", alloc, 0, "cudaFreeHost" },
	{ "cudaHostAlloc", "", alloc_flags, 0, "cudaFreeHost" },
	{ "cudaMallocManaged", "", alloc_flags, 0, "cudaFree" },
	{ "cudaMallocAsync", "mallocasync", alloc_async, NEED_STREAM, "cudaFreeAsync" },
	{ "cudaMemcpy", "memcpy", rt_h2d, M, NULL },
	{ "cudaMemcpyAsync", "memcpyasync", rt_h2d_async, M, NULL },
	{ "cudaMemcpyAsync", "d2h", rt_d2h_async, M, NULL },
	{ "cudaMemcpy", "d2hsync", rt_d2h, M, NULL },
	{ "cudaMemset", "memset", set, M, NULL },
	{ "cudaMemsetAsync", "", set_async, M, NULL },
	{ "cudaStreamSynchronize", "sync", on_stream, NEED_STREAM, NULL },
	{ "cudaStreamQuery", "query", on_stream, NEED_STREAM, NULL },
	{ "cudaDeviceSynchronize", "devicesync", on_device, 0, NULL },
	{ "cudaEventSynchronize", "eventsync", on_event, NEED_STREAM | NEED_EVENT, NULL },
	{ "cudaGraphLaunch", "graphlaunch", graph_launch, K | NEED_GRAPH, NULL },
	{ "cuLaunchKernel", "launch", drv_launch, K, NULL },
	{ "cuLaunchKernelEx", "", drv_launch_ex, K, NULL },
	{ "cuMemAlloc_v2", "malloc", alloc, 0, "cuMemFree_v2" },
	{ "cuMemFree_v2", "free", release, 0, "cuMemAlloc_v2" },
	{ "cuMemAllocAsync", "mallocasync", alloc_async, NEED_STREAM, "cuMemFreeAsync" },
	{ "cuMemcpyHtoD_v2", "memcpy", drv_h2d, M, NULL },
	{ "cuMemcpyHtoDAsync_v2", "memcpyasync", drv_h2d_async, M, NULL },
	{ "cuMemcpyDtoH_v2", "", drv_d2h, M, NULL },
	{ "cuMemcpyDtoHAsync_v2", "d2h", drv_d2h_async, M, NULL },
	{ "cuMemcpyDtoD_v2", "", drv_d2d, M, NULL },
	{ "cuMemcpyDtoDAsync_v2", "", drv_d2d_async, M, NULL },
	{ "cuMemsetD8_v2", "memset", set, M, NULL },
	{ "cuMemsetD8Async", "", set_async, M, NULL },
	{ "cuStreamSynchronize", "sync", on_stream, NEED_STREAM, NULL },
	{ "cuStreamQuery", "query", on_stream, NEED_STREAM, NULL },
	{ "cuCtxSynchronize", "devicesync", on_device, 0, NULL },
	{ "cuEventSynchronize", "eventsync", on_event, NEED_STREAM | NEED_EVENT, NULL },
	{ "cuGraphLaunch", "graphlaunch", graph_launch, K | NEED_GRAPH, NULL },
};

static int is_driver(const struct call_op *op)
{
	return !strncmp(op->symbol, "cu", 2) && strncmp(op->symbol, "cuda", 4);
}

/* A symbol may end in _ptsz or _ptds: the same call on the thread's own default stream. */
static int names(const struct call_op *op, const char *name)
{
	size_t n = strlen(op->symbol);

	return !strncmp(op->symbol, name, n) &&
	       (!name[n] || !strcmp(name + n, "_ptsz") || !strcmp(name + n, "_ptds"));
}

const struct call_op *calls_find(const char *name, const char *layer)
{
	int driver = !strcmp(layer, "driver");

	for (u32 i = 0; i < ARRAY_SIZE(ops); i++)
		if (names(&ops[i], name) ||
		    (*name && !strcmp(ops[i].short_name, name) && is_driver(&ops[i]) == driver))
			return &ops[i];
	return NULL;
}

const char *calls_symbol(const struct call_op *op, const char *name)
{
	return names(op, name) ? name : op->symbol;
}

static void *runtime, *driver;
static u64 made_devices, made_streams, made_events, made_records, made_graphs, made_mallocs,
	made_host, captured;

static void *must(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		die(name, 1);
	return p;
}

#define RT(name) ((__typeof__(name) *)must(runtime, #name))

void *calls_open(const struct call_op *op, const char *name, const char *lib)
{
	void *from;

	runtime = dlopen(lib ? lib : "libcudart.so.12", RTLD_NOW);
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!runtime || !driver)
		die(dlerror(), 1);
	from = is_driver(op) ? driver : runtime;
	if (op->undo)
		undo_fn = must(from, op->undo);
	RT(__cudaRegisterFunction)
	(RT(__cudaRegisterFatBinary)("simulated"), &kernel, NULL, "counted_kernel", -1, NULL, NULL,
	 NULL, NULL, NULL);
	return must(from, calls_symbol(op, name));
}

static void *driver_kernel(void)
{
	int (*load)(void **, const void *) = must(driver, "cuModuleLoadData");
	int (*get)(void **, void *, const char *) = must(driver, "cuModuleGetFunction");
	void *mod, *f;

	check("cuModuleLoadData", load(&mod, "simulated"));
	check("cuModuleGetFunction", get(&f, mod, "counted_kernel"));
	return f;
}

/* Each thread that makes driver calls needs a current context; the runtime sets it. */
void calls_set_device(void)
{
	check("cudaSetDevice", RT(cudaSetDevice)(0));
	__atomic_add_fetch(&made_devices, 1, __ATOMIC_RELAXED);
}

void calls_set_up(const struct call_op *op, struct call_state *s)
{
	calls_set_device();
	if (op->need & NEED_STREAM) {
		check("cudaStreamCreate", RT(cudaStreamCreate)(&s->stream));
		made_streams++;
	}
	if (op->need & NEED_MEMORY) {
		check("cudaMalloc", RT(cudaMalloc)(&s->device, s->size + 4096));
		check("cudaMallocHost", RT(cudaMallocHost)(&s->host, s->size + 4096));
		made_mallocs++;
		made_host++;
	}
	if (op->need & NEED_EVENT) {
		check("cudaEventCreate", RT(cudaEventCreate)(&s->event));
		check("cudaEventRecord", RT(cudaEventRecord)(s->event, s->stream));
		made_events++;
	}
	if (op->need & NEED_KERNEL)
		s->kernel = driver_kernel();
	if (op->need & NEED_GRAPH) {
		void *graph;

		check("cudaStreamBeginCapture", RT(cudaStreamBeginCapture)(s->stream, 0));
		check("cudaLaunchKernel",
		      RT(cudaLaunchKernel)(&kernel, block, block, NULL, 0, s->stream));
		check("cudaStreamEndCapture", RT(cudaStreamEndCapture)(s->stream, &graph));
		check("cudaGraphInstantiate", RT(cudaGraphInstantiate)(&s->exec, graph, 0));
		made_graphs++;
	}
	made_records = made_events;
	captured = made_graphs;
	undo_of = op->undo;
}

void calls_print_also(void)
{
	const struct {
		const char *name;
		u64 n;
	} also[] = {
		{ "cudaSetDevice", made_devices },
		{ "cudaStreamCreate", made_streams },
		{ "cudaMalloc", made_mallocs },
		{ "cudaMallocHost", made_host },
		{ "cudaEventCreate", made_events },
		{ "cudaEventRecord", made_records },
		{ "cudaGraphInstantiate", made_graphs },
		{ "cudaLaunchKernel", captured },
		{ undo_of, undone },
	};
	const char *comma = "";

	for (u32 i = 0; i < ARRAY_SIZE(also); i++)
		if (also[i].n) {
			printf("%s\"%s\":%llu", comma, also[i].name, (unsigned long long)also[i].n);
			comma = ",";
		}
}
