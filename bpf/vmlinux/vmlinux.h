// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The kernel's types, trimmed to the fields that are read here. Offsets are
 * relocated at load time against the running kernel's BTF, so order and size
 * carry no meaning. `make vmlinux` checks each field against a kernel.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include <linux/bpf.h>
#include <stdbool.h>

#if defined(__TARGET_ARCH_x86)
#include "x86.h"
#elif defined(__TARGET_ARCH_arm64)
#include "arm64.h"
#else
#error "unknown target architecture"
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct sched_info {
	unsigned long long run_delay;
};

struct sched_entity {
	__u64 exec_start;
	__u64 sum_exec_runtime;
	__u64 nr_migrations;
};

struct signal_struct {
	atomic_t live;
};

struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	struct uprobes_state uprobes_state;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	int pid;
	int tgid;
	unsigned long nvcsw;
	struct sched_entity se;
	struct sched_info sched_info;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct files_struct *files;
	char comm[16];
};

#pragma clang attribute pop

#endif
