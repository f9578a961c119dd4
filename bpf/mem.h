// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Memory: what traced processes do for lack of it, and the processes that the kernel kills. */
#pragma once

const volatile __u32 page_bytes = 4096; /* of this machine */
const volatile bool oom_has_task = true; /* mark_victim's argument is a task, since 6.8 */

/*
 * reclaiming: thread -> start of its direct reclaim. Written by a traced thread at the start,
 * deleted at the end. When full, it counts only as dropped.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} reclaiming SEC(".maps");

static __always_inline int reclaim_begins(void)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u64 now;

	if (!current_target())
		return 0;
	now = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&reclaiming, &tid, &now, BPF_ANY))
		drop(DROP_HOST_BEGUN);
	return 0;
}

static __always_inline int reclaim_ends(__u16 kind, __u64 pages)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u64 *since = bpf_map_lookup_elem(&reclaiming, &tid);
	struct host_event e = {};

	if (!since)
		return 0;
	e.key.kind = kind;
	e.key.tgid = bpf_get_current_pid_tgid() >> 32;
	e.ns = bpf_ktime_get_ns() - *since;
	e.bytes = pages * page_bytes;
	bpf_get_current_comm(e.comm, sizeof(e.comm));
	bpf_map_delete_elem(&reclaiming, &tid);
	return host_add(&e);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(on_reclaim)
{
	return reclaim_begins();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(on_reclaimed, unsigned long pages)
{
	return reclaim_ends(HOST_RECLAIM, pages);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(on_cgroup_reclaim)
{
	return reclaim_begins();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(on_cgroup_reclaimed, unsigned long pages)
{
	return reclaim_ends(HOST_CGROUP_RECLAIM, pages);
}

/* The kernel kills a process, traced or not, for lack of memory. */
SEC("tp_btf/mark_victim")
int on_oom(__u64 *ctx)
{
	struct proc_record rec = { .kind = RECORD_OOM, .time_ns = bpf_ktime_get_ns() };
	struct host_event e = { .key = { .kind = HOST_OOM }, .ns = -1 };

	if (oom_has_task) {
		struct task_struct *task = (struct task_struct *)ctx[0];

		rec.tgid = task->tgid;
		rec.tid = task->pid;
		bpf_probe_read_kernel_str(rec.comm, sizeof(rec.comm), task->comm);
	} else {
		rec.tid = rec.tgid = ctx[0];
	}
	e.key.tgid = rec.tgid;
	__builtin_memcpy(e.comm, rec.comm, sizeof(e.comm));
	host_add(&e);
	emit_proc(&rec);
	return 0;
}

/*
 * page_counts: (process, order) -> allocations, per CPU. Added to by traced processes while --pages
 * is on, read once a second. When full, counted as dropped.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct pages_key);
	__type(value, __u64);
} page_counts SEC(".maps");

SEC("tp_btf/mm_page_alloc")
int BPF_PROG(on_pages, void *page, unsigned int order)
{
	struct pages_key key = { .order = order };
	__u64 *n, one = 1;

	key.tgid = current_target();
	if (!page || !key.tgid || in_interrupt(bpf_get_current_task_btf()))
		return 0;
	n = bpf_map_lookup_elem(&page_counts, &key);
	if (!n) {
		__u64 zero = 0;

		bpf_map_update_elem(&page_counts, &key, &zero, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&page_counts, &key);
	}
	if (n)
		add(n, one);
	else
		drop(DROP_HOST_FULL);
	return 0;
}
