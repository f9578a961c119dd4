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

struct task_struct;

struct rq {
	struct task_struct *curr;
};

struct cfs_rq {
	struct rq *rq;
	__u64 throttled_clock_self_time; /* 6.6: ns that it was throttled, but for now */
	__u64 throttled_clock_pelt_time; /* 5.19 */
	__u64 throttled_clock_task_time; /* before 5.19 */
};

struct task_group {
	struct cfs_rq **cfs_rq;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct sched_entity {
	__u64 exec_start;
	__u64 sum_exec_runtime;
	__u64 nr_migrations;
	struct cfs_rq *cfs_rq;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

struct sighand_struct {
	struct k_sigaction action[64];
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk; /* 5.15 */
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
};

struct in6_addr {
	char in6_u; /* 16 bytes, read as such */
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	unsigned char sk_userlocks : 4;
	unsigned short sk_type;
	unsigned short sk_protocol;
};

struct sockaddr_un {
	unsigned short sun_family;
	char sun_path[108];
};

struct unix_address {
	int len; /* of name */
	struct sockaddr_un name[];
};

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};

struct socket {
	struct sock *sk;
};

struct tcp_sock {
	__u64 tcp_clock_cache; /* CLOCK_MONOTONIC ns: of the last packet */
	__u32 write_seq;
	__u32 snd_una;
	__u32 srtt_us; /* times 8 */
};

struct inet_bind_bucket {
	signed char fastreuseport;
};

struct inet_connection_sock {
	struct inet_bind_bucket *icsk_bind_hash;
	struct {
		__u32 lrcvtime; /* jiffies: of the last data */
	} icsk_ack;
};

struct sk_buff {
	unsigned int len;
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

struct return_instance {
	unsigned long stack; /* where the return address was, or on arm64 the stack pointer */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances;
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

struct super_block {
	unsigned int s_dev;
};

struct list_head {
	struct list_head *next;
};

struct file_lock_context {
	struct list_head flc_flock;
	struct list_head flc_posix;
};

struct inode {
	unsigned short i_mode;
	unsigned int i_rdev;
	struct super_block *i_sb;
	struct file_lock_context *i_flctx;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
};

struct file_lock_core { /* 6.9 */
	struct list_head flc_list;
	void *flc_owner;
	unsigned char flc_type;
	int flc_pid;
	struct file *flc_file;
};

struct file_lock {
	struct file_lock_core c; /* 6.9 */
	long long fl_start;
	long long fl_end;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

#if defined(__TARGET_ARCH_x86)
struct thread_info {
	__u32 cpu;
};
#else
struct thread_info {
	__u32 cpu;
	__u64 preempt_count;
};
#endif

struct task_struct {
	struct thread_info thread_info;
	unsigned int cpu; /* before 5.16 */
	int pid;
	int tgid;
	unsigned int __state;
	unsigned int flags;
	unsigned in_iowait : 1;
	struct task_struct *parent; /* who traces it, if anyone does */
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct task_group *sched_task_group;
	struct css_set *cgroups;
	unsigned long long self_exec_id; /* grows with each exec */
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long long start_boottime; /* ns */
	struct sched_entity se;
	struct sched_info sched_info;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	sigset_t blocked;
	sigset_t real_blocked;
	struct mm_struct *mm;
	struct files_struct *files;
	struct uprobe_task *utask;
	char comm[16];
	struct thread_struct thread;
};

#pragma clang attribute pop

#endif
