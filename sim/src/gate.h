/* SPDX-License-Identifier: Apache-2.0 */
/* Interface between the simulated libcuda and libnccl: kernels that end once those of other
 * ranks have begun. The first parameter of a function marked by simGate is such a gate. */
#ifndef SIM_GATE_H
#define SIM_GATE_H

#include "base.h"

struct sim_gate {
	/* Called at every look with the time at which the kernel begins on its GPU. If the last
	 * kernel has begun, it sets *all to that time and returns 1, and is never called again.
	 * It runs with libcuda's lock held and makes no CUDA call. */
	int (*look)(struct sim_gate *g, u64 begin, u64 *all);
	/* In a stream capture the gate goes to the graph, and look is not called. Each launch of
	 * the graph gets a new gate from here. Returns NULL if the communicator is gone. */
	struct sim_gate *(*again)(struct sim_gate *g);
	const u32 *word; /* shared; changes whenever a rank arrives */
};

#endif
