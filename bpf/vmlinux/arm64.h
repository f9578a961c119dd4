// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Registers of arm64 (arch/arm64/include/uapi/asm/ptrace.h): a program's context. */
#pragma once

struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};

struct pt_regs {
	struct user_pt_regs user_regs;
};

/* What a system call leaves there, beyond what a program's context shows. */
struct pt_regs___syscall {
	__u64 orig_x0;
	__s32 syscallno;
} __attribute__((preserve_access_index));

struct thread_struct {
	struct {
		unsigned long tp_value; /* the thread pointer of user space */
	} uw;
} __attribute__((preserve_access_index));
