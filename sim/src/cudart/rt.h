/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated runtime. Like the real one, it checks arguments, keeps each thread's last
 * error, and leaves all work to the driver. */
#ifndef SIM_RT_H
#define SIM_RT_H

#include "../driver.h"

#ifndef CUDART
#error "CUDART is the major version"
#endif

/* The driver's functions, one table per default stream: [0] legacy, [1] per thread. */
struct driver {
#define X(name, params) int(*name) params;
	DRIVER_CALLS(X)
#undef X
};

struct dim3 {
	u32 x, y, z;
};

struct rt_thread {
	u32 ready; /* generation whose context is current in the driver */
	int device;
	int last_error;
	int no_kernel; /* reason of rt_kernel()'s NULL; 0 if not registered */
	u32 depth; /* pushed call configurations */
	struct {
		struct dim3 grid, block;
		size_t shared;
		void *stream;
	} config[8];
};

struct rt {
	struct driver drv[2];
	u32 watched;
	u32 no_room; /* memory ran out during registration */
	struct inject inject;
	void *ctx[16];
	int init_error;
	u32 initialised;
	u32 generation; /* incremented by every device reset */
};

extern struct rt rt;
struct rt_thread *rt_self(void);
int rt_begin_slow(struct rt_thread *t, const char *op);
int rt_driver(void);
int rt_fail(int err);
void *rt_kernel(const void *host_fn);
int rt_no_kernel(void);
void *rt_context(int dev);
int rt_variable(const void *host, devptr *p, u64 *size);
void rt_forget_variables(int dev);

/* The start of each call: loads the driver and gives the thread a context. */
static inline int rt_begin(const char *op)
{
	struct rt_thread *t = rt_self();

	if (unlikely(t->ready != rt.generation || rt.watched))
		return rt_begin_slow(t, op);
	return OK;
}

static inline int done(int err)
{
	return likely(!err) ? OK : rt_fail(err);
}

#define BEGIN_AS(op)                                                                               \
	do {                                                                                       \
		int begun = rt_begin(op);                                                          \
		if (unlikely(begun))                                                               \
			return rt_fail(begun);                                                     \
	} while (0)
#define BEGIN BEGIN_AS(__func__)

#define DRV(name) rt.drv[0].name

/* One body, two exports: NAME and NAME_ptsz (or _ptds), which defaults to the per-thread
 * stream. The body gets the driver table of that stream. */
#define TWIN(name, suffix, params, ...)                                                            \
	EXPORT int name params                                                                     \
	{                                                                                          \
		BEGIN;                                                                             \
		return done(name##_on(&rt.drv[0], __VA_ARGS__));                                   \
	}                                                                                          \
	EXPORT int name##suffix params                                                             \
	{                                                                                          \
		BEGIN_AS(#name);                                                                   \
		return done(name##_on(&rt.drv[1], __VA_ARGS__));                                   \
	}

enum { H2H, H2D, D2H, D2D, DEFAULT };

int rt_copy(const struct driver *d, u64 dst, u64 src, size_t n, int kind);
int rt_copy_async(const struct driver *d, u64 dst, u64 src, size_t n, int kind, void *s);
int rt_peers(int dst, int src, void **dctx, void **sctx);

/* Error codes that only the runtime has. */
#define ERR_INVALID_SYMBOL 13
#define ERR_INVALID_CHANNELS 20
#define ERR_INVALID_DIRECTION 21

#endif
