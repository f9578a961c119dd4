/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated GPU. There is no GPU thread: each stream knows when its last work will be
 * done, and a caller that waits for the stream waits until that time. */
#ifndef SIM_GPU_H
#define SIM_GPU_H

#include "../driver.h"
#include "../gate.h"
#include "image.h"

#define MAX_DEVICES 16
#define MAX_STREAMS 16384
#define MAX_EVENTS 65536
#define MAX_GRAPHS 16384
#define MAX_NODES (1 << 20)
#define MAX_CONTEXTS 64
#define MAX_FUNCTIONS (1 << 17)
#define MAX_MODULES 16384
#define MAX_QUEUE 1024
#define UNKNOWN (~0ull)
#define MAX_REGISTERED 1024
#define MAX_RANGES 4096
#define MAX_PHYSICAL 65536
#define LIMITS 7 /* CU_LIMIT_* */
#define LEAST_PRIORITY 0
#define GREATEST_PRIORITY (-5)
#define POOL_HANDLE_BASE 0x1000

struct config {
	u64 kernel_ns; /* GPU time of a kernel */
	u64 launch_ns; /* CPU time of a launch */
	u64 call_ns; /* CPU time of any other call */
	u64 copy_ns; /* GPU time of a copy of no bytes */
	u64 copy_mbps; /* 10^6 bytes/s, pinned and device memory; 0: no time */
	u64 pageable_mbps; /* the same, for the CPU's part of pageable copies */
	u64 mem; /* memory of each device, bytes */
	u32 devices;
	u32 sched; /* SCHED_*, when the program sets none */
	u32 queue; /* launches that a stream holds before the next one waits */
};

enum {
	KIND_CONTEXT = 0x43,
	KIND_STREAM,
	KIND_EVENT,
	KIND_FUNCTION,
	KIND_MODULE,
	KIND_GRAPH,
	KIND_EXEC,
	KIND_POOL,
	KIND_LIBRARY,
	KIND_KERNEL,
	KIND_ARRAY,
	KIND_RANGE,
	KIND_PHYSICAL,
	KIND_MAPPING,
	KIND_NODE,
	KIND_LINK,
	KIND_DEAD_POOL /* destroyed, but allocations remain */
};

/* A time on the GPU, which may depend on kernels that wait for other processes: not before
 * `at`, nor before `plus` ns after the end of each of those kernels. */
struct term {
	u64 gate, plus;
};

struct when {
	u64 at;
	u32 n, pad;
	struct term term[4];
};

struct graph {
	struct object o;
	u32 nodes;
	u32 captures; /* streams that record into it */
	u32 borrowed; /* the capture records into the program's own graph */
	u32 gated; /* nodes that wait for other processes */
	u64 gpu_ns; /* GPU time of one launch */
	struct node *first, *last;
};

/* A node of a graph or of an executable graph. In the latter, `from` is the graph's node. */
struct node {
	struct object o;
	struct graph *graph;
	struct node *next, *from;
	u64 gpu_ns;
	struct sim_gate *gate; /* for a kernel that waits for other processes */
};

struct host_call {
	host_fn fn;
	void *data;
	struct when at;
};

struct stream {
	struct object o;
	struct context *ctx;
	u32 flags;
	int priority;
	u32 head; /* next slot of ends */
	struct when until; /* when the last work is done */
	struct graph *capture;
	u64 capture_id;
	u32 capture_broken;
	u32 n_host, host_cap;
	struct host_call *host; /* host functions to run, in order */
	u64 ends[MAX_QUEUE]; /* end times; UNKNOWN after a kernel that waits for others */
};

struct event {
	struct object o;
	u32 flags;
	u32 recorded;
	struct when at; /* when the work before it is done */
	struct graph *capture;
};

/* A module belongs to a context, also one that a context creates from a library. */
struct module {
	struct object o;
	struct context *ctx;
	struct library *library; /* the library it was created from and is freed with */
	struct text names; /* its kernels, one a line */
	int any; /* it has a kernel of every name */
};

struct library {
	struct object o;
	struct text names;
	int any;
	struct module *module[MAX_CONTEXTS]; /* by context, created on first use */
};

#define NAME_LEN 512 /* C++ names are long; longer ones are truncated */

