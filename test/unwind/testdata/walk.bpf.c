// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Outputs the stack of each call of a probed function, using only bpf/walk.h. */
#include "../../../bpf/vmlinux/vmlinux.h"
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../../../bpf/abi.h"
#include "../../../bpf/unwind.h"
#include "../../../bpf/walk.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct walk);
} walks SEC(".maps");

const struct walk no_walk = {};

/* Number of walks, and the time of the fastest: the others were disturbed. */
volatile __u64 walked = 0;
volatile __u64 walked_ns = ~0ULL;
const volatile bool quiet = false; /* output nothing */

static __always_inline int walk(struct pt_regs *ctx, bool at_return)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct walk *w = bpf_map_lookup_elem(&walks, &tid);
	__u64 from, ns;

	if (!w) {
		bpf_map_update_elem(&walks, &tid, &no_walk, BPF_ANY);
		w = bpf_map_lookup_elem(&walks, &tid);
		if (!w)
			return 0;
	}
	from = bpf_ktime_get_ns();
	walk_user(ctx, at_return, w);
	ns = bpf_ktime_get_ns() - from;
	if (ns < walked_ns)
		walked_ns = ns;
	__sync_fetch_and_add(&walked, 1);
	w->pc = tid; /* beyond the result, which ends the struct */
	if (!quiet)
		bpf_ringbuf_output(&stacks, w, offsetof(struct walk, sp), 0);
	return 0;
}

SEC("uprobe")
int walk_entry(struct pt_regs *ctx)
{
	return walk(ctx, false);
}

SEC("uretprobe")
int walk_return(struct pt_regs *ctx)
{
	return walk(ctx, true);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(walk_fork, struct task_struct *parent, struct task_struct *child)
{
	if (child->tgid != parent->tgid)
		fork_space(parent->tgid, child->tgid);
	return 0;
}

/* Keeps types in the object's BTF that Go needs and no map mentions. */
#define EXPORT(kind, name) const kind name *export_##name __attribute__((unused))
EXPORT(enum, walk_end);
EXPORT(enum, unwind_kind);
EXPORT(enum, unwind_means);
