// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Faults that the NVIDIA driver reports: Xids of GPUs, SXids of NVSwitches. A separate object,
 * since faults can be read without tracing.
 */
#include "vmlinux/vmlinux.h"
#include <bpf/bpf_helpers.h>

/* A fault. */
struct record {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 code;
	__u32 is_switch; /* an SXid of an NVSwitch */
	char dev[24]; /* PCI address */
	char msg[472]; /* truncated to this size */
};
_Static_assert(sizeof(struct record) == 512, "record");

/*
 * Offsets of fields in the tracepoint's record, in bytes: read from its format file, since the next
 * driver may move them. The program is loaded once for each tracepoint. probes.Xids
 */
const volatile __u32 dev_off = 8; /* __data_loc char[] dev */
const volatile __u32 code_off = 12; /* u32 error_code */
const volatile __u32 msg_off = 16; /* __data_loc char[] msg */
const volatile __u32 is_switch; /* the device is an NVSwitch */

/* Faults dropped because the ring was full. Read by user space. */
volatile __u64 lost = 0;

/*
 * xids: the faults. Written by on_xid, read by a blocked reader that is woken for each. Room for
 * 2,000; when full, a fault is counted in lost.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} xids SEC(".maps");

/* Copies a string of the record: a __data_loc is its offset, and its length in the upper half. */
static __always_inline void text(char *to, __u32 size, void *record, __u32 off)
{
	__u32 loc = 0;

	to[0] = 0;
	if (!bpf_probe_read_kernel(&loc, sizeof(loc), record + off))
		bpf_probe_read_kernel_str(to, size, record + (loc & 0xffff));
}

/* Runs as the driver reports, with preemption off. */
SEC("tracepoint")
int on_xid(void *record)
{
	struct record *x = bpf_ringbuf_reserve(&xids, sizeof(*x), 0);

	if (!x) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	x->time_ns = bpf_ktime_get_ns();
	x->is_switch = is_switch;
	x->code = 0;
	bpf_probe_read_kernel(&x->code, sizeof(x->code), record + code_off);
	text(x->dev, sizeof(x->dev), record, dev_off);
	text(x->msg, sizeof(x->msg), record, msg_off);
	bpf_ringbuf_submit(x, BPF_RB_FORCE_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Keeps a type in the object's BTF that Go needs. */
const struct record *export_record __attribute__((unused));
