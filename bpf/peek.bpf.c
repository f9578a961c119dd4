// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Reads process memory where a security module denies that to user space
 * (kernel.yama.ptrace_scope=3). A separate object, since it needs Linux 5.18.
 */
#include "vmlinux/vmlinux.h"
#include <bpf/bpf_helpers.h>

#define PEEK_BYTES 4096

/* The context of this iterator's programs. */
struct bpf_iter__task {
	void *meta;
	struct task_struct *task;
};

enum peek_found {
	PEEK_NOBODY, /* no such process */
	PEEK_PARTLY, /* partly unreadable */
	PEEK_ALL,
};

/* A request, and its result. */
struct peek {
	__u32 tgid;
	__u32 bytes; /* at most PEEK_BYTES */
	__u64 at;
	enum peek_found found;
	__u32 pad;
	__u8 data[PEEK_BYTES];
};

/* peeks: the request. Written by user space, answered by peek_task. probes.Peeker */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct peek);
} peeks SEC(".maps");

/* Visits all threads. Any thread of a process has its memory, unless it is ending. */
SEC("iter.s/task")
int peek_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 key = 0, bytes;
	struct peek *p = bpf_map_lookup_elem(&peeks, &key);

	if (!task || !p || p->found == PEEK_ALL || task->tgid != p->tgid)
		return 0;
	bytes = p->bytes;
	if (bytes > PEEK_BYTES)
		return 0;
	p->found = PEEK_PARTLY;
	if (!bpf_copy_from_user_task(p->data, bytes, (void *)p->at, task, 0))
		p->found = PEEK_ALL;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
