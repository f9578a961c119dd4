// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Takes the stacks of threads with an account: as they block, except in traced calls, which have
 * their own stacks; as they run while a thread that makes traced calls waits for them; and as they
 * run for long between two traced calls of their own. Only a running thread can take a stack, so
 * each thread takes its own.
 */
#pragma once

#define PROFILE_SHARE                                                                              \
	2048 /* stacks of blocks, and those of ticks, take at most 1/N of a thread's time */
#define PROFILE_RARER 1 /* log2 of the factor by which these shares shrink under SHED_RARE */
#define PROFILE_AHEAD 50000000 /* ns: allowed lead of its stacks */
#define PROFILE_FIRST 2000000000 /* likewise, of the first one of a kind of long blocks */
#define LONG_BLOCKS 20000000 /* ns: of a kind, from which its first stack has priority */
#define MISSED_MOST 10000 /* ticks without a stack that are counted */

volatile __u64 profile_ns = 0; /* cost of these stacks; added to by programs */

/* The profile of the current thread, NULL if it can have none. */
static __always_inline struct profile *profile_of(__u32 tid)
{
	struct profile *p = bpf_map_lookup_elem(&profiles, &tid);

	if (p)
		return p;
	bpf_map_update_elem(&profiles, &tid, &no_profile, BPF_NOEXIST);
	p = bpf_map_lookup_elem(&profiles, &tid);
	if (!p)
		drop(DROP_STACK);
	return p;
}

/*
 * Takes the stack of the current thread, if its share of the time allows one: paid_ns is when those so
 * far are within it, which may be `ahead` from now. Returns whether it was allowed.
 */
static __always_inline bool profiled_stack(struct profile *p, __u64 *paid_ns, __u64 ahead,
					   __u32 votes, __u64 now)
{
	__u64 cost;

	if (*paid_ns >= now + ahead)
		return false;
	own_stack(p, votes);
	cost = bpf_ktime_get_ns() - now;
	if (*paid_ns < now)
		*paid_ns = now;
	*paid_ns += cost * PROFILE_SHARE << (shed & SHED_RARE ? PROFILE_RARER : 0);
	__sync_fetch_and_add(&profile_ns, cost);
	return true;
}

/*
 * Does a thread have its own stack of its block? Not in a call, which has its own. For Python's
 * lock, the holder shows where the waiter is held up.
 */
static __always_inline bool has_own_stack(const struct thread *t)
{
	return take_stacks != STACKS_NONE && !t->depth && !t->clock.gil_holder;
}

/* Identifies the kind of the current thread's block; never 0. */
static __always_inline __u32 block_key(void)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	__u64 sum = PT_REGS_SP_CORE(regs) ^ (__u64)SYSCALL_NR(regs) << 48;

	return sum * 0x9e3779b97f4a7c15ULL >> 32 | 1;
}

/* The index of a kind of blocks in the profile. */
static __always_inline __u32 kind_of(struct profile *p, __u32 key)
{
	__u32 at = 0;

	for (__u32 i = 0; i < BLOCK_KINDS; i++) {
		if (p->kinds[i].key == key)
			return i;
		if (p->kinds[i].owed_ns < p->kinds[at & (BLOCK_KINDS - 1)].owed_ns)
			at = i;
	}
	p->kinds[at & (BLOCK_KINDS - 1)] = (struct block_kind){ .key = key };
	return at;
}

/* The kind of the thread's last block, NULL if its stacks are shed. */
static __always_inline struct block_kind *last_kind(struct profile *p)
{
	return p->kind ? &p->kinds[(p->kind - 1) & (BLOCK_KINDS - 1)] : NULL;
}

/* Is it this kind's turn to have a stack, ahead of its share: is no other kind owed more time? */
static __always_inline bool has_turn(const struct profile *p, const struct block_kind *kind)
{
	for (int i = 0; i < BLOCK_KINDS; i++)
		if (p->kinds[i].owed_ns > kind->owed_ns)
			return false;
	return true;
}

/* A kind has its stack. The others are owed less from now on, since some may never come back. */
static __always_inline void settle_kind(struct profile *p, struct block_kind *kind)
{
	for (int i = 0; i < BLOCK_KINDS; i++)
		p->kinds[i].owed_ns /= 2;
	kind->owed_ns = 0;
	kind->place = p->place;
	kind->stack = p->stack;
}

/* The current thread blocks: where? */
__noinline int profile_block(__u32 tid, __u64 now)
{
	struct profile *p =
		shed & SHED_STACKS ? bpf_map_lookup_elem(&profiles, &tid) : profile_of(tid);
	struct block_kind *kind;
	__u64 ahead = PROFILE_AHEAD;

	if (!p)
		return 0;
	p->stack = p->kind = 0;
	if (shed & SHED_STACKS)
		return 0;
	p->kind = 1 + kind_of(p, block_key());
	kind = last_kind(p);
	if (!kind)
		return 0;
	if (!kind->stack && kind->owed_ns >= LONG_BLOCKS)
		ahead = PROFILE_FIRST;
	if (p->blocks_paid_ns >= now && !has_turn(p, kind))
		return 0;
	profiled_stack(p, &p->blocks_paid_ns, ahead, 0, now);
	if (p->stack)
		settle_kind(p, kind);
	return 0;
}

/*
 * A thread was blocked for ns, until `until`. Returns the stack with which it blocked, 0: none. Time
 * in calls votes against the stacks between them. If a tracked thread ended the wait, the stacks of
 * that thread account for the time: there is no vote, and an enrolled thread needs no stack.
 */
__noinline __u32 profile_blocked(struct thread *t, __u32 tid, __u64 ns, __u64 until)
{
	struct profile *p = bpf_map_lookup_elem(&profiles, &tid);
	struct block_kind *kind;
	bool explained;

	if (!p || !t)
		return 0;
	explained = !t->clock.woken_by_irq && tracked(t->clock.waker.tid);
	if (explained && t->clock.hop)
		return 0;
	if (!has_own_stack(t)) {
		if (t->depth && !explained)
			vote(&p->work, 0, 0, ns, until);
		return 0;
	}
	kind = last_kind(p);
	if (kind)
		kind->owed_ns += ns;
	if (explained)
		return p->stack;
	if (kind && kind->stack)
		vote(&p->work, kind->place, kind->stack, ns, until);
	else
		p->work.blocked_ns += ns;
	return p->stack;
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

	if (!tracked_threads || shed & SHED_STACKS || !tracked(tid))
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
	p = profile_of(tid);
	if (!p)
		return 0;
	if (p->gap.voted_ns <= t->returned_ns)
		p->gap.lead = 0; /* these votes were for an earlier gap */
	if (!profiled_stack(p, &p->ticks_paid_ns, PROFILE_AHEAD, votes, now)) {
		if (votes & VOTE_WORK && p->work.missed < MISSED_MOST)
			p->work.missed++;
		return 0;
	}
	if (p->place && votes & VOTE_WORK) {
		vote(&p->work, p->place, p->stack, tick_ns(&p->work), now);
		p->work.missed = 0;
	}
	if (p->place && votes & VOTE_GAP)
		vote(&p->gap, p->place, p->stack, CLOCK_NS, now);
	return 0;
}
