/* SPDX-License-Identifier: Apache-2.0 */
/* Exact counts for tests. With INGERO_SIM_COUNTS=FILE, each call is counted by function and
 * each launch by kernel. Compiled into libcuda and libcudart: a runtime call and the driver
 * call inside it are both counted. */
#include "base.h"

/* An entry of the file. The reader of the file creates it with COUNTS entries; several
 * processes may share it. */
struct counted {
	u32 state; /* 0 free, 1 the name is being written, 2 in use */
	u32 pad;
	u64 n;
	char name[496]; /* truncated */
};

#define COUNTS 8192
static struct counted *counts;

/* Maps the file; reports whether calls are counted. */
int counts_open(void)
{
	counts = map_env("INGERO_SIM_COUNTS", COUNTS * sizeof(*counts));
	return counts != NULL;
}

/* Claims the entry if it is free; reports whether it belongs to the name. */
static int is_of(struct counted *c, const char *name, size_t n)
{
	u32 state = 0;

	if (__atomic_compare_exchange_n(&c->state, &state, 1, 0, __ATOMIC_ACQUIRE,
					__ATOMIC_ACQUIRE)) {
		memcpy(c->name, name, n);
		__atomic_store_n(&c->state, 2, __ATOMIC_RELEASE);
		return 1;
	}
	while (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == 1)
		cpu_relax();
	return !strncmp(c->name, name, n) && !c->name[n];
}

void counts_add(const char *name)
{
	u32 hash = 2166136261u;
	size_t n = 0;

	if (!counts)
		return;
	for (; name[n] && n < sizeof(counts->name) - 1; n++)
		hash = (hash ^ (u8)name[n]) * 16777619u;
	for (u32 i = 0; i < COUNTS; i++) {
		struct counted *c = &counts[(hash + i) % COUNTS];

		if (is_of(c, name, n)) {
			__atomic_fetch_add(&c->n, 1, __ATOMIC_RELAXED);
			return;
		}
	}
}
