/* SPDX-License-Identifier: Apache-2.0 */
/* A clock for benchmarks, independent of any tracer. With INGERO_SIM_STEPS=FILE each step is
 * recorded: from a thread's first call after it waited for a stream to the end of its next
 * such wait. */
#include "gpu.h"

/* The file. Its reader creates it in this size; several processes may share it. */
struct steps {
	u64 count; /* of all steps; only the latest are kept */
	u64 unused;
	struct {
		u64 begin, end; /* ns of CLOCK_MONOTONIC */
	} step[65536];
};

static struct steps *steps;
static _Thread_local u64 begun;

/* Maps the file; reports whether steps are recorded. */
int steps_open(void)
{
	steps = map_env("INGERO_SIM_STEPS", sizeof(*steps));
	return steps != NULL;
}

void step_begin(void)
{
	if (steps && !begun)
		begun = now_ns();
}

void step_end(void)
{
	u64 n;

	if (!steps)
		return;
	n = __atomic_fetch_add(&steps->count, 1, __ATOMIC_RELAXED) % ARRAY_SIZE(steps->step);
	steps->step[n].begin = begun;
	__atomic_store_n(&steps->step[n].end, now_ns(), __ATOMIC_RELEASE);
	begun = 0;
}
