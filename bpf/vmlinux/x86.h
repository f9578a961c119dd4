// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* struct pt_regs of x86-64 (arch/x86/include/asm/ptrace.h), whole: a program's context. */
#pragma once

struct pt_regs {
	unsigned long r15;
	unsigned long r14;
	unsigned long r13;
	unsigned long r12;
	unsigned long bp;
	unsigned long bx;
	unsigned long r11;
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs;
	unsigned long flags;
	unsigned long sp;
	unsigned long ss;
};

struct thread_struct {
	unsigned long fsbase; /* the thread pointer of user space */
} __attribute__((preserve_access_index));
