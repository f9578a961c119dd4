// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Takes the stacks of enrolled threads: with which they block, and those that they run while a
 * thread that makes traced calls waits for them. A thread that is not running can have none
 * taken, so each is taken by the thread itself.
 */
#pragma once

#define CLOCK_NS 10101010 /* between two ticks of the clock: 99 Hz. profileHz of package probes */
#define PROFILE_SHARE                                                                              \
	1024 /* of a thread's time that its stacks take: at most one part in so many */
#define PROFILE_AHEAD 50000000 /* ns: by so much its stacks may be ahead of that */

/* The profile of the current thread, if a stack may be taken for it now. */
static __always_inline struct profile *may_profile(__u32 tid, __u64 now)
{
	struct profile *p;

	if (shed & (SHED_STACKS | SHED_RARE))
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

/* The stack of the current thread, which is paid for out of its profile. */
static __always_inline __u32 profiled_stack(struct profile *p, __u64 now)
{
	__u32 stack = python_stack(true);
	__u64 cost = bpf_ktime_get_ns() - now;

	if (p->paid_ns < now)
		p->paid_ns = now;
	p->paid_ns += cost * PROFILE_SHARE;
	__sync_fetch_and_add(&stack_ns, cost);
	return stack;
}

/* The current thread, which is enrolled, blocks: where? */
__noinline int profile_block(__u32 tid, __u64 now)
{
	struct profile *p = may_profile(tid, now);

	if (p)
		p->blocked = profiled_stack(p, now);
	else if ((p = bpf_map_lookup_elem(&profiles, &tid)))
		p->blocked = 0;
	return 0;
}

/* An enrolled thread was blocked for ns, until `until`, which no thread ended that is followed itself. */
static __always_inline void profile_blocked(__u32 tid, __u64 ns, __u64 until)
{
	struct profile *p = bpf_map_lookup_elem(&profiles, &tid);

	if (p && p->blocked)
		vote(p, p->blocked, ns, until);
}

/*
 * Does a thread that makes traced calls wait for this one, by others that wait for one another?
 * Of each it is known whom it woke last.
 */
static __always_inline bool is_awaited(const struct thread *t)
{
	for (int i = 0; i < MAX_HOPS; i++) {
		__u32 tid = t->wakes;

		t = bpf_map_lookup_elem(&threads, &tid);
		if (!t || t->clock.state != WAIT_BLOCKED)
			return false;
		if (!t->clock.hop)
			return true;
	}
	return false;
}

/* Each CPU's clock: takes the stack of an enrolled thread that is waited for. */
SEC("perf_event")
int on_clock(void *ctx)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct profile *p;
	struct thread *t;
	__u32 stack;
	__u64 now;

	if (!tracked_threads || !tracked(tid))
		return 0;
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t || !t->clock.hop || !is_awaited(t))
		return 0;
	now = bpf_ktime_get_ns();
	p = may_profile(tid, now);
	stack = p ? profiled_stack(p, now) : 0;
	if (stack)
		vote(p, stack, CLOCK_NS, now);
	return 0;
}
