// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Which stacks account for the time of a thread with an account. */
#pragma once

/* The stack with most of a time. */
struct majority {
	__u64 voted_ns; /* time of the last vote */
	__s64 lead; /* ns by which `most` leads all other stacks */
	__u32 most; /* number of a stack_record, 0: unknown */
	__u32 pad;
};

struct profile {
	__u64 paid_ns; /* when all stacks so far are within their share of the time */
	struct majority work; /* since it last ended a long wait */
	struct majority gap; /* since its last traced call, while it was on-CPU */
	__u32 blocked; /* stack of its last block, 0: none */
	__u32 woke_before; /* tid whose long wait it ended before that of thread.wakes; 0: none */
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

/* A thread has spent ns, until now, in a stack. The majority stack stays. */
static __always_inline void vote(struct majority *m, __u32 stack, __u64 ns, __u64 now)
{
	m->voted_ns = now;
	if (m->most == stack) {
		m->lead += ns;
		return;
	}
	m->lead -= ns;
	if (m->lead >= 0)
		return;
	m->lead = -m->lead;
	m->most = stack;
}

/* A thread ends a long wait of another thread than `last`, its previous one. */
static __always_inline void woke_another(__u32 tid, __u32 last)
{
	struct profile *p = bpf_map_lookup_elem(&profiles, &tid);

	if (p)
		p->woke_before = last;
}

/*
 * The stack in which a thread spent most of a wait it ends, which began at `since`, 0: unknown.
 * Later votes are for the next wait.
 */
static __always_inline __u32 most_of(__u32 tid, __u64 since)
{
	struct profile *p = bpf_map_lookup_elem(&profiles, &tid);

	if (!p || p->work.voted_ns <= since)
		return 0;
	p->work.lead = 0;
	return p->work.most;
}

/*
 * A thread that makes traced calls is on-CPU between two of them, in a stack. The first vote since
 * the last call, at `since`, discards those for the gap before it.
 */
static __always_inline void vote_gap(struct profile *p, __u32 stack, __u64 ns, __u64 now,
				     __u64 since)
{
	if (p->gap.voted_ns <= since)
		p->gap.lead = 0;
	vote(&p->gap, stack, ns, now);
}

/* The stack in which a thread spent most of its CPU time since `since`, 0: unknown. */
static __always_inline __u32 most_of_gap(__u32 tid, __u64 since)
{
	const struct profile *p = bpf_map_lookup_elem(&profiles, &tid);

	return p && p->gap.voted_ns > since ? p->gap.most : 0;
}
