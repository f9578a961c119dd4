// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Who has which CPU while a thread of the ledger waits for it. */
#pragma once

const volatile __u64 long_wait = LONG_WAIT; /* ns: least wait with a record */

/*
 * Does a wait get a record? bpf_ktime_get_ns() may step back a little when the kernel corrects its
 * clock (ktime_get_mono_fast_ns): such a wait is negative.
 */
static __always_inline bool is_long(__s64 ns)
{
	return ns >= (__s64)long_wait;
}

#define SLICES 256 /* a power of two */

/*
 * A use of a CPU while a traced thread waited for it: a turn of a thread, or consecutive turns of
 * several threads of one untraced process.
 */
struct slice {
	__u64 from;
	__u64 to;
	struct who who;
	char process[16]; /* comm of the process's first thread */
	__u32 born; /* its start time, as in struct who */
	__u32 pad;
};

#define CULPRITS 16 /* a power of two */

/*
 * Total use of a CPU in a wait: by a process, or by a thread of the waiting process. The threads
 * of an enrolled thread's process are one culprit: of what a waker waited for, only the process
 * counts. One record for each of dozens of threads would cost the job more than it explains.
 */
struct culprit {
	__u32 id; /* tgid; of a thread that is told apart, tid */
	__u32 slice; /* one of its slices; from SLICES on: index in gathered */
	__u64 ns; /* with STRANGER; 0: none */
};

/*
 * Bit of a culprit's time: it is not of the waiting process. Such culprits are preferred when the
 * table is full: of one in the waiting process, the process is reported anyway.
 */
#define STRANGER (1ULL << 63)

/* A process's use of a CPU in evicted slices. */
struct gathered {
	struct slice last; /* latest of them */
	__u64 ns;
};

struct cpu {
	__u32 waiters; /* tracked threads that are runnable here */
	__u32 head; /* slices written */
	__u64 since; /* end of the CPU's time in slices, if a thread waits */
	struct slice slices[SLICES];
	/* Evicted slices since the first current waiter came. */
	__u64 began; /* when it came */
	__u64 gathered_from; /* start of the oldest */
	__u32 ngathered;
	__u32 pad;
	struct gathered gathered[CULPRITS];
	/* Scratch of the program that runs here. */
	struct culprit culprit[CULPRITS];
	__u64 from, to; /* bounds of the wait */
	__u64 oldest; /* start of the first slice in it */
	__u32 tgid; /* waiting process */
	__u32 apart; /* its threads are told apart */
	__u32 least; /* culprit with the least time, while one is added */
	__u32 unused;
	__u64 newest; /* head of the CPU that was waited for, which may go on meanwhile */
	__u64 others; /* ns: of culprits without a slot */
	__u64 own_others; /* likewise, of threads of the waiting process */
	struct wait_record rec;
};

/*
 * cpus: CPU -> its slices. Written by sched_switch there, and under the scheduler's locks when
 * waiters move. One for each possible CPU.
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

/* A thread's start time, which distinguishes reused thread ids. */
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

/* The run queue of a task's CPU: a per-CPU variable. */
static __always_inline struct rq *rq_of(const struct task_struct *task)
{
	if (!bpf_core_field_exists(task->se.cfs_rq->rq))
		return NULL;
	return task->se.cfs_rq->rq;
}

#if defined(__TARGET_ARCH_x86)
/*
 * Offset from a CPU's run queue to its preempt count, in bytes; 0: unknown. kallsyms may lack data
 * symbols, but the kernel's BTF has their offsets.
 */
const volatile __s64 preempt_from_rq = 0;
#endif

#define SOFT_INTERRUPT 0x100 /* being served */

/*
 * Does an interrupt run this code, and not the current thread? Returns the kinds: SOFT_INTERRUPT
 * alone, or others too.
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

/* Takes up to n from *left. */
static __always_inline __u64 take_from(__u64 *left, __u64 n)
{
	if (n > *left)
		n = *left;
	*left -= n;
	return n;
}

