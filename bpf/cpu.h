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

/*
 * Who had a CPU while a traced thread waited for it: a turn of a thread, or turns of several
 * threads of one process that is not traced, one after the other.
 */
struct slice {
	__u64 from;
	__u64 to;
	struct who who;
	char process[16]; /* comm of the process's first thread */
	__u32 born; /* its start, as in struct who */
	__u32 pad;
};

#define CULPRITS 16 /* a power of two */

/* Who had a CPU in a wait, added up: a process, or a thread of the process that waits. */
struct culprit {
	__u32 id; /* tgid; of the process that waits, tid */
	__u32 slice; /* one of its slices; from SLICES on: of what is gathered */
	__u64 ns; /* with STRANGER; 0: there is none */
};

/*
 * A bit of a culprit's time: it is not of the process that waits. Such are kept when there is no
 * room: of one that is, it is told all the same of which process it is.
 */
#define STRANGER (1ULL << 63)

/* What a process had of a CPU in slices that gave way to others. */
struct gathered {
	struct slice last; /* of them */
	__u64 ns;
};

struct cpu {
	__u32 waiters; /* tracked threads that are runnable here */
	__u32 head; /* slices written */
	__u64 since; /* up to when the CPU's time is in slices, if anyone waits */
	struct slice slices[SLICES];
	/* Slices since the first that waits came, and no longer among the above. */
	__u64 began; /* when it came */
	__u64 gathered_from; /* of the oldest */
	__u32 ngathered;
	__u32 pad;
	struct gathered gathered[CULPRITS];
	/* Scratch of the program that runs here. */
	struct culprit culprit[CULPRITS];
	__u64 from, to; /* of the wait */
	__u64 oldest; /* start of the first slice that is in it */
	__u32 tgid; /* of who waited */
	__u32 pad2;
	__u64 others; /* ns: of those without a place in culprit */
	__u64 own_others; /* likewise, of threads of the process that waits */
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

/* Adds the oldest slice to those of its process, as another takes its place. */
__noinline int gather(__u32 cpu)
{
	struct cpu *c = cpu_at(cpu);
	struct slice *s;

	if (!c)
		return 0;
	s = &c->slices[c->head & (SLICES - 1)];
	if (!s->to || s->from < c->began) /* nobody who waits now waited then */
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

/* The first thread waits for the CPU: what was before concerns nobody. */
static __always_inline void begin_waiting(struct cpu *c, __u64 now)
{
	told_until(c, now);
	c->began = now;
	c->gathered_from = 0;
	c->ngathered = 0;
}

/*
 * The slice for a turn that ends now: a new one, or the last where that goes on. In one of
 * several threads of a traced process who had it could not be told.
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

/* Notes that prev has had the CPU, for those that wait for it. */
static __always_inline void add_slice(struct cpu *c, __u32 cpu, struct task_struct *prev, __u64 now)
{
	struct slice *s = next_slice(c, cpu, prev->tgid, prev->pid);

	s->to = now;
	set_who(&s->who, prev);
	s->born = start_of(prev->group_leader);
	bpf_probe_read_kernel(s->process, sizeof(s->process), prev->group_leader->comm);
	told_until(c, now);
}

/* Notes who has had a CPU until now: its turn is not over, and in no slice yet. */
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

/* Adds to what culprits without a place took. */
static __always_inline void refuse(struct cpu *scratch, __u64 ns)
{
	if (ns & STRANGER)
		scratch->others += ns & ~STRANGER;
	else
		scratch->own_others += ns;
	drop(DROP_CULPRITS_FULL);
}

/*
 * Adds a slice to the culprits' table in the scratch of a CPU; ns has STRANGER. A function of its
 * own to the verifier, like the next: their loops would multiply.
 */
__noinline int accuse(__u32 scratch_cpu, __u32 id, __u32 slice, __u64 ns)
{
	struct cpu *scratch = cpu_at(scratch_cpu);
	__u32 least = 0;

	if (!scratch)
		return 0;
	for (int i = 0; i < CULPRITS; i++) {
		if (scratch->culprit[i].ns && scratch->culprit[i].id != id) {
			if (scratch->culprit[i].ns < scratch->culprit[INDEX(least, CULPRITS)].ns)
				least = i;
			continue;
		}
		scratch->culprit[i].id = id;
		scratch->culprit[i].slice = slice;
		scratch->culprit[i].ns = (scratch->culprit[i].ns & ~STRANGER) + ns;
		return 0;
	}
	/* No room: the one with the least gives way, and is named no more. */
	least = INDEX(least, CULPRITS);
	if (scratch->culprit[least].ns >= ns) {
		refuse(scratch, ns);
		return 0;
	}
	refuse(scratch, scratch->culprit[least].ns);
	scratch->culprit[least].id = id;
	scratch->culprit[least].slice = slice;
	scratch->culprit[least].ns = ns;
	return 0;
}

/*
 * Adds a slice of a CPU to the culprits of the wait that is in a CPU's scratch. Returns whether
 * slices before it can be in the wait. What it needs is in the scratch: the verifier must not
 * follow it through the loop around.
 */
__noinline int charge(__u32 cpu, __u32 scratch_cpu, __u32 i)
{
	struct cpu *c = cpu_at(cpu), *scratch = cpu_at(scratch_cpu);
	struct slice *s;
	__u64 a, b;
	__u32 n;

	if (!c || !scratch)
		return 0;
	n = (c->head - i) & (SLICES - 1);
	s = &c->slices[n];
	if (s->to <= scratch->from)
		return 0;
	scratch->oldest = s->from;
	a = s->from > scratch->from ? s->from : scratch->from;
	b = s->to < scratch->to ? s->to : scratch->to;
	if (a >= b)
		return 1;
	scratch->others -= b - a;
	if (s->who.tgid == scratch->tgid)
		accuse(scratch_cpu, s->who.tid, n, b - a);
	else
		accuse(scratch_cpu, s->who.tgid, n, (b - a) | STRANGER);
	return 1;
}

/* Adds what a process had in slices that gave way, likewise. Returns whether there is more. */
__noinline int charge_gathered(__u32 cpu, __u32 scratch_cpu, __u32 i)
{
	struct cpu *c = cpu_at(cpu), *scratch = cpu_at(scratch_cpu);
	struct gathered *x;

	if (!c || !scratch || i >= c->ngathered)
		return 0;
	i &= CULPRITS - 1;
	x = &c->gathered[i];
	scratch->others -= x->ns;
	if (x->last.who.tgid == scratch->tgid) /* which of its threads is not known */
		scratch->own_others += x->ns;
	else
		accuse(scratch_cpu, x->last.who.tgid, SLICES + i, x->ns | STRANGER);
	return 1;
}

/*
 * Fills the culprits' table in the scratch of a CPU with who had a CPU from `from`
 * to `to`, in a wait of a thread of a process, and others with the rest.
 */
__noinline int find_culprits(__u32 cpu, __u32 scratch_cpu, __u64 from, __u64 to, __u32 tgid)
{
	struct cpu *c = cpu_at(cpu), *scratch = cpu_at(scratch_cpu);

	if (!c || !scratch)
		return 0;
	scratch->from = from;
	scratch->to = to;
	scratch->oldest = to;
	scratch->tgid = tgid;
	scratch->others = to - from;
	scratch->own_others = 0;
	for (int i = 0; i < CULPRITS; i++)
		scratch->culprit[i].ns = 0;
	for (int i = 1; i <= SLICES; i++)
		if (!charge(cpu, scratch_cpu, i))
			break;
	if (scratch->oldest <= from || !c->gathered_from)
		return 0;
	if (from >
	    c->gathered_from) { /* others waited before: how much is of this wait is not known */
		drop(DROP_TURNS_FULL);
		return 0;
	}
	for (int i = 0; i < CULPRITS; i++)
		if (!charge_gathered(cpu, scratch_cpu, i))
			break;
	return 0;
}
