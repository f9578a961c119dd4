// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Signals that stop or kill a traced process, and their senders. */
#pragma once

#define BIT(n) (1ULL << (n))
#define SIG_STOPS (BIT(19) | BIT(20) | BIT(21) | BIT(22)) /* SIGSTOP to SIGTTOU */
#define SIG_NEVER_CAUGHT (BIT(9) | BIT(19)) /* SIGKILL, SIGSTOP */
#define KERNEL_OWN ((void *)1) /* SEND_SIG_PRIV */
/* No effect by default: SIGCHLD, SIGCONT, SIGURG, SIGWINCH. */
#define SIG_HARMLESS (BIT(17) | BIT(18) | BIT(23) | BIT(28))

/* Does the thread block the signal? sigtimedwait() unblocks what it waits for. */
static __always_inline bool is_blocked(struct task_struct *task, int sig)
{
	return (task->blocked.sig[0] | task->real_blocked.sig[0]) >> ((sig - 1) & 63) & 1;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int sig, void *info, struct task_struct *task, int group, int result)
{
	struct task_struct *sender = bpf_get_current_task_btf();
	struct host_event e = { .key = { .kind = HOST_SIGNAL }, .ns = -1 };
	struct proc_record rec = { .kind = RECORD_KILL };
	struct sighand_struct *hand;
	void *handler = NULL;
	struct target *p;
	__u32 tgid;

	if (sig < 1 || sig > 63 || SIG_HARMLESS >> sig & 1)
		return 0;
	tgid = task->tgid;
	p = bpf_map_lookup_elem(&targets, &tgid);
	if (!p)
		return 0;
	if (SIG_STOPS >> sig & 1)
		set_who(&p->stopper, sender);
	if (result) /* ignored, or already pending */
		return 0;
	hand = task->sighand;
	bpf_probe_read_kernel(&handler, sizeof(handler),
			      &hand->action[(sig - 1) & 63].sa.sa_handler);
	/* It has a handler, or ignores it, or takes it by sigwait() or signalfd. */
	if (!(SIG_NEVER_CAUGHT >> sig & 1) && (handler || is_blocked(task, sig)))
		return 0;
	e.key.tgid = tgid;
	e.key.object[0] = sig;
	if (info == KERNEL_OWN && sig == SIGSTOP && p->flags & TARGET_GATE && sender->tgid == tgid)
		return 0; /* by gate(): ingero's own */
	if (info != KERNEL_OWN && !in_interrupt(sender)) {
		rec.peer = sender->tgid;
		e.key.object[0] |= (__u64)rec.peer << 32;
		bpf_get_current_comm(rec.comm, sizeof(rec.comm));
		__builtin_memcpy(e.comm, rec.comm, sizeof(e.comm));
	}
	host_add(&e);
	if (SIG_STOPS >> sig & 1) /* its waits have the time */
		return 0;
	rec.signal = sig;
	rec.tgid = tgid;
	rec.tid = task->pid;
	rec.time_ns = bpf_ktime_get_ns();
	emit_proc(&rec);
	return 0;
}
