/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulated libcuda and libnccl share: a kernel that ends when others have
 * come to theirs. The first parameter of a function marked by simGate is such a gate. */
#ifndef SIM_GATE_H
#define SIM_GATE_H

#include "base.h"

struct sim_gate {
	/* Told at every look when the kernel begins on its GPU; says in *all when the last
	 * has come, if it has: then it returns 1, and the gate is never looked at again. It
	 * is called with libcuda's lock held and makes no CUDA call. */
	int (*look)(struct sim_gate *g, u64 begin, u64 *all);
	/* In a stream capture the gate goes to the graph and is never looked at: each launch of
	 * the graph takes a new one of it. NULL: there is none any more. */
	struct sim_gate *(*again)(struct sim_gate *g);
	const u32 *word; /* shared; changes whenever somebody comes */
};

#endif
