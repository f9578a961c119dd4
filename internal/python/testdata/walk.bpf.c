// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The walker alone: each hit of a probe puts out the thread's Python frames. */
#include "vmlinux/vmlinux.h"
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "emit.h"
#include "pywalk.h"
#include "pytell.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Keeps it in the object's BTF. */
const enum py_end *export_py_end __attribute__((unused));

const volatile bool put_out = true; /* false: walk only */

/* A thread's state, and the record that is put out of it. */
struct state {
	__u64 tstate;
	__u32 kind; /* 0: none that the product has */
	__u32 tgid;
	__u32 tid;
	__u32 pad;
	__u64 arg; /* the call's first */
	struct py_walk walk;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

const struct state no_state = {};
volatile __u64 ends[PY_ENDS] = {};

SEC("uprobe")
int walk_probe(struct pt_regs *ctx)
{
	__u64 both = bpf_get_current_pid_tgid();
	__u32 tid = both;
	struct state *s;

	s = bpf_map_lookup_elem(&states, &tid);
	if (!s) {
		bpf_map_update_elem(&states, &tid, &no_state, BPF_ANY);
		s = bpf_map_lookup_elem(&states, &tid);
	}
	if (!s)
		return 0;
	walk_python(&s->walk, &s->tstate);
	__sync_fetch_and_add(&ends[s->walk.end & 7], 1);
	if (!put_out)
		return 0;
	tell_python(&s->walk);
	s->tgid = both >> 32;
	s->tid = tid;
	s->arg = (__u32)PT_REGS_PARM1(ctx);
	bpf_ringbuf_output(&call_ring, &s->kind, sizeof(*s) - offsetof(struct state, kind),
			   BPF_RB_FORCE_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(walk_fork, struct task_struct *parent, struct task_struct *child)
{
	if (parent->tgid != child->tgid)
		py_fork(parent->tgid, child->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(walk_exec, struct task_struct *task)
{
	py_forget(task->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(walk_exit, struct task_struct *task)
{
	__u32 tid = task->pid;

	bpf_map_delete_elem(&states, &tid);
	if (task->signal->live.counter <= 0)
		py_forget(task->tgid);
	return 0;
}
