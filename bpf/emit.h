// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Output: the only code that writes to a ring, and the drop counters. */
#pragma once

const volatile __u64 ring_bytes = 8 << 20; /* Settings.RingBytes: size of call_ring */
const volatile __u64 kept_bytes = 2 << 20; /* size of kept_ring */
const volatile __u32 sampling_rate = 0; /* Settings.SamplingRate: 0 adaptive, 1 all, N = 1 in N */

/* Shed features. Written from user space during calls. */
volatile enum shed_flags shed = 0;
/* Settings.Long: ns from which a call is never thinned. A record costs less than 1 % of it. */
const volatile __u64 long_call = 100000;
/* At most one fast call in 2^thin_least has a record. Written from user space. */
volatile __u32 thin_least = 0;

/* Set by the program that wakes the reader, cleared by the reader before it drains. */
volatile __u32 ring_woken = 0;

/*
 * call_ring: records of calls that may be thinned, texts, stacks and ranges. Read in place by
 * probes.Ring. When full, a record is dropped and counted; counts stay exact.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} call_ring SEC(".maps");

/*
 * kept_ring: records of calls that are never thinned, of waits, and of ended threads. Each follows
 * the write position that call_ring had when the record was made. The reader takes it once it has
 * read call_ring up to there, so it reads both rings in one order. When full, or half full for
 * waits, a record goes to call_ring; if that is full, it is dropped and counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} kept_ring SEC(".maps");

/*
 * critical_ring: process events. Written by proc.h, read by a blocked reader that is woken for
 * each. Never sampled; drops are counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} critical_ring SEC(".maps");

/* drops: reason -> count. Atomic adds by all programs, read once a second. Cannot fill. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DROP_REASONS);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

static __always_inline void drop(__u32 reason)
{
	__u64 *n = bpf_map_lookup_elem(&drops, &reason);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/*
 * How strongly to thin a call: 1 in 2^level. By thin_least, or by a fixed rate, rounded down to a
 * power of two; without a fixed rate also by the fill level of the ring, from one half on.
 */
static __always_inline __u32 thin_level(__u64 used)
{
	__u32 level = 0;

	if (sampling_rate == 1)
		return 0;
	if (sampling_rate > 1) {
#pragma unroll
		for (int i = 0; i < 16; i++)
			if (sampling_rate >> (i + 1))
				level = i + 1;
	} else if (used > ring_bytes / 2) {
		level = used > ring_bytes / 4 * 3 ? 6 : 3;
	}
	return level > (thin_least & 15) ? level : thin_least & 15;
}

