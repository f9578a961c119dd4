// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Marks on the clocks of a thread, and the parts of the time between two of them. */
#pragma once

static __always_inline void snap(struct task_struct *task, struct snapshot *s)
{
	s->run_delay = task->sched_info.run_delay;
	s->sum_exec = task->se.sum_exec_runtime;
	s->exec_start = task->se.exec_start;
	s->nvcsw = task->nvcsw;
	s->migrations = task->se.nr_migrations;
}

const volatile bool ledger = true; /* Settings.NoLedger: false: by the scheduler's own figures */

/* Notes where the clocks stand now and returns the time. */
static __always_inline __u64 mark(struct task_struct *task, const struct thread *t, struct mark *m)
{
	if (!ledger) {
		snap(task, &m->task);
		return bpf_ktime_get_ns();
	}
	for (int i = 0; i < 2; i++) {
		__u64 since = t->clock.since, now;

		m->off = t->clock.account.off;
		now = bpf_ktime_get_ns();
		if (since == t->clock.since) /* not switched in between */
			return now;
	}
	return bpf_ktime_get_ns();
}

/* The parts of a time between two marks, ns. Blocked is the rest. */
struct parts {
	__u64 on_cpu;
	__u64 runnable;
	__u64 throttled;
	bool partial; /* on_cpu is not known, and 0 */
};

/* Takes up to n from what is left. */
static __always_inline __u64 take_from(__u64 *left, __u64 n)
{
	if (n > *left)
		n = *left;
	*left -= n;
	return n;
}

/* Tier 0: all that the scheduler itself knows. */
static __always_inline void split_by_scheduler(const struct snapshot *a, const struct snapshot *b,
					       __u64 ns, struct parts *p)
{
	__u64 left = ns;
	__s64 run;

	p->throttled = 0;
	p->runnable = take_from(&left, b->run_delay - a->run_delay);
	p->on_cpu = left;
	p->partial = false;
	if (a->nvcsw == b->nvcsw) /* never gave the CPU away by itself: never blocked */
		return;
	if (a->migrations != b->migrations) { /* exec_start is in a clock of its CPU */
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

static __always_inline void split(const struct mark *a, const struct mark *b, __u64 ns,
				  struct parts *p)
{
	__u64 left = ns;

	if (!ledger) {
		split_by_scheduler(&a->task, &b->task, ns, p);
		return;
	}
	p->runnable = take_from(&left, b->off.runnable - a->off.runnable);
	p->throttled = take_from(&left, b->off.throttled - a->off.throttled);
	take_from(&left, b->off.blocked - a->off.blocked);
	p->on_cpu = left;
	p->partial = false;
}
