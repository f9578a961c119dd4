// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Process events of traced processes: fork, exec, exit, and the gate for new programs. */
#pragma once

/* Reports whether user space will get the event. */
static __always_inline bool tell(__u8 kind, struct task_struct *task, __u32 peer)
{
	struct proc_record rec = {
		.kind = kind,
		.tgid = task->tgid,
		.tid = task->pid,
		.peer = peer,
		.time_ns = bpf_ktime_get_ns(),
	};

	bpf_probe_read_kernel_str(rec.comm, sizeof(rec.comm), task->comm);
	return emit_proc(&rec);
}

/*
 * The calling process as the programs see it: its number in the root PID namespace. User space
 * compares it with its own number.
 */
SEC("syscall")
int whoami(void *ctx)
{
	return bpf_get_current_pid_tgid() >> 32;
}

/* A child process is traced before it can run. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = parent->tgid, new = child->tgid;
	struct target *p, inherited;

	if (new == tgid) /* a thread */
		return 0;
	p = bpf_map_lookup_elem(&targets, &tgid);
	if (!p || !p->follow)
		return 0;
	inherited = *p;
	inherited.wakers[0] = inherited.wakers[1] = 0; /* enrolled for the parent */
	if (bpf_map_update_elem(&targets, &new, &inherited, BPF_ANY)) {
		drop(DROP_TARGETS_FULL);
		return 0;
	}
	fork_space(tgid, new);
	py_fork(tgid, new);
	tell(RECORD_FORK, parent, new);
	return 0;
}

/*
 * Does a thread that has begun a new program keep its account? An enrolled one does: it has no open
 * calls, and the wait for it goes on. Its stacks were those of the last program.
 */
static __always_inline bool keeps_account(__u32 tid)
{
	struct thread *t = tracked(tid) ? bpf_map_lookup_elem(&threads, &tid) : NULL;

	if (!t || !t->clock.hop)
		return false;
	bpf_map_delete_elem(&profiles, &tid);
	t->tstate = 0;
	return true;
}

/* A new program has none of its predecessor's open calls. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid)
{
	__u32 tgid = task->tgid;

	if (!bpf_map_lookup_elem(&targets, &tgid))
		return 0;
	if (old_pid != task->pid || !keeps_account(task->pid)) {
		forget_thread(old_pid);
		forget_thread(task->pid);
	}
	drop_space(tgid);
	py_forget(tgid);
	tell(RECORD_EXEC, task, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	forget_thread(task->pid);
	if (task->signal->live.counter > 0) /* other threads still run */
		return 0;
	/* All threads that end together come here: one of them reports the exit. */
	if (bpf_map_delete_elem(&targets, &tgid))
		return 0;
	tell(RECORD_EXIT, task, 0);
	bpf_map_delete_elem(&levers, &tgid);
	drop_space(tgid);
	py_forget(tgid);
	return 0;
}

#if defined(__TARGET_ARCH_x86)
#define NR_MMAP 9
#define MMAP_PROT(regs) BPF_CORE_READ(regs, dx)
#define MMAP_FD(regs) BPF_CORE_READ(regs, r8)
#else
#define NR_MMAP 222
#define MMAP_PROT(regs) BPF_CORE_READ(regs, user_regs.regs[2])
#define MMAP_FD(regs) BPF_CORE_READ(regs, user_regs.regs[4])
#endif
/* Seven characters as the number that they form in memory, little-endian. */
#define WORD(s)                                                                                    \
	((__u64)(s)[0] | (__u64)(s)[1] << 8 | (__u64)(s)[2] << 16 | (__u64)(s)[3] << 24 |          \
	 (__u64)(s)[4] << 32 | (__u64)(s)[5] << 40 | (__u64)(s)[6] << 48)
#define PROT_EXEC 4
#define SIGSTOP 19
#define SIGCONT 18

volatile __u32 gates_open = 0; /* set once user space resumes no more processes */

/*
 * Stops a program that ingero itself started when it maps a CUDA library, so that its first call is
 * seen: the signal takes effect as mmap returns, user space attaches and resumes it. Attached for
 * `ingero run` only, since it sees every system call of the machine.
 */
SEC("tp_btf/sys_enter")
int BPF_PROG(gate, struct pt_regs *regs, long nr)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct task_struct *task;
	struct target *p;
	struct file *file;
	const unsigned char *name;
	__u64 head = 0; /* seven characters and the terminator */

	if (nr != NR_MMAP || gates_open)
		return 0;
	p = bpf_map_lookup_elem(&targets, &tgid);
	if (!p || !(p->flags & TARGET_GATE) || !(MMAP_PROT(regs) & PROT_EXEC))
		return 0;
	task = bpf_get_current_task_btf();
	file = file_of(task, (__u32)MMAP_FD(regs));
	if (!file)
		return 0;
	name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	bpf_probe_read_kernel_str(&head, sizeof(head), name);
	if (head != WORD("libcuda") && head != WORD("libnccl") && head != WORD("libnvTo"))
		return 0;
	if (!bpf_send_signal(SIGSTOP) && !tell(RECORD_GATE, task, 0))
		bpf_send_signal(SIGCONT); /* nobody else would resume it */
	return 0;
}