/* A CUfunction (of a module) or a CUkernel (of a library). */
struct function {
	struct object o;
	struct object *of; /* owner: module or library */
	struct context *ctx; /* context of a CUfunction */
	struct function *next; /* next entry of the same hash */
	u64 kernel_ns;
	u32 has_ns; /* kernel_ns comes from the name */
	u32 gated; /* it waits for other processes: see gate.h */
	char name[NAME_LEN];
};

struct pool {
	struct object o;
	u32 dev;
	int reuse[3];
	u64 threshold, used, high;
};

struct context {
	struct object o;
	u32 device;
	u32 flags; /* SCHED_* */
	u32 refs; /* from cuCtxCreate and cuCtxAttach; 0 for a primary context */
	u32 cache, banks;
	u64 limit[LIMITS];
	struct when legacy_until; /* end of the legacy default stream */
	struct when blocking_until; /* latest end of the blocking streams */
	struct when all_until; /* latest end of all streams */
	struct stream *legacy;
};

struct array {
	struct object o;
	struct context *ctx;
	u64 addr;
	u64 w, h, depth;
	u32 format, channels, flags, pad;
};

/* Addresses that were reserved, or at which another process's memory was opened. */
struct range {
	struct object o;
	u64 from, len;
	u64 base, base_len; /* what mmap returned, before alignment */
	u64 ipc; /* the address in the process that owns it, or 0 */
};

/* Physical memory: freed when its handle and all its mappings are gone. */
struct physical {
	struct object o;
	u64 size;
	u32 dev;
	u32 handles, maps;
};

struct mapping {
	struct object o;
	u64 from, len;
	struct physical *of;
	u32 access;
};

/* Families of allocations. The first five use device memory. */
enum {
	FAM_DEVICE,
	FAM_POOL,
	FAM_MANAGED,
	FAM_ARRAY,
	FAM_PHYSICAL,
	FAM_PINNED,
	FAM_REGISTERED,
	FAM_GLOBAL, /* variables of modules: addresses that are not counted */
	FAMILIES = FAM_GLOBAL
};

struct device {
	u32 physical; /* machine-wide index; CUDA_VISIBLE_DEVICES selects and orders */
	u32 pad;
	struct sim_memory all, family[FAMILIES];
	struct pool pool; /* the default pool */
	struct pool *current; /* source of stream-ordered allocations */
	struct context *primary;
	u32 primary_refs;
	u32 primary_flags;
};

struct thread {
	struct context *ctx;
	struct context *stack[8];
	u32 depth;
	int capture_mode;
	u64 next_ns; /* GPU time of the thread's next kernel, if not 0 */
	struct stream *per_thread;
	struct context *per_thread_ctx;
};

struct gpu {
	const volatile u32 *live; /* 1 after cuInit; Linux zeroes it in a forked child */
	u32 watched; /* failures planned, hook set, steps recorded, or context lost */
	u32 capturing; /* streams in capture */
	u32 host_calls; /* host functions not yet run */
	int lost; /* sticky error */
	int device_count;
	struct config cfg;
	struct lock lock;
	struct device dev[MAX_DEVICES];
	struct inject inject;
	call_hook hook;
	int pid; /* the process that called cuInit */
	int poll_pid; /* Linux without MADV_WIPEONFORK: compare the pid */
};

extern struct gpu g;
struct thread *thread_self(void);
int watch(const char *op);

/* The start of every call. It costs a few nanoseconds in the usual case. */
static inline int enter(const char *op, struct thread **t)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	*t = thread_self();
	if (unlikely(g.watched)) {
		int e = watch(op);

		if (e)
			return e;
	}
	if (unlikely(!(*t)->ctx))
		return ERR_INVALID_CONTEXT;
	return likely((*t)->ctx->o.kind == KIND_CONTEXT) ? OK : ERR_CONTEXT_DESTROYED;
}

/* The exported stub NAME jumps to impl_NAME. */
#define CU(name) CUresult impl_##name
#define ENTER_AS(name)                                                                             \
	struct thread *t;                                                                          \
	int err = enter(name, &t);                                                                 \
	if (unlikely(err))                                                                         \
	return err
#define ENTER ENTER_AS(&__func__[5])

/* One body, two exports: the plain name, and the one that defaults to the per-thread
 * stream. The body is a static function NAME_on with the default stream first. */
