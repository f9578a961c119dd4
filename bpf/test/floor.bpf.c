// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Programs that do nothing: the least that watching a function can cost. */
#include "vmlinux/vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("uprobe")
int floor_enter(struct pt_regs *ctx)
{
	return 0;
}

SEC("uretprobe")
int floor_exit(struct pt_regs *ctx)
{
	return 0;
}
