// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Who has which CPU, while a thread of the ledger waits for it. */
#pragma once

const volatile __u64 long_wait = LONG_WAIT; /* ns: from here on a wait has a record */

/*
 * Has a wait a record? bpf_ktime_get_ns() may step back a little when the kernel
 * corrects its clock (ktime_get_mono_fast_ns): such a wait is shorter than none.
 */
static __always_inline bool is_long(__s64 ns)
{
	return ns >= (__s64)long_wait;
}

#define SLICES 256 /* a power of two */

/* Who had a CPU while a traced thread waited for it. */
struct slice {
	__u64 from;
	__u64 to;
	struct who who;
};

#define CULPRITS 8 /* a power of two */

struct cpu {
	__u32 waiters; /* tracked threads that are runnable here */
	__u32 head; /* slices written */
	__u64 since; /* up to when the CPU's time is in slices, if anyone waits */
	struct slice slices[SLICES];
	/* Scratch of the program that runs here. */
	struct {
		__u32 tid;
		__u32 slice;
		__u64 ns;
	} culprit[CULPRITS];
	__u64 others;
	struct wait_record rec;
};

/*
 * cpus: CPU -> who runs there. Written by sched_switch there, and under the
 * scheduler's locks by what moves waiters. One for each possible CPU.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

static __always_inline __u32 cpu_of(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->cpu))
		return task->cpu;
	return task->thread_info.cpu;
}

static __always_inline struct cpu *cpu_at(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

#define TICK_NS 10000000 /* of /proc: USER_HZ is 100 everywhere */

/* When a thread was started, so that a number that comes again is another thread's. */
static __always_inline __u32 start_of(const struct task_struct *task)
{
	return task->start_boottime / TICK_NS;
}

static __always_inline void set_who(struct who *w, struct task_struct *task)
{
	w->tid = task->pid;
	w->tgid = task->tgid;
	w->parent = task->real_parent->tgid;
	w->start = start_of(task);
	w->cgroup = task->cgroups->dfl_cgrp->kn->id;
	bpf_probe_read_kernel(w->comm, sizeof(w->comm), task->comm);
}

/* The run queue of the CPU that a task is on: a variable that each CPU has one of. */
static __always_inline struct rq *rq_of(const struct task_struct *task)
{
	if (!bpf_core_field_exists(task->se.cfs_rq->rq))
		return NULL;
	return task->se.cfs_rq->rq;
}

#if defined(__TARGET_ARCH_x86)
/*
 * From a CPU's run queue to its preempt count, in bytes; 0: not known. Symbols of
 * data need not be in kallsyms, but the kernel's BTF has where they lie.
 */
const volatile __s64 preempt_from_rq = 0;
#endif

#define SOFT_INTERRUPT 0x100 /* is being served */

/*
 * Is this code run by an interrupt, and so by no doing of the current thread? By which kinds:
 * SOFT_INTERRUPT alone, or others too.
 */
static __always_inline int in_interrupt(struct task_struct *current)
{
	int count = 0;

#if defined(__TARGET_ARCH_x86)
	void *rq = rq_of(current);

	if (preempt_from_rq && rq)
		bpf_probe_read_kernel(&count, sizeof(count), rq + preempt_from_rq);
#else
	count = current->thread_info.preempt_count;
#endif
	return count & (0x00ff0000 | SOFT_INTERRUPT); /* NMI, hard interrupt */
}

/* The thread waits for its CPU no more. */
static __always_inline void unqueue(struct clock *k)
{
	struct cpu *c = cpu_at(k->cpu);

	if (k->queued && c)
		__sync_fetch_and_add(&c->waiters, -1);
	k->queued = false;
}

/*
 * The CPU's time up to now is in slices. It does not go back when the clock does
 * (see is_long): slices that overlap would say more than the wait was long.
 */
static __always_inline void told_until(struct cpu *c, __u64 now)
{
	if (now > c->since)
		c->since = now;
}

/* Notes that prev has had the CPU, for those that wait for it. */
static __always_inline void add_slice(struct cpu *c, struct task_struct *prev, __u64 now)
{
	struct slice *s = &c->slices[c->head & (SLICES - 1)];

	s->from = c->since;
	s->to = now;
	set_who(&s->who, prev);
	c->head++;
	told_until(c, now);
}

/* Notes who has had a CPU until now: its turn is not over, and in no slice yet. */
static __noinline int add_running(struct cpu *c, struct rq *rq, __u64 now)
{
	struct task_struct *task;
	struct slice *s;

	if (!c || !rq)
		return 0;
	task = BPF_CORE_READ(rq, curr);
	s = &c->slices[c->head & (SLICES - 1)];
	s->from = c->since;
	s->to = now;
	s->who.tid = BPF_CORE_READ(task, pid);
	s->who.tgid = BPF_CORE_READ(task, tgid);
	s->who.parent = BPF_CORE_READ(task, real_parent, tgid);
	s->who.cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	bpf_probe_read_kernel(s->who.comm, sizeof(s->who.comm), &task->comm);
	c->head++;
	told_until(c, now);
	return 0;
}

/*
 * Adds a slice to the culprits' table in the scratch of a CPU. A function of its
 * own to the verifier, like the next: their loops would multiply.
 */
__noinline int accuse(__u32 scratch_cpu, __u32 tid, __u32 slice, __u64 ns)
{
	struct cpu *scratch = cpu_at(scratch_cpu);
	__u32 least = 0;

	if (!scratch)
		return 0;
	for (int i = 0; i < CULPRITS; i++) {
		if (scratch->culprit[i].ns && scratch->culprit[i].tid != tid) {
			if (scratch->culprit[i].ns < scratch->culprit[INDEX(least, CULPRITS)].ns)
				least = i;
			continue;
		}
		scratch->culprit[i].tid = tid;
		scratch->culprit[i].slice = slice;
		scratch->culprit[i].ns += ns;
		return 0;
	}
	/* No room: the one with the least gives way, and is named no more. */
	least = INDEX(least, CULPRITS);
	if (scratch->culprit[least].ns >= ns) {
		scratch->others += ns;
		return 0;
	}
	scratch->others += scratch->culprit[least].ns;
	scratch->culprit[least].tid = tid;
	scratch->culprit[least].slice = slice;
	scratch->culprit[least].ns = ns;
	return 0;
}

/*
 * Fills the culprits' table in the scratch of a CPU with who had a CPU from `from`
 * to `to`, and others with the rest.
 */
__noinline int find_culprits(__u32 cpu, __u32 scratch_cpu, __u64 from, __u64 to)
{
	struct cpu *c = cpu_at(cpu), *scratch = cpu_at(scratch_cpu);
	__u64 left = to - from;

	if (!c || !scratch)
		return 0;
	scratch->others = 0;
	for (int i = 0; i < CULPRITS; i++)
		scratch->culprit[i].ns = 0;
	for (int i = 1; i <= SLICES; i++) {
		__u32 n = (c->head - i) & (SLICES - 1);
		struct slice *s = &c->slices[n];
		__u64 a = s->from > from ? s->from : from;
		__u64 b = s->to < to ? s->to : to;

		if (s->to <= from)
			break;
		if (a >= b)
			continue;
		left -= b - a;
		accuse(scratch_cpu, s->who.tid, n, b - a);
	}
	scratch->others += left;
	return 0;
}
