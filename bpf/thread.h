// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What is known of a thread that makes traced calls: its open calls and its own
 * scheduler figures. One writer, the thread itself, so no atomics.
 */
#pragma once

/* A thread's own scheduler figures at one moment: tier 0 of the ledger. */
struct snapshot {
	__u64 run_delay;
	__u64 sum_exec;
	__u64 exec_start;
	__u64 nvcsw;
	__u64 migrations;
};

struct open_call {
	__u64 sp; /* user stack pointer at entry: the call's identity */
	__u64 ip; /* where the probe is */
	__u64 inner_ns; /* spent in traced calls made by this one */
	struct snapshot at;
	__u32 probe_ns; /* cost of the probes of inner calls: no doing of this call */
	__u16 row;
	__u8 recipe_flags;
	__u8 pad;
	__u64 seen; /* set of copies whose links saw it */
	struct call_record rec; /* as far as it is known */
};

struct thread {
	__u32 tgid;
	__u32 flags; /* enum target_flags, as when the thread was first seen */
	__u32 depth;
	__u32 skip_links; /* links_changed at the last call that was counted only */
	__u64 skip_sp; /* of that call, as in open_call */
	__u64 skip_ip;
	__u64 skip_seen;
	__u64 trampoline; /* where this process returns to through a return probe */
	struct ring_view ring;
	__u64 returned_ns; /* when the last outermost call returned */
	struct snapshot returned;
	struct cached_slot cache[CACHE];
	struct open_call open[MAX_DEPTH];
};

/*
 * targets: tgid -> what we may do to it. Written from user space and at fork;
 * deleted at the process's exit. When full, a child is not traced, and counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TARGETS);
	__type(key, __u32);
	__type(value, struct target);
} targets SEC(".maps");

/*
 * threads: tid -> state. Written by the thread, deleted at its exit and exec.
 * When full, calls are counted but not timed, and that is counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* A template, too large for the stack. Never written. */
const struct thread no_thread = {};

static __noinline struct thread *new_thread(__u32 tgid, __u32 tid)
{
	struct target *p = bpf_map_lookup_elem(&targets, &tgid);
	struct thread *t;

	if (!p || bpf_map_update_elem(&threads, &tid, &no_thread, BPF_ANY))
		return NULL;
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t)
		return NULL;
	t->tgid = tgid;
	t->flags = p->flags;
	return t;
}

static __always_inline struct thread *thread_of(__u32 tgid, __u32 tid)
{
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);

	return t && t->tgid == tgid ? t : NULL;
}

/* Ends a thread's state; its open calls will not return. */
static __always_inline void forget_thread(__u32 tid)
{
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);

	if (!t)
		return;
#pragma unroll
	for (int i = 0; i < MAX_DEPTH; i++)
		if (i < t->depth)
			abandon(t->tgid, t->open[i].row);
	bpf_map_delete_elem(&threads, &tid);
}

static __always_inline void snap(struct task_struct *task, struct snapshot *s)
{
	s->run_delay = task->sched_info.run_delay;
	s->sum_exec = task->se.sum_exec_runtime;
	s->exec_start = task->se.exec_start;
	s->nvcsw = task->nvcsw;
	s->migrations = task->se.nr_migrations;
}

/* ns split: on_cpu + runnable + blocked. Returns false when on_cpu is unknown. */
static __always_inline bool split(const struct snapshot *a, const struct snapshot *b, __u64 ns,
				  __u64 *on_cpu, __u64 *runnable)
{
	__u64 wait = b->run_delay - a->run_delay;
	__s64 run;

	if (wait > ns)
		wait = ns;
	*runnable = wait;
	*on_cpu = ns - wait;
	if (a->nvcsw == b->nvcsw) /* never gave the CPU away by itself: never blocked */
		return true;
	if (a->migrations != b->migrations) { /* exec_start is in a clock of its CPU */
		*on_cpu = 0;
		return false;
	}
	run = b->sum_exec - a->sum_exec + ns - (b->exec_start - a->exec_start);
	if (run < 0)
		run = 0;
	if ((__u64)run < *on_cpu)
		*on_cpu = run;
	return true;
}

/* Where the kernel has put its return trampoline in this process, 0 if unknown. */
static __always_inline __u64 trampoline(struct thread *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct xol_area *area = NULL;

	if (t->trampoline || !bpf_core_field_exists(area->vaddr))
		return t->trampoline;
	area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	if (area)
		t->trampoline = BPF_CORE_READ(area, vaddr);
	return t->trampoline;
}

#if defined(__TARGET_ARCH_x86)
/* Does the return address at sp lead to the trampoline, as of a call that still stands? */
static __always_inline bool hijacked(struct pt_regs *ctx, struct thread *t, __u64 sp)
{
	__u64 ret = 0;

	if (bpf_probe_read_user(&ret, sizeof(ret), (void *)sp))
		return false;
	return ret == trampoline(t);
}
#define STANDS(ctx, t, sp) (!trampoline(t) || hijacked(ctx, t, sp))
#else
/* The link register, so of the function that is being entered only. */
static __always_inline bool hijacked(struct pt_regs *ctx, struct thread *t, __u64 sp)
{
	return ctx->user_regs.regs[30] == trampoline(t);
}
#define STANDS(ctx, t, sp) true /* where it saved its return address is not known */
#endif

/*
 * Forgets open calls whose frames are gone, as a longjmp leaves them. One below
 * sp is gone. One at sp stands if it jumped here: then the return address is the
 * trampoline's. One above stands if its own is; around a launch that is taken
 * for granted, since the launch path is hot.
 */
static __always_inline void prune(struct pt_regs *ctx, struct thread *t, __u64 sp, bool launch)
{
#pragma unroll
	for (int i = 0; i < MAX_DEPTH; i++) {
		__u32 top = t->depth - 1;
		__u64 at;

		if (top >= MAX_DEPTH)
			return;
		at = t->open[top].sp;
		if (at == sp && hijacked(ctx, t, sp))
			return;
		if (at > sp && (launch || STANDS(ctx, t, at)))
			return;
		abandon(t->tgid, t->open[top].row);
		t->depth = top;
	}
}

/* Counts links made and closed: what hits a call may get is another since. Written from user space. */
volatile __u32 links_changed = 0;

/*
 * Is this hit one more of a call that is known, by the link of another copy? Each
 * link hits once a call, so a copy that was seen has a new call at the same place.
 */
static __always_inline bool duplicate(struct thread *t, __u64 sp, __u64 ip, __u64 cookie)
{
	__u32 top = t->depth - 1;
	__u64 copy = 1ULL << COOKIE_COPY(cookie), *seen;

	if (top < MAX_DEPTH && t->open[top].sp == sp && t->open[top].ip == ip)
		seen = &t->open[top].seen;
	else if (t->skip_sp == sp && t->skip_ip == ip && t->skip_links == links_changed)
		seen = &t->skip_seen;
	else
		return false;
	if (*seen & copy)
		return false;
	*seen |= copy;
	return true;
}
