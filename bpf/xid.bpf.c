// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Faults that the NVIDIA driver reports: Xids of GPUs, SXids of NVSwitches. An
 * object of its own, since who waits for them need not trace.
 */
#include "vmlinux/vmlinux.h"
#include <bpf/bpf_helpers.h>

/* A report. */
struct record {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 code;
	__u32 is_switch; /* of an NVSwitch: an SXid */
	char dev[24]; /* PCI address */
	char msg[472]; /* as far as there is room */
};
_Static_assert(sizeof(struct record) == 512, "record");

/*
 * Where the tracepoint's record has its fields, in bytes: read from its format
 * file, since nothing says that the next driver has them there. The program is
 * loaded once for each tracepoint. probes.Xids
 */
const volatile __u32 dev_off = 8; /* __data_loc char[] dev */
const volatile __u32 code_off = 12; /* u32 error_code */
const volatile __u32 msg_off = 16; /* __data_loc char[] msg */
const volatile __u32 is_switch; /* the device is an NVSwitch */

/* Reports for which the ring had no room. Read by user space. */
volatile __u64 lost = 0;

/*
 * xids: the reports. Written by on_xid, read by a blocked reader that is woken
 * for each. Room for 2,000: when it is full a report is counted in lost.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} xids SEC(".maps");

/* Copies a string of the record: a __data_loc is its offset and, above, its length. */
static __always_inline void text(char *to, __u32 size, void *record, __u32 off)
{
	__u32 loc = 0;

	to[0] = 0;
	if (!bpf_probe_read_kernel(&loc, sizeof(loc), record + off))
		bpf_probe_read_kernel_str(to, size, record + (loc & 0xffff));
}

/* Runs where the driver reports, with preemption off. */
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

/* Keeps the type that Go needs in the object's BTF. */
const struct record *export_record __attribute__((unused));
