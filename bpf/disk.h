// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Block I/O of all processes: any use of a disk slows others that wait for it. A request belongs to
 * the process that submitted it; later writeback of the page cache belongs to a kernel thread.
 */
#pragma once

#define REQUESTS 16384 /* in flight, at a time */
#define REQ_OP 0xff
#define REQ_OP_FLUSH 2 /* READ and WRITE are 0 and 1 */

struct in_flight {
	__u64 start_ns;
	struct host_event event;
};

/*
 * requests: request -> its event. Written at submission, deleted at completion. A request that was
 * merged into another stays until its address is reused. When full, a request counts only as
 * dropped.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, REQUESTS);
	__type(key, __u64);
	__type(value, struct in_flight);
} requests SEC(".maps");

static __always_inline int submit(struct request *rq)
{
	struct in_flight f = { .start_ns = bpf_ktime_get_ns() };
	__u32 op = rq->cmd_flags & REQ_OP;
	__u64 key = (__u64)rq;
	struct gendisk *disk;

	if (op > REQ_OP_FLUSH) { /* its end must not match an older one */
		bpf_map_delete_elem(&requests, &key);
		return 0;
	}
	disk = BPF_CORE_READ(rq, q, disk);
	f.event.key.kind = HOST_DISK_READ + op;
	f.event.key.tgid = bpf_get_current_pid_tgid() >> 32;
	f.event.key.object[0] =
		(__u64)BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor);
	bpf_get_current_comm(f.event.comm, sizeof(f.event.comm));
	if (bpf_map_update_elem(&requests, &key, &f, BPF_ANY))
		drop(DROP_HOST_BEGUN);
	return 0;
}

/* The request was created, by the process that needs it (6.5). */
SEC("tp_btf/block_io_start")
int BPF_PROG(on_io_start, struct request *rq)
{
	return submit(rq);
}

/* The driver gets the request; for kernels without block_io_start. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_io_issue, struct request *rq)
{
	return submit(rq);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_io_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	__u64 key = (__u64)rq;
	struct in_flight *f = bpf_map_lookup_elem(&requests, &key);
	__s64 ns;

	if (!f)
		return 0;
	f->event.bytes += nr_bytes;
	if (!error && nr_bytes < rq->__data_len) /* partial: more will follow */
		return 0;
	ns = bpf_ktime_get_ns() - f->start_ns;
	f->event.ns = ns < 0 ? 0 : ns;
	f->event.failed = error != 0;
	struct host_event e = f->event;
	bpf_map_delete_elem(&requests, &key);
	return host_add(&e);
}
