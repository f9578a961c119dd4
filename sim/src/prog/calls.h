/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations that the program calls offers. */
#ifndef SIM_CALLS_H
#define SIM_CALLS_H

#include "prog.h"

#define CALLS_SHORT                                                                                \
	"launch, malloc, free, mallocasync, memcpy, memcpyasync, d2h, memset, sync, devicesync, "  \
	"eventsync, query, graphlaunch"

struct call_state {
	void *stream, *device, *host, *event, *exec, *kernel;
	u64 size;
};

enum { /* requirements of an operation */
       NEED_STREAM = 1,
       NEED_MEMORY = 2,
       NEED_EVENT = 4,
       NEED_GRAPH = 8,
       NEED_KERNEL = 16,
};

struct call_op {
	const char *symbol, *short_name;
	int (*call)(void *fn, struct call_state *s, u64 i, u64 *sum);
	u32 need;
	const char *undo; /* a second function, also called once per call */
};

const struct call_op *calls_find(const char *name, const char *layer);
const char *calls_symbol(const struct call_op *op, const char *name);
void *calls_open(const struct call_op *op, const char *name, const char *lib);
void calls_set_up(const struct call_op *op, struct call_state *s);
void calls_set_device(void);
void calls_print_also(void);

#endif
