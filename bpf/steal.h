// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The hypervisor's part of the ledger: a thread on a virtual CPU may be without a hardware CPU. */
#pragma once

#if defined(__TARGET_ARCH_x86)
/*
 * Offset from a CPU's run queue to KVM's stolen time of that CPU, in bytes; 0: none. KVM updates it
 * before the CPU continues, in ns.
 */
const volatile __s64 steal_from_rq = 0;
#endif

/* Time the hypervisor has stolen from a task's CPU so far, ns. 0: unknown. */
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

/* The hypervisor has stolen more from the thread's CPU: the thread waited meanwhile. */
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
	/* A switch in the middle does all of this: the one that moves the base counts the time. */
	if (k->state != WAIT_NONE || !__sync_bool_compare_and_swap(&k->stolen_base, base, stolen))
		return 0;
	now = bpf_ktime_get_ns();
	ns = stolen - base;
	there = now - k->since; /* negative if the clock stepped back */
	if (ns > there)
		ns = there;
	if (!base || ns < 0 || k->cpu != cpu_of(task)) /* its switch-in was missed */
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

/* Adds the time stolen since the thread got its CPU to the account. */
static __always_inline void settle(struct thread *t, struct task_struct *task)
{
	__u64 stolen = stolen_from(task);

	if (stolen != t->clock.stolen_base) /* rarely */
		take_stolen(t, task, stolen);
}
