// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* What a thread that leaves its CPU waits for. */
#pragma once

/* Bit n: system call n's first argument is a file descriptor. Settings.FileCalls */
const volatile __u64 file_calls[MAX_SYSCALLS / 64];

#define STATE_STOPPED 0x0c /* __TASK_STOPPED | __TASK_TRACED */
#define STATE_TRACED 0x08
#define S_IFMT 0170000
#define S_IFCHR 0020000
#define S_IFBLK 0060000
#define S_IFSOCK 0140000
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10

#if defined(__TARGET_ARCH_x86)
#define SYSCALL_NR(regs) ((regs)->orig_ax)
#define SYSCALL_ARG(regs) ((regs)->di)
#else
#define SYSCALL_NR(regs) BPF_CORE_READ((struct pt_regs___syscall *)(regs), syscallno)
#define SYSCALL_ARG(regs) BPF_CORE_READ((struct pt_regs___syscall *)(regs), orig_x0)
#endif

/*
 * In block_flags only: the thread waited for the same lock before, until a timer. Python waits for
 * its lock in turns of 5 ms. The last turn, which the holder ends, is short.
 */
#define BLOCK_TURN WAIT_IDLE
#define COND_BYTES 48 /* of a glibc condition variable, which alternates several futexes */

/* Is a wait the next turn of the thread's last wait? */
static __always_inline bool next_turn(const struct clock *k, __u32 nr, __u64 arg)
{
	return nr == NR_FUTEX && k->on.syscall == NR_FUTEX && k->woken_by_irq &&
	       arg - k->on.arg + COND_BYTES < 2 * COND_BYTES;
}

/* An open file of a thread, NULL if none. */
static __always_inline struct file *file_of(struct task_struct *task, __u64 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **slot, *file = NULL;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	slot = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), slot + fd);
	return file;
}

/* Is the first argument of a system call a file descriptor? */
static __always_inline bool is_file_call(__u32 nr)
{
	__u32 at = nr / 64;

	barrier_var(at); /* otherwise the compiler drops the bound for the verifier */
	return nr < MAX_SYSCALLS && file_calls[at & (MAX_SYSCALLS / 64 - 1)] >> (nr & 63) & 1;
}

/* Kind and device of an open file. */
static __always_inline void look_at_file(struct block *on, struct task_struct *task)
{
	struct file *file = file_of(task, on->arg);
	struct inode *inode;

	if (!file)
		return;
	inode = BPF_CORE_READ(file, f_inode);
	on->mode = BPF_CORE_READ(inode, i_mode);
	if ((on->mode & S_IFMT) == S_IFCHR || (on->mode & S_IFMT) == S_IFBLK)
		on->dev = BPF_CORE_READ(inode, i_rdev);
	else
		on->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	if (!on->mode) /* shows that there is a file */
		on->mode = 1;
}

/* A debugger stops a thread. When the thread continues, its parent may have changed. */
static __always_inline void set_tracer(struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct target *p = bpf_map_lookup_elem(&targets, &tgid);

	if (p)
		set_who(&p->stopper, task->parent);
}

/* The sender of a thread's stop: see block(), and signal.h. */
static __always_inline void set_stopper(struct who *w, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct target *p = bpf_map_lookup_elem(&targets, &tgid);

	if (p)
		*w = p->stopper;
}

/*
 * The thread blocks: on what? If its last wait for Python's lock timed out, and the lock has not
 * been handed over since, the thread has asked the holder to release it (GIL_AGAIN).
 */
static __always_inline void block(struct clock *k, struct task_struct *task, __u32 state)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u32 nr = SYSCALL_NR(regs);
	bool turn = next_turn(k, nr, SYSCALL_ARG(regs));
	bool in_vain = k->gil_holder && k->woken_by_irq;
	__u32 passed = k->on.dev;
	struct gil gil;

	k->on = (struct block){ .syscall = -1 };
	k->block_flags = turn ? BLOCK_TURN : 0;
	k->gil_holder = 0;
	if (state & STATE_STOPPED)
		k->block_flags |= WAIT_STOPPED;
	if (state & STATE_TRACED)
		set_tracer(task);
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		k->block_flags |= WAIT_IO;
	if (nr > 0x7fff) /* none: a page fault, or an interrupt */
		return;
	k->on.syscall = nr;
	k->on.arg = SYSCALL_ARG(regs);
	read_gil(&gil, task->tgid, &k->on);
	if (gil.holder) {
		k->on.dev = gil.passed;
		if (in_vain && k->on.dev == passed)
			gil.holder |= GIL_AGAIN;
	}
	k->gil_holder = gil.holder;
	if (is_file_call(nr))
		look_at_file(&k->on, task);
}
