// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The hypervisor's part of the ledger: a virtual machine's thread that has a CPU of its
 * kernel's need not have one of the hardware's.
 */
#pragma once

#if defined(__TARGET_ARCH_x86)
/*
 * From a CPU's run queue to KVM's account of what others had of that CPU, in bytes; 0: there
 * is none. KVM writes it before it lets the CPU go on, in ns.
 */
const volatile __s64 steal_from_rq = 0;
#endif

/* What the hypervisor has taken so far from the CPU that a task is on: ns. 0: it is not known. */
static __always_inline __u64 stolen_from(const struct task_struct *task)
{
	__u64 ns = 0;
#if defined(__TARGET_ARCH_x86)
	void *rq = steal_from_rq ? rq_of(task) : NULL;

	if (rq)
		bpf_probe_read_kernel(&ns, sizeof(ns), rq + steal_from_rq);
#endif
	return ns;
}

/* The hypervisor has taken more from the thread's CPU, on which it is: it waited for that. */
static __noinline int take_stolen(struct thread *t, struct task_struct *task, __u64 stolen)
{
	struct wait_record rec = { .kind = RECORD_WAIT, .state = WAIT_STOLEN };
	__u64 base, now;
	__s64 ns, there;
	struct clock *k;

	if (!t || !task)
		return 0;
	k = &t->clock;
	base = k->stolen_base;
	/* A switch in the middle of this does it all itself: who moves the base on has the time. */
	if (k->state != WAIT_NONE || !__sync_bool_compare_and_swap(&k->stolen_base, base, stolen))
		return 0;
	now = bpf_ktime_get_ns();
	ns = stolen - base;
	there = now - k->since; /* below 0 where the clock stepped back */
	if (ns > there)
		ns = there;
	if (!base || ns < 0 || k->cpu != cpu_of(task)) /* its coming was not seen */
		return 0;
	__sync_fetch_and_add(&k->account.off.runnable, ns);
	if (!is_long(ns))
		return 0;
	rec.op = t->depth ? t->open[0].rec.op : 0;
	rec.cpu = k->cpu;
	rec.hop = k->hop;
	rec.tgid = t->tgid;
	rec.tid = task->pid;
	rec.start_ns = now - ns;
	rec.ns = rec.taken_ns = ns;
	emit_wait(&rec);
	return 0;
}

/* Brings the account up to what the hypervisor has taken since the thread came to its CPU. */
static __always_inline void settle(struct thread *t, struct task_struct *task)
{
	__u64 stolen = stolen_from(task);

	if (stolen != t->clock.stolen_base) /* hardly ever */
		take_stolen(t, task, stolen);
}