/* The thread no longer waits for its CPU. */
static __always_inline void unqueue(struct clock *k)
{
	struct cpu *c = cpu_at(k->cpu);

	if (k->queued && c)
		__sync_fetch_and_add(&c->waiters, -1);
	k->queued = false;
}

/*
 * The CPU's time up to now is in slices. It does not go back when the clock does (see is_long):
 * overlapping slices would exceed the wait.
 */
static __always_inline void told_until(struct cpu *c, __u64 now)
{
	if (now > c->since)
		c->since = now;
}

/* Adds the oldest slice to its process's gathered time, before it is overwritten. */
__noinline int gather(__u32 cpu)
{
	struct cpu *c = cpu_at(cpu);
	struct slice *s;

	if (!c)
		return 0;
	s = &c->slices[c->head & (SLICES - 1)];
	if (!s->to || s->from < c->began) /* no current waiter waited then */
		return 0;
	if (!c->gathered_from)
		c->gathered_from = s->from;
	for (int i = 0; i < CULPRITS; i++) {
		struct gathered *x = &c->gathered[i];

		if (i >= c->ngathered) {
			x->ns = 0;
			c->ngathered = i + 1;
		} else if (x->last.who.tgid != s->who.tgid) {
			continue;
		}
		x->last = *s;
		x->ns += s->to - s->from;
		return 0;
	}
	drop(DROP_CULPRITS_FULL);
	return 0;
}

/* The first thread waits for the CPU: earlier slices are irrelevant. */
static __always_inline void begin_waiting(struct cpu *c, __u64 now)
{
	told_until(c, now);
	c->began = now;
	c->gathered_from = 0;
	c->ngathered = 0;
}

/*
 * The slice for a turn that ends now: a new one, or the last if it continues that. Turns of several
 * threads of a traced process are kept separate.
 */
static __always_inline struct slice *next_slice(struct cpu *c, __u32 cpu, __u32 tgid, __u32 tid)
{
	struct slice *last = &c->slices[(c->head - 1) & (SLICES - 1)];

	if (last->to == c->since && last->who.tgid == tgid &&
	    (last->who.tid == tid || !bpf_map_lookup_elem(&targets, &tgid)))
		return last;
	gather(cpu);
	last = &c->slices[c->head & (SLICES - 1)];
	last->from = c->since;
	last->pad = 0;
	c->head++;
	return last;
}

/* Records prev's turn on the CPU, for the threads that wait for it. */
static __always_inline void add_slice(struct cpu *c, __u32 cpu, struct task_struct *prev, __u64 now)
{
	struct slice *s = next_slice(c, cpu, prev->tgid, prev->pid);

	s->to = now;
	set_who(&s->who, prev);
	s->born = start_of(prev->group_leader);
	bpf_probe_read_kernel(s->process, sizeof(s->process), prev->group_leader->comm);
	told_until(c, now);
}

/* Records the turn of the thread that is on a CPU: it is not over, and in no slice yet. */
static __noinline int add_running(__u32 cpu, struct rq *rq, __u64 now)
{
	struct cpu *c = cpu_at(cpu);
	struct task_struct *task, *leader;
	struct slice *s;

	if (!c || !rq)
		return 0;
	task = BPF_CORE_READ(rq, curr);
	leader = BPF_CORE_READ(task, group_leader);
	s = next_slice(c, cpu, BPF_CORE_READ(task, tgid), BPF_CORE_READ(task, pid));
	s->to = now;
	s->who.tid = BPF_CORE_READ(task, pid);
	s->who.tgid = BPF_CORE_READ(task, tgid);
	s->who.parent = BPF_CORE_READ(task, real_parent, tgid);
	s->who.start = BPF_CORE_READ(task, start_boottime) / TICK_NS;
	s->who.cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	bpf_probe_read_kernel(s->who.comm, sizeof(s->who.comm), &task->comm);
	s->born = BPF_CORE_READ(leader, start_boottime) / TICK_NS;
	bpf_probe_read_kernel(s->process, sizeof(s->process), &leader->comm);
	told_until(c, now);
	return 0;
}