/* Flags to submit a record: the reader is woken once a ring is half full. */
static __always_inline __u64 wakeup(bool half)
{
	if (half && !ring_woken && __sync_val_compare_and_swap(&ring_woken, 0, 1) == 0)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

/*
 * Puts a record into kept_ring, or into call_ring if kept_ring holds `most` bytes. Returns whether
 * it did. The position of call_ring is read before the reservation. Otherwise, of two threads, the
 * first in the ring could have a later position than the second, and a later record of the second
 * in call_ring would be read before its record here.
 */
#define PUT_KEPT(from, most)                                                                       \
	({                                                                                         \
		__u64 after = bpf_ringbuf_query(&call_ring, BPF_RB_PROD_POS);                      \
		__u64 used = bpf_ringbuf_query(&kept_ring, BPF_RB_AVAIL_DATA);                     \
		bool put = true;                                                                   \
		struct {                                                                           \
			__u64 after;                                                               \
			typeof(*(from)) rec;                                                       \
		} *kept = NULL;                                                                    \
		if (used < (most))                                                                 \
			kept = bpf_ringbuf_reserve(&kept_ring, sizeof(*kept), 0);                  \
		if (kept) {                                                                        \
			kept->after = after;                                                       \
			__builtin_memcpy(&kept->rec, from, sizeof(*(from)));                       \
			bpf_ringbuf_submit(kept, wakeup(used > kept_bytes / 2));                   \
		} else {                                                                           \
			put = !bpf_ringbuf_output(&call_ring, from, sizeof(*(from)),               \
						  wakeup(true));                                   \
		}                                                                                  \
		put;                                                                               \
	})

/* Emits a call that is never thinned, or counts a drop. */
__noinline int emit_kept(struct call_record *rec)
{
	if (!rec)
		return 0;
	if (PUT_KEPT(rec, kept_bytes))
		return 1;
	drop(DROP_KEPT_FULL);
	return 0;
}

/*
 * A thread's last view of call_ring. A query costs as much as a map lookup, so it is done for one
 * record in 16 while there is room.
 */
struct ring_view {
	__u32 emitted;
	__u32 used; /* bytes */
};

/*
 * Emits the first `size` bytes of a call record, or counts a drop. Returns whether it did. Kept
 * calls are slow or failed, or answers depend on them (events.Row.Always).
 */
static __always_inline bool emit_call(struct ring_view *view, struct call_record *rec, __u64 size,
				      bool keep)
{
	__u32 level;

	if (keep)
		return emit_kept(rec);
	if ((view->emitted++ & 15) == 0 || view->used > ring_bytes / 2)
		view->used = bpf_ringbuf_query(&call_ring, BPF_RB_AVAIL_DATA);
	level = thin_level(view->used);
	if (level) {
		/* At random: counting would beat against the pattern of calls. */
		if (bpf_get_prandom_u32() & ((1u << level) - 1)) {
			drop(DROP_THINNED);
			return false;
		}
		rec->weight_log2 |= level; /* next to the level of its stack */
	}
	if (bpf_ringbuf_output(&call_ring, rec, size, wakeup(view->used > ring_bytes / 2))) {
		view->emitted = 0; /* query again at once */
		drop(DROP_RING_FULL);
		return false;
	}
	return true;
}

/* Reads the string into a ring record. Returns its size with terminator, or an error. */
#define READ_TEXT(rec, room, at)                                                                   \
	({                                                                                         \
		long n = -1;                                                                       \
		rec = bpf_ringbuf_reserve(&call_ring, sizeof(*rec) + (room), 0);                   \
		if (rec)                                                                           \
			n = bpf_probe_read_user_str(rec + 1, room, (void *)(at));                  \
		n;                                                                                 \
	})

/*
 * Emits the string that arg[0] of a call points to, as a record before the call's. Most are short;
 * a longer one is read again. With `later`, the string can be read later, and a failure is no drop.
 */
__noinline int emit_text(const struct call_record *call, bool later)
{
	struct text_record *rec;
	long n;

	if (!call)
		return 0;
	n = READ_TEXT(rec, TEXT_SHORT, call->arg[0]);
	if (rec && n == TEXT_SHORT) {
		bpf_ringbuf_discard(rec, BPF_RB_NO_WAKEUP);
		n = READ_TEXT(rec, TEXT_LONG, call->arg[0]);
	}
	if (!rec || n < 0) {
		if (rec)
			bpf_ringbuf_discard(rec, BPF_RB_NO_WAKEUP);
		if (!later)
			drop(DROP_TEXT);
		return 0;
	}
	rec->kind = RECORD_TEXT;
	rec->pad = 0;
	rec->op = call->op;
	rec->tgid = call->tgid;
	rec->tid = call->tid;
	rec->size = n;
	rec->time_ns = call->start_ns;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline bool emit_proc(struct proc_record *rec)
{
	if (!bpf_ringbuf_output(&critical_ring, rec, sizeof(*rec), BPF_RB_FORCE_WAKEUP))
		return true;
	drop(DROP_CRITICAL_FULL);
	return false;
}

/* Emits a thread's last account, or counts a drop. */
__noinline int emit_thread(struct thread_record *rec)
{
	if (rec && !PUT_KEPT(rec, kept_bytes))
		drop(DROP_WAIT);
	return 0;
}

/*
 * Emits a wait, or counts a drop. Half of the ring is for calls only: with many threads on few
 * CPUs, each call can have several waits.
 */
__noinline int emit_wait(struct wait_record *rec)
{
	if (rec && !PUT_KEPT(rec, kept_bytes / 2))
		drop(DROP_WAIT);
	return 0;
}
