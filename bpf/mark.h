// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Marks on the clocks of a thread, and the parts of the time between two of them. */
#pragma once

const volatile bool ledger = true; /* Settings.NoLedger: false: by the scheduler's own figures */

static __always_inline void snap(struct task_struct *task, struct snapshot *s)
{
	s->run_delay = task->sched_info.run_delay;
	s->nvcsw = task->nvcsw;
	s->switches = s->nvcsw + task->nivcsw;
	s->sum_exec = task->se.sum_exec_runtime;
	s->exec_start = task->se.exec_start;
	s->migrations = task->se.nr_migrations;
}

/* A thread that runs this program has a CPU, whatever the ledger has seen of that. */
static __noinline int found_running(struct clock *k)
{
	if (!k)
		return 0;
	k->missed++;
	unqueue(k);
	k->state = WAIT_NONE;
	k->since = bpf_ktime_get_ns();
	k->stolen_base = 0;
	return 0;
}

/* Notes where the clocks of the current thread stand. */
static __always_inline void note(struct task_struct *task, struct thread *t, struct mark *m)
{
	snap(task, &m->task);
	if (!ledger)
		return;
	if (t->clock.state != WAIT_NONE)
		found_running(&t->clock);
	m->off = t->clock.account.off;
	m->unseen = m->task.switches - t->clock.switches + t->clock.missed;
}

/* Notes where the clocks stand now and returns the time. */
static __always_inline __u64 mark(struct task_struct *task, struct thread *t, struct mark *m)
{
	for (int i = 0; i < 2; i++) {
		__u64 since = t->clock.since, now;

		note(task, t, m);
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
	bool unseen; /* by the scheduler's figures, since the ledger missed a switch */
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

/* Raises what the ledger has of a part, here and in the account, to what it is. */
static __always_inline void raise(__u64 *sum, __u64 *now, __u64 from, __u64 is)
{
	__u64 has = *now - from;

	if (is <= has)
		return;
	add(sum, is - has);
	*now += is - has;
}

/*
 * The time between two marks when the ledger has not seen all that happened: a
 * kernel can have threads whose switches it does not show. The scheduler's own
 * figures tell, and the account is mended by them.
 */
static __always_inline void split_unseen(struct thread *t, const struct mark *a, struct mark *b,
					 __u64 ns, struct parts *p)
{
	struct sums *off = &t->clock.account.off;
	__u64 left;

	split_by_scheduler(&a->task, &b->task, ns, p);
	left = p->runnable; /* throttled is a part of it there */
	p->throttled = take_from(&left, b->off.throttled - a->off.throttled);
	p->runnable = left;
	raise(&off->runnable, &b->off.runnable, a->off.runnable, p->runnable);
	if (!p->partial)
		raise(&off->blocked, &b->off.blocked, a->off.blocked,
		      ns - p->on_cpu - p->runnable - p->throttled);
	p->unseen = true;
}

/*
 * Splits ns, the time of a thread between two marks. A function of its own to the
 * verifier: what follows it would be looked at for each way through it.
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
