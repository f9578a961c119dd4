// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Marks on a thread's clocks, and the parts of the time between two marks. */
#pragma once

const volatile bool ledger = true; /* Settings.NoLedger: false: use the scheduler's figures */

static __always_inline void snap(struct task_struct *task, struct snapshot *s)
{
	s->run_delay = task->sched_info.run_delay;
	s->nvcsw = task->nvcsw;
	s->switches = s->nvcsw + task->nivcsw;
	s->sum_exec = task->se.sum_exec_runtime;
	s->exec_start = task->se.exec_start;
	s->migrations = task->se.nr_migrations;
}

/* Records the current thread's clocks. */
static __always_inline void note(struct task_struct *task, struct thread *t, struct mark *m)
{
	snap(task, &m->task);
	if (!ledger)
		return;
	if (t->clock.state != WAIT_NONE)
		found_running(t);
	m->off = t->clock.account.off;
	m->unseen = m->task.switches - t->clock.switches + t->clock.missed;
}

/* Records the clocks and returns the time. */
static __always_inline __u64 mark(struct task_struct *task, struct thread *t, struct mark *m)
{
	for (int i = 0; i < 2; i++) {
		__u64 since = t->clock.since, now;

		note(task, t, m);
		now = bpf_ktime_get_ns();
		if (since == t->clock.since) /* no switch in between */
			return now;
	}
	return bpf_ktime_get_ns();
}

/* The parts of the time between two marks, ns. Blocked is the rest. */
struct parts {
	__u64 on_cpu;
	__u64 runnable;
	__u64 throttled;
	bool partial; /* on_cpu is unknown, and 0 */
	bool unseen; /* from the scheduler's figures, since the ledger missed a switch */
};

/* Tier 0: the scheduler's own figures. */
static __always_inline void split_by_scheduler(const struct snapshot *a, const struct snapshot *b,
					       __u64 ns, struct parts *p)
{
	__u64 left = ns;
	__s64 run;

	p->throttled = 0;
	p->runnable = take_from(&left, b->run_delay - a->run_delay);
	p->on_cpu = left;
	p->partial = false;
	if (a->nvcsw == b->nvcsw) /* never gave up the CPU voluntarily: never blocked */
		return;
	if (a->migrations != b->migrations) { /* exec_start is in its CPU's clock */
		p->on_cpu = 0;
		p->partial = true;
		return;
	}
	run = b->sum_exec - a->sum_exec + ns - (b->exec_start - a->exec_start);
	if (run < 0)
		run = 0;
	if ((__u64)run < p->on_cpu)
		p->on_cpu = run;
}

/* Changes the ledger's value of a part, here and in the account, to the true one. */
static __always_inline void correct(__u64 *sum, __u64 *now, __u64 from, __u64 is)
{
	__u64 by = is - (*now - from); /* may be negative */

	add(sum, by);
	*now += by;
}

/*
 * The time between two marks when the ledger missed switches: a kernel may have threads whose
 * switches it does not expose. The scheduler's figures are used, and correct the account.
 */
static __always_inline void split_unseen(struct thread *t, const struct mark *a, struct mark *b,
					 __u64 ns, struct parts *p)
{
	struct sums *off = &t->clock.account.off;
	__u64 left;

	split_by_scheduler(&a->task, &b->task, ns, p);
	left = p->runnable; /* there, throttled is a part of it */
	p->throttled = take_from(&left, b->off.throttled - a->off.throttled);
	p->runnable = left;
	correct(&off->runnable, &b->off.runnable, a->off.runnable, p->runnable);
	if (!p->partial)
		correct(&off->blocked, &b->off.blocked, a->off.blocked,
			ns - p->on_cpu - p->runnable - p->throttled);
	p->unseen = true;
}

/*
 * Splits ns, the time of a thread between two marks. A separate function for the verifier, which
 * would otherwise check the following code for each path through it.
 */
__noinline int split(struct thread *t, const struct mark *a, struct mark *b, __u64 ns,
		     struct parts *p)
{
	__u64 left = ns;

	if (!t || !a || !b || !p)
		return 0;
	p->unseen = false;
	if (!ledger) {
		split_by_scheduler(&a->task, &b->task, ns, p);
		return 0;
	}
	if (a->unseen != b->unseen) {
		split_unseen(t, a, b, ns, p);
		return 0;
	}
	p->runnable = take_from(&left, b->off.runnable - a->off.runnable);
	p->throttled = take_from(&left, b->off.throttled - a->off.throttled);
	take_from(&left, b->off.blocked - a->off.blocked);
	p->on_cpu = left;
	p->partial = false;
	return 0;
}

/* The time between the thread's last outermost call with a record and this one. */
static __always_inline void measure_gap(struct thread *t, struct open_call *o, __u32 tid)
{
	__u64 ns = o->rec.start_ns - t->returned_ns;
	struct call_record *rec = &o->rec;
	__u32 shift = 0;
	struct parts p = {}; /* Linux 5.15 rejects uninitialized arguments */

	split(t, &t->returned, &o->at, ns, &p);
	if (p.partial)
		rec->flags |= CALL_GAP_PARTIAL;
	if (p.unseen)
		rec->flags |= CALL_UNSEEN;
	if (p.throttled)
		rec->flags |= CALL_THROTTLED;
	if (ns >> 42) {
		rec->flags |= CALL_SHIFT_GAP | CALL_SHIFT_MORE_GAP;
		shift = 20;
	} else if (ns >> 32) {
		rec->flags |= CALL_SHIFT_GAP;
		shift = 10;
	}
	rec->gap = ns >> shift;
	rec->gap_on_cpu = p.on_cpu >> shift;
	rec->gap_runnable = p.runnable >> shift;
	rec->gap_throttled = p.throttled >> shift;
	if (p.on_cpu < LONG_GAP)
		return;
	t->clock.used_s = rec->start_ns / 1000000000;
	rec->gap_stack = most_of_gap(tid, t->returned_ns);
	if (rec->gap_stack)
		rec->flags |= CALL_GAP_STACK;
}
