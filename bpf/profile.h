// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Which stacks account for the time of a thread with an account. */
#pragma once

#define CLOCK_NS 10101010 /* between two clock ticks: 99 Hz. events.SampleHz */

/* The place in the code with most of a time. */
struct majority {
	__u64 voted_ns; /* time of the last vote */
	__s64 lead; /* ns by which `place` leads all others */
	__u64 place; /* in the code: place_of. 0: unknown, or in calls */
	__u64 blocked_ns; /* of blocks whose kind has no stack */
	__u32 most; /* number of a stack_record there, 0: unknown */
	__u32 missed; /* likewise, ticks of the clock */
};

enum own_votes { VOTE_WORK = 1, VOTE_GAP = 2 }; /* of struct profile */

#define BLOCK_KINDS 4 /* a power of two */

/*
 * Blocks in one system call with one stack pointer: most often at one place in the code. Few blocks
 * have their stack taken. The others have that of the last block of their kind.
 */
struct block_kind {
	__u64 place; /* of that stack */
	__u64 owed_ns; /* blocked since that stack was taken */
	__u32 key; /* block_key, 0: none yet */
	__u32 stack; /* number of that stack, 0: none */
};

struct profile {
	__u64 blocks_paid_ns; /* when its stacks of blocks so far are within their share of the time */
	__u64 ticks_paid_ns; /* likewise, those of ticks of the clock */
	struct majority work; /* since it last ended a long wait */
	struct majority gap; /* since its last traced call, while it was on-CPU */
	__u64 place; /* of its last stack, 0: none */
	__u32 stack; /* number of that, which may be its last block's; 0: none, or not needed */
	__u32 woke_before; /* tid whose long wait it ended before that of thread.wakes; 0: none */
	__u32 early; /* native stacks that ended at something not loaded */
	__u32 kind; /* of its last block: 1 + index in kinds, 0: none */
	struct block_kind kinds[BLOCK_KINDS]; /* a new one replaces the one that is owed least */
};

/*
 * profiles: tid -> profile of a thread. Written by the programs as it leaves a CPU, and by a clock
 * while it is on-CPU; deleted when its account ends. When full, a thread has no stacks, and each
 * missing one is counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, __u32);
	__type(value, struct profile);
} profiles SEC(".maps");

const struct profile no_profile = {};

/* A thread has spent ns, until now, at a place, with a stack. That of the majority stays. */
static __always_inline void vote(struct majority *m, __u64 place, __u32 stack, __u64 ns, __u64 now)
{
	m->voted_ns = now;
	if (m->place == place) {
		m->lead += ns;
		if (!m->most)
			m->most = stack;
		return;
	}
	m->lead -= ns;
	if (m->lead >= 0)
		return;
	m->lead = -m->lead;
	m->place = place;
	m->most = stack;
}

/* The time for which a tick of the clock with a stack stands: also for those before it without one. */
static __always_inline __u64 tick_ns(const struct majority *m)
{
	return (1ULL + m->missed) * CLOCK_NS;
}

/* A thread ends a long wait of another thread than `last`, its previous one. */
static __always_inline void woke_another(__u32 tid, __u32 last)
{
	struct profile *p = bpf_map_lookup_elem(&profiles, &tid);

	if (p)
		p->woke_before = last;
}

/*
 * The stack in which a thread spent most of a wait it ends, which began at `since`, 0: unknown, as
 * when more time passed without a stack since. Later votes are for the next wait.
 */
static __always_inline __u32 most_of(__u32 tid, __u64 since)
{
	struct profile *p = bpf_map_lookup_elem(&profiles, &tid);
	bool known;

	if (!p)
		return 0;
	known = p->work.lead >= (__s64)(1ULL * p->work.missed * CLOCK_NS + p->work.blocked_ns);
	p->work.blocked_ns = p->work.missed = 0;
	if (p->work.voted_ns <= since)
		return 0;
	p->work.lead = 0;
	return known ? p->work.most : 0;
}

/* The stack in which a thread spent most of its CPU time since `since`, 0: unknown. */
static __always_inline __u32 most_of_gap(__u32 tid, __u64 since)
{
	const struct profile *p = bpf_map_lookup_elem(&profiles, &tid);

	return p && p->gap.voted_ns > since ? p->gap.most : 0;
}
