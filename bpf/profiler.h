// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Takes the stacks of threads with an account: as they block, except in traced calls, which have
 * their own stacks; as they run while a thread that makes traced calls waits for them; and as they
 * run for long between two traced calls of their own. Only a running thread can take a stack, so
 * each thread takes its own.
 */
#pragma once

#define PROFILE_SHARE                                                                              \
	1024 /* divisor: stacks take at most this fraction of a thread's time; less under SHED_RARE */
#define PROFILE_AHEAD 50000000 /* ns: allowed lead of its stacks */

/* The profile of the current thread, if a stack may be taken now. */
static __always_inline struct profile *may_profile(__u32 tid, __u64 now)
{
	struct profile *p;

	if (shed & SHED_STACKS)
		return NULL;
	p = bpf_map_lookup_elem(&profiles, &tid);
	if (!p) {
		bpf_map_update_elem(&profiles, &tid, &no_profile, BPF_NOEXIST);
		p = bpf_map_lookup_elem(&profiles, &tid);
		if (!p)
			drop(DROP_STACK);
	}
	return p && p->paid_ns < now + PROFILE_AHEAD ? p : NULL;
}

/* Takes the stack of the current thread, charged to its profile. */
static __always_inline void profiled_stack(struct profile *p, __u32 votes, __u64 now)
{
	__u64 cost;

	own_stack(p, votes);
	cost = bpf_ktime_get_ns() - now;
	if (p->paid_ns < now)
		p->paid_ns = now;
	p->paid_ns += cost * PROFILE_SHARE << (shed & SHED_RARE ? SHED_RARER : 0);
	__sync_fetch_and_add(&stack_ns, cost);
}

/*
 * Does a thread have its own stack of its block? Not in a call, which has its own. For Python's
 * lock, the holder shows where the waiter is held up.
 */
static __always_inline bool has_own_stack(const struct thread *t)
{
	return take_stacks != STACKS_NONE && !t->depth && !t->clock.gil_holder;
}

/* The current thread blocks: where? */
__noinline int profile_block(__u32 tid, __u64 now)
{
	struct profile *p = may_profile(tid, now);

	if (p)
		profiled_stack(p, 0, now);
	else if ((p = bpf_map_lookup_elem(&profiles, &tid)))
		p->stack = 0;
	return 0;
}

/*
 * A thread was blocked for ns, until `until`; no tracked thread ended that. Returns the stack with
 * which it blocked, 0: none. Time in calls votes against the stacks between them; blocks without a
 * stack for lack of budget do not vote.
 */
static __always_inline __u32 profile_blocked(const struct thread *t, __u32 tid, __u64 ns,
					     __u64 until)
{
	struct profile *p = bpf_map_lookup_elem(&profiles, &tid);
	__u32 stack;

	if (!p)
		return 0;
	stack = has_own_stack(t) ? p->stack : 0;
	if (stack || t->depth)
		vote(&p->work, stack ? p->place : 0, stack, ns, until);
	return stack;
}

/* A blocked thread, NULL if it is not blocked or has no account. */
static __always_inline const struct thread *blocked_thread(__u32 tid)
{
	const struct thread *t = bpf_map_lookup_elem(&threads, &tid);

	return t && t->clock.state == WAIT_BLOCKED ? t : NULL;
}

/*
 * Does a thread that makes traced calls wait for this one, through threads that wait for one
 * another? Each has the last two threads that it woke: one may run, and the other wait again.
 */
static __always_inline bool is_awaited(const struct thread *t, __u32 tid)
{
	for (int i = 0; i < MAX_HOPS; i++) {
		__u32 wakes = t->wakes;
		const struct profile *p;

		t = blocked_thread(wakes);
		if (!t) {
			p = bpf_map_lookup_elem(&profiles, &tid);
			wakes = p ? p->woke_before : 0;
			t = blocked_thread(wakes);
		}
		if (!t)
			return false;
		if (!t->clock.hop)
			return true;
		tid = wakes;
	}
	return false;
}

/* Has a thread that makes traced calls been between two of them for long? */
static __always_inline bool in_long_gap(const struct thread *t, __u64 now)
{
	return take_stacks != STACKS_NONE && !t->clock.hop && !t->depth && t->returned_ns &&
	       now >= t->returned_ns + LONG_GAP;
}

/* Each CPU's clock: takes the stack of a thread that is awaited, or long between two calls. */
SEC("perf_event")
int on_clock(void *ctx)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct profile *p;
	struct thread *t;
	__u32 votes = 0;
	__u64 now;

	if (!tracked_threads || !tracked(tid))
		return 0;
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t)
		return 0;
	now = bpf_ktime_get_ns();
	if (is_awaited(t, tid))
		votes |= VOTE_WORK;
	if (in_long_gap(t, now))
		votes |= VOTE_GAP;
	if (!votes)
		return 0;
	p = may_profile(tid, now);
	if (!p)
		return 0;
	if (p->gap.voted_ns <= t->returned_ns)
		p->gap.lead = 0; /* these votes were for an earlier gap */
	profiled_stack(p, votes, now);
	if (p->place && votes & VOTE_WORK)
		vote(&p->work, p->place, p->stack, CLOCK_NS, now);
	if (p->place && votes & VOTE_GAP)
		vote(&p->gap, p->place, p->stack, CLOCK_NS, now);
	return 0;
}
