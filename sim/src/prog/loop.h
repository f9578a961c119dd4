/* SPDX-License-Identifier: Apache-2.0 */
/* A loop of steps with one fault of CUDA's in it, or without: see loop.c. */
#ifndef SIM_LOOP_H
#define SIM_LOOP_H

#include "prog.h"

#define MB (1ull << 20)

/* A kind of fault. What is NULL is as in a loop without faults. What is done where faulty()
 * says no is the same work as it should be. */
struct fault {
	const char *name, *help;
	u64 every,
		us; /* one step in so many has it; how long it takes: what the options default to */
	void (*plan)(void); /* settings of the simulated GPU, before the first CUDA call */
	void (*begin)(void); /* before the first step */
	void (*before)(u64 step);
	void (*copy)(u64 step);
	void (*work)(u64 step); /* what is given to the GPU */
	void (*close)(u64 step); /* waits for it */
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