#define TWIN(name, suffix, params, ...)                                                            \
	CUresult impl_##name params                                                                \
	{                                                                                          \
		return name##_on(STREAM_LEGACY, __VA_ARGS__);                                      \
	}                                                                                          \
	CUresult impl_##name##suffix params                                                        \
	{                                                                                          \
		return name##_on(STREAM_PER_THREAD, __VA_ARGS__);                                  \
	}

#define DRIVER_VERSION 13000

/* The device: compute capability 8.0. */
#define MULTIPROCESSORS 108
#define MAX_BLOCK 1024 /* threads */
#define MAX_BLOCKS 32 /* per multiprocessor */
#define MAX_THREADS 2048
#define SM_REGISTERS 65536
#define SM_SHARED 167936
#define SHARED_OPTIN 166912 /* per block */
#define RESERVED_SHARED 1024

int device_check(int dev);
int devices_visible(void);
void burn(u64 ns);
void wait_until(u64 until, u32 sched);
void when_join(struct when *to, const struct when *with);
int when_known(struct when *w);
int when_past(struct when *w);
void when_plus(struct when *w, u64 ns);
void wait_known(struct when *w, u32 sched);
void wait_when(struct when w, u32 sched);
int gate_new(struct sim_gate *from, const struct when *start, u64 *id);
u32 sched_of(const struct context *ctx);
u64 copy_gpu_ns(u64 bytes);

struct object *object_new(u32 kind);
void object_free(struct object *o);
void *object_get(const void *handle, u32 kind);
struct object *object_at(u32 kind, u32 index);
u32 object_count(u32 kind);

/* Returns a function that can be launched: a CUfunction, or a CUkernel used as one. */
static inline struct function *function_get(const void *handle)
{
	struct function *f = object_get(handle, KIND_FUNCTION);

	return likely(f != NULL) ? f : object_get(handle, KIND_KERNEL);
}

int stream_find(struct thread *t, void *handle, void *dflt, struct stream **out);
int steps_open(void);
void step_begin(void);
void step_end(void);
void share_open(void);
u64 share_turn(u32 device, u64 start, u64 ns);
int stream_submit(struct stream *s, u64 host_ns, u64 gpu_ns, struct when *end);
int stream_gate(struct stream *s, u64 host_ns, struct sim_gate *gate, u64 gpu_ns);
struct when stream_end(struct stream *s);
int stream_wait(struct stream *s, u32 sched);
int context_wait(struct context *ctx);
void run_host_calls(struct stream *s);
void stream_free(struct stream *s);
struct node *node_new(struct graph *gr, u64 gpu_ns, struct sim_gate *gate);
int graph_new(u32 kind, const struct graph *from, void **out);
void graph_free(struct graph *gr);
int add_node(void **node, void *graph, u64 gpu_ns);
void functions_forget(const struct object *of);
void limits_init(struct context *ctx);
int mem_host_flags(u64 p, u32 *flags);
CUresult impl_cuCtxDestroy_v2(void *ctx);
void modules_forget(const struct context *ctx);
void arrays_forget(const struct context *ctx);
CUresult impl_cuModuleGetGlobal_v2(devptr *p, size_t *n, void *mod, const char *name);
CUresult impl_cuModuleGetFunction(void **out, void *mod, const char *name);
struct pool *pool_get(const void *handle);

/* Kinds of memory; the region of a pointer decides its kind. */
enum { MEM_PAGEABLE, MEM_DEVICE, MEM_PINNED, MEM_MANAGED };
int mem_kind(u64 p);
void mem_init(void);
int mem_count(u32 family, u32 dev, u64 size);
void mem_uncount(u32 family, u32 dev, u64 size);
int mem_alloc(u32 family, struct context *ctx, struct pool *pool, u64 size, u64 *out);
void mem_set_flags(u64 p, u32 flags);
int mem_free(u32 families, u64 p);
u64 mem_size(u64 p);
int mem_device(u64 p);
int mem_check(u64 p, u64 n);
void mem_forget(const struct context *ctx);
int range_has(u64 p);
u64 copy_end(u32 type, const void *host, devptr device, const void *array);
int copy_call(const char *op, void *dflt, void *stream, u64 dst, u64 src, u64 n, int async);

#define FREES(family) (1u << (family))

#endif
