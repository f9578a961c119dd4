/* SPDX-License-Identifier: Apache-2.0 */
/* A loop of steps with one CUDA fault in it, or without: see loop.c. */
#ifndef SIM_LOOP_H
#define SIM_LOOP_H

#include "prog.h"

#define MB (1ull << 20)

/* A kind of fault. A NULL function means the default of a loop without faults. Where
 * faulty() is false, the functions do the same work without the fault. */
struct fault {
	const char *name, *help;
	u64 every, us; /* defaults: one step in `every` has the fault; how long it takes */
	void (*plan)(void); /* sets up the simulated GPU before the first CUDA call */
	void (*begin)(void); /* before the first step */
	void (*before)(u64 step);
	void (*copy)(u64 step);
	void (*work)(u64 step); /* enqueues work on the GPU */
	void (*close)(u64 step); /* waits for that work */
	void (*after)(u64 step);
};

extern const struct fault memory_faults[], copy_faults[], graph_faults[], error_faults[];
extern u64 every, delay_us, batch, launches, dispatch_us, seed;
extern void *stream, *device, *pinned, *host;
extern const struct dim3 grid_of_all, block_of_all;
extern char kernel_loop;

int ever(void);
int faulty(void);
int hit(u64 step);
void slow(const char *op, u64 from, u64 each, u64 us, u64 healthy_us);
void lock_in_driver(const char *op);
void setting(const char *name, const char *value);
void launch_all(u64 n);
void copy_batch(u64 step);
void sync_stream(u64 step);
u64 begin_loss(void);
void end_loss(u64 since);
int counted(int err);
void *device_alloc(size_t n);

#endif
