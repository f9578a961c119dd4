// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The one translation unit. */
#include "vmlinux/vmlinux.h"
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "abi.h"
#include "index.h"
#include "emit.h"
#include "args.h"
#include "counts.h"
#include "profile.h"
#include "thread.h"
#include "cpu.h"
#include "culprit.h"
#include "steal.h"
#include "mark.h"
#include "origin.h"
#include "frames.h"
#include "unwind.h"
#include "walk.h"
#include "pywalk.h"
#include "pytell.h"
#include "stack.h"
#include "own.h"
#include "derive.h"
#include "call.h"
#include "range.h"
#include "block.h"
#include "profiler.h"
#include "ledger.h"
#include "waker.h"
#include "proc.h"
#include "host.h"
#include "disk.h"
#include "mem.h"
#include "net.h"
#include "signal.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Keeps types in the object's BTF that Go needs and no map mentions. */
#define EXPORT(kind, name) const kind name *export_##name __attribute__((unused))
EXPORT(struct, call_record);
EXPORT(struct, who);
EXPORT(struct, block);
EXPORT(struct, sums);
EXPORT(struct, account);
EXPORT(struct, wait_record);
EXPORT(struct, thread_record);
EXPORT(struct, proc_record);
EXPORT(struct, text_record);
EXPORT(struct, range_record);
EXPORT(struct, py_code_record);
EXPORT(struct, stack_record);
EXPORT(struct, py_walk);
EXPORT(struct, py_frame);
EXPORT(enum, py_end);
EXPORT(enum, take);
EXPORT(enum, recipe_flags);
EXPORT(enum, target_flags);
EXPORT(enum, call_flags);
EXPORT(enum, record_kind);
EXPORT(enum, range_flags);
EXPORT(enum, drop_reason);
EXPORT(enum, place);
EXPORT(enum, launch_layer);
EXPORT(enum, origins_use);
EXPORT(enum, wait_state);
EXPORT(enum, wait_flags);
EXPORT(enum, host_kind);
EXPORT(enum, space_seen);
EXPORT(enum, walk_end);
EXPORT(enum, unwind_kind);
EXPORT(enum, unwind_means);
EXPORT(enum, stack_policy);
