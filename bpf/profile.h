// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Where the time of a thread that has an account goes, in the code of its program. */
#pragma once

struct profile {
	__u64 paid_ns; /* by then all stacks so far have taken no more than their share of time */
	__u64 voted_ns; /* when it was last said where its time went */
	__s64 lead; /* ns by which `most` is ahead of all other stacks */
	__u32 most; /* number of the stack of most of its time since it ended a long wait; 0: not known */
	__u32 blocked; /* of that with which it blocked last, 0: none was taken */
	__u32 woke_before; /* tid whose long wait it ended last but for thread.wakes; 0: none */
	__u32 pad;
};

/*
 * profiles: tid -> where the time of a thread goes. Written by the programs as it
 * leaves a CPU, and by a clock while it has one; deleted when its account ends. When full, a
 * thread has no stacks, and each that is left out is counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, __u32);
	__type(value, struct profile);
} profiles SEC(".maps");

const struct profile no_profile = {};

/* A thread has spent ns, until now, where a stack says. Of stacks one with more than half stays. */
static __always_inline void vote(struct profile *p, __u32 stack, __u64 ns, __u64 now)
{
	p->voted_ns = now;
	if (p->most == stack) {
		p->lead += ns;
		return;
	}
	p->lead -= ns;
	if (p->lead >= 0)
		return;
	p->lead = -p->lead;
	p->most = stack;
}

/* A thread ends a long wait of another one than it did last, of `last`. */
static __always_inline void woke_another(__u32 tid, __u32 last)
{
	struct profile *p = bpf_map_lookup_elem(&profiles, &tid);

	if (p)
		p->woke_before = last;
}

/*
 * The stack that a thread spent most time in which ends a wait that began at `since`, 0: not
 * known. What comes next is another wait's.
 */
static __always_inline __u32 most_of(__u32 tid, __u64 since)
{
	struct profile *p = bpf_map_lookup_elem(&profiles, &tid);

	if (!p || p->voted_ns <= since)
		return 0;
	p->lead = 0;
	return p->most;
}
