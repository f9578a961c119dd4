// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Who ends a wait, and which wakers are enrolled: what a waker did meanwhile explains the wait, and
 * the wakers of its own waits explain those.
 */
#pragma once

/* Arguments of retire: a thread, and its used_s at the decision. */
struct retire_args {
	__u32 tid;
	__u32 used_s;
};

#define PF_EXITING 0x00000004 /* include/linux/sched.h */

const volatile bool follow_wakers = true; /* Options.NoWakers: false */
const volatile __u32 agent_tgid = 0; /* the agent; 0: may be enrolled like others */

/* The current thread, without an account, has ended a long wait: it may be enrolled. */
__noinline int count_waker(struct thread *t, __u32 wakee, __u32 tid, bool of_job)
{
	__u32 n;

	if (!t)
		return 0;
	n = tid & (WAKERS - 1);
	if (t->clock.waker_tid[n] != tid) {
		t->clock.waker_tid[n] = tid;
		t->clock.waker_count[n] = 0;
	}
	if (++t->clock.waker_count[n] < (of_job ? 1 : ENROL_AFTER))
		return 0;
	t->clock.waker_count[n] = 0; /* it may be retired and enrolled again */
	enrol(t->clock.hop ? t->clock.enrolled_for : t->tgid, wakee, t->clock.hop + 1);
	return 0;
}

/*
 * Does a thread that makes traced calls wait for this one, directly or through others? The thread
 * it woke last is blocked again.
 */
static __always_inline bool awaited(const struct thread *t)
{
	__u32 tid = t->wakes;
	struct thread *down;

	if (!t->clock.hop)
		return true;
	down = bpf_map_lookup_elem(&threads, &tid);
	return down && down->clock.state == WAIT_BLOCKED;
}

/*
 * Is a waker of the same job: of the thread's process, a child or grandchild of that (the workers of
 * Python's fork server), or a traced process?
 */
static __always_inline bool of_same_job(const struct thread *t, struct task_struct *waker)
{
	struct task_struct *parent = waker->real_parent;
	__u32 tgid = waker->tgid;

	return tgid == t->tgid || parent->tgid == t->tgid || parent->real_parent->tgid == t->tgid ||
	       bpf_map_lookup_elem(&targets, &tgid);
}

/* The current thread, without an account, has ended a long wait of a tracked thread. */
static __always_inline void may_enrol(struct thread *t, __u32 wakee, struct task_struct *waker)
{
	if (!waker->mm)
		drop(DROP_WAKER_KERNEL);
	else if (agent_tgid && waker->tgid == agent_tgid)
		drop(DROP_WAKER_AGENT);
	else if (t->clock.hop >= MAX_HOPS)
		drop(DROP_WAKER_TOO_FAR);
	else
		count_waker(t, wakee, waker->pid, of_same_job(t, waker));
}

/*
 * The current thread ends a long wait. What it did meanwhile explains the wait, so it gets an
 * account, or is marked as useful.
 */
static __always_inline void follow_waker(struct thread *t, __u32 wakee, struct task_struct *waker,
					 __u64 now)
{
	__u32 tid = waker->pid;
	struct thread *w;

	if (waker->flags & PF_EXITING) /* nothing would end its account */
		return;
	if (!tracked(tid)) {
		if (awaited(t))
			may_enrol(t, wakee, waker);
		return;
	}
	w = bpf_map_lookup_elem(&threads, &tid);
	if (!w)
		return;
	w->clock.used_s = now / 1000000000;
	if (w->wakes != wakee)
		woke_another(tid, w->wakes);
	w->wakes = wakee;
	if (take_stacks != STACKS_NONE && !t->clock.waker_stack)
		t->clock.waker_stack = most_of(tid, t->clock.since);
}

/*
 * Is the socket's peer on this machine? Then both ends have one address. IPv4 and IPv6 keep it in
 * different places; IPv6 also for mapped IPv4 addresses.
 */
static __always_inline bool stays_here(const struct sock *sk)
{
	const struct sock_common *c = &sk->__sk_common;
	__u64 to[2] = {}, from[2] = {};

	switch (BPF_CORE_READ(c, skc_family)) {
	case AF_INET:
		to[1] = BPF_CORE_READ(c, skc_daddr);
		from[1] = BPF_CORE_READ(c, skc_rcv_saddr);
		break;
	case AF_INET6:
		bpf_probe_read_kernel(to, sizeof(to), &c->skc_v6_daddr);
		bpf_probe_read_kernel(from, sizeof(from), &c->skc_v6_rcv_saddr);
	}
	return (to[0] || to[1]) && to[0] == from[0] && to[1] == from[1];
}

/*
 * Data for a local socket is delivered by the sending thread, in a soft interrupt that its system
 * call runs.
 */
static __always_inline bool delivers(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u32 nr = SYSCALL_NR(regs);
	struct socket *socket;
	struct file *file;

	if (!task->mm || !is_file_call(nr))
		return false;
	file = file_of(task, SYSCALL_ARG(regs));
	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return false;
	socket = BPF_CORE_READ(file, private_data);
	return stays_here(BPF_CORE_READ(socket, sk));
}

/*
 * Finds the waker of a traced thread. sched_wakeup has the time, but may run on another CPU than
 * the waker's. An interrupt is not the act of the interrupted thread, unless that thread delivers
 * its own data.
 */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct thread *t = followed(task);
	struct task_struct *waker;
	bool longer;
	__u64 now;
	int irq;

	if (!t ||
	    (t->clock.state == WAIT_RUNNABLE && t->clock.blocked_since)) /* of a later block */
		return 0;
	waker = bpf_get_current_task_btf();
	irq = in_interrupt(waker);
	t->clock.woken_by_irq = irq && (irq != SOFT_INTERRUPT || !delivers(waker));
	if (t->clock.woken_by_irq)
		return 0;
	set_who(&t->clock.waker, waker);
	t->clock.waker_stack = 0;
	now = bpf_ktime_get_ns();
	longer = is_told(&t->clock, now - t->clock.since);
	if (t->clock.state != WAIT_BLOCKED || !(longer || t->clock.gil_holder & GIL_AGAIN))
		return 0;
	if (take_stacks != STACKS_NONE && waker->tgid == t->tgid && t->clock.gil_holder)
		t->clock.waker_stack = lock_stack();
	if (longer && follow_wakers)
		follow_waker(t, task->pid, waker, now);
	return 0;
}

/*
 * Frees the slot of an enrolled thread that has ended no long wait for a while. Its account ends
 * when it next blocks: only the thread itself may end it.
 */
SEC("syscall")
int retire(struct retire_args *args)
{
	__u32 tid = args->tid;
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);

	if (t && t->clock.hop && t->clock.used_s == args->used_s)
		unenrol(t);
	return 0;
}
