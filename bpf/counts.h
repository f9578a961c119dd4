// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Exact counts by (process, row), independent of records. Programs of several threads add to one
 * value and may preempt each other: all adds are atomic.
 */
#pragma once

/*
 * count_slots: (tgid, row) -> index into call_counts. Created at the first call, deleted from user
 * space after the process has ended. When full, calls go to the row's own slot.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_COUNTS);
	__type(key, struct counts_key);
	__type(value, __u32);
} count_slots SEC(".maps");

/*
 * free_slots: unused indices into call_counts. Filled from user space at start and after a process
 * has ended, taken by first calls. Cannot fill.
 */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, MAX_COUNTS);
	__type(value, __u32);
} free_slots SEC(".maps");

/*
 * call_counts: slot -> exact sums. Added to by all threads, read once a second, cleared from user
 * space before a slot is free again. An array, since a hash lookup costs ten times as much. Cannot
 * fill.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ROWS + MAX_COUNTS);
	__type(key, __u32);
	__type(value, struct counts);
} call_counts SEC(".maps");

#define CACHE                                                                                      \
	32 /* a power of two; as many slots as the hot rows of one thread need without collisions */

/* Location of a row's counts, as a thread last found them. */
struct cached_slot {
	__u32 row_plus_1; /* 0: empty */
	__u32 slot;
};

static __always_inline void add(__u64 *to, __u64 n)
{
	__sync_fetch_and_add(to, n);
}

/*
 * The slot for a row of a process, created if needed. If none is free, the row's own: then the call
 * counts as dropped.
 */
__noinline __u32 find_slot(__u32 tgid, __u32 row)
{
	struct counts_key key = { .tgid = tgid, .row = row };
	__u32 *known = bpf_map_lookup_elem(&count_slots, &key), slot = 0;

	if (known)
		return *known;
	if (!bpf_map_pop_elem(&free_slots, &slot)) {
		if (!bpf_map_update_elem(&count_slots, &key, &slot, BPF_NOEXIST))
			return slot;
		bpf_map_push_elem(&free_slots, &slot, 0);
		known = bpf_map_lookup_elem(&count_slots, &key); /* another thread was first */
		if (known)
			return *known;
	}
	drop(DROP_COUNTS_FULL);
	return row & (MAX_ROWS - 1);
}

/* find_slot() with a cache, in which no row's own slot is. */
static __always_inline __u32 slot_of(struct cached_slot cache[CACHE], __u32 tgid, __u32 row)
{
	struct cached_slot *c = &cache[row & (CACHE - 1)];
	__u32 slot = c->slot;

	if (c->row_plus_1 != row + 1) {
		slot = find_slot(tgid, row);
		c->slot = slot;
		c->row_plus_1 = slot < MAX_ROWS ? 0 : row + 1;
	}
	return slot;
}

/* A call that will not return: longjmp, exec, the end of its thread. */
__noinline int abandon(__u32 slot)
{
	struct counts *c = bpf_map_lookup_elem(&call_counts, &slot);

	if (c)
		add(&c->abandoned, 1);
	return 0;
}

/* Index of the bucket for ns: exact below 8, then 8 an octave (stats.HistIndex). */
static __always_inline __u32 hist_index(__u64 ns)
{
	__u32 e = 0, i;
	__u64 v = ns;

	if (ns < 8)
		return ns;
	if (v >> 32) {
		v >>= 32;
		e += 32;
	}
	if (v >> 16) {
		v >>= 16;
		e += 16;
	}
	if (v >> 8) {
		v >>= 8;
		e += 8;
	}
	if (v >> 4) {
		v >>= 4;
		e += 4;
	}
	if (v >> 2) {
		v >>= 2;
		e += 2;
	}
	if (v >> 1)
		e += 1;
	i = (e - 2) * 8 + ((ns >> (e - 3)) & 7);
	return i < HIST_BUCKETS ? i : HIST_BUCKETS - 1;
}
