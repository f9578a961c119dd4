// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The interface between the kernel and Go. The Go types are generated from this file; a test
 * compares the enumerations with Go's own names.
 */
#pragma once

#define MAX_ARGS 4 /* wide arguments kept per call: events.MaxArgs */
#define MAX_SLOTS 9 /* integer argument slots that can be read: events.MaxSlots */
#define MAX_ROWS 512 /* rows of the catalog */
#define MAX_DEPTH 4 /* traced calls open in one thread; a power of two */
#define MAX_THREADS 8192 /* threads that make traced calls */
#define MAX_TIDS (1 << 22) /* the kernel's PID_MAX_LIMIT */
#define MAX_SYSCALLS 512 /* distinguished system call numbers: events.MaxSyscall */
#define MAX_WAKERS 64 /* threads enrolled per process: in the first hop, and in all others */
#define MAX_HOPS 4 /* longest chain of wakers from a thread that makes traced calls */
#define LONG_WAIT 20000 /* ns: shorter waits are in the sums only, unless all are requested */
#define MAX_TARGETS 4096 /* traced processes */
#define MAX_COUNTS 8192 /* (process, row) pairs with calls: 130 processes with everything */
#define HIST_BUCKETS 320 /* 8 an octave, from 0 ns to 2^41 ns: stats.HistBuckets */

/* How one kept value is computed: events.Take. */
enum take {
	TAKE_NONE,
	TAKE_SLOT, /* slot, masked to its width */
	TAKE_CONST, /* off */
	TAKE_PRODUCT, /* slot * slot2 */
	TAKE_OUT, /* *(slot + off) at return */
	TAKE_DIM3, /* two slots: x | y << 32, z */
	TAKE_PACK3, /* three int slots */
	TAKE_MEM, /* *(slot + off) at entry */
	TAKE_MEM_DIM3, /* dim3 at slot + off */
	TAKE_MEM_PRODUCT, /* *(u64 *)(slot + off) * *(u64 *)(slot + off2) */
	TAKE_MEM_VOLUME, /* the product of three u64 from slot + off */
	TAKE_PAIR, /* slot | slot2 << 16 */
};

struct rule {
	__u8 take;
	__u8 slot; /* from 1; 0: the address of the first argument on the stack */
	__u8 slot2;
	__u8 bytes; /* 4 or 8 */
	__u16 off;
	__u16 off2;
};
_Static_assert(sizeof(struct rule) == 8, "rule");

enum recipe_flags {
	RECIPE_LAUNCH = 1, /* launches directly inside are counted, not timed */
	RECIPE_ENTRY_ONLY = 2, /* no return probe */
	RECIPE_STACK = 4, /* some slot is on the stack */
	RECIPE_OUT = 8, /* some value is read at return */
	RECIPE_SYNC = 16, /* it waits for the GPU: events.ClassSync */
	RECIPE_TEXT = 32, /* arg[0] is the address of a string to emit: events.Row.Text */
	RECIPE_KEEP = 64, /* answers depend on it: never thinned. events.Row.Always */
	RECIPE_STAYS = 128, /* the string stays in memory: emit only the first ones of a process */
};

/* One catalog row, compiled for this architecture. */
struct recipe {
	__u16 op; /* events.Op */
	__u8 nargs;
	__u8 flags; /* enum recipe_flags */
	__u32 slow_ns; /* calls at least this long are never thinned; 0: no limit */
	struct rule arg[MAX_ARGS];
	struct rule tag;
	__u32 pending; /* a result that is not a failure: events.Row.Pending */
	__u16 polls; /* a query that does not wait: events.Row.Polls */
	__u16 layer; /* enum launch_layer */
};
_Static_assert(sizeof(struct recipe) == 56, "recipe");

/* An attach cookie: row | copy << 16 | place << 32. */
#define COOKIE_ROW(c) ((__u32)(c)&0xffff)
#define COOKIE_COPY(c) (((c) >> 16) & 63) /* of a library, which can have several files */
#define COOKIE_PLACE(c) ((__u32)((c) >> 32))

/* Kind of instruction under a probe; it decides the probe's cost. */
enum place {
	PLACE_EMULATED, /* emulated by the kernel: push, jcc, nop */
	PLACE_STEPPED, /* single-stepped out of line: a second trap */
	PLACES = 4, /* size of the table, a power of two */
};

/* Cost of a probe to the call it watches, measured once at start. */
struct probe_cost {
	__u32 inside_ns; /* part between the two clock readings */
	__u32 around_ns; /* entry and return, as seen by the surrounding call */
	__u32 entry_ns; /* entry alone, likewise */
};

enum target_flags {
	TARGET_ENTRY_ONLY = 1, /* a return probe would harm this process */
	TARGET_GATE = 2, /* stop it when it maps a CUDA library, until probes are attached */
	TARGET_LAUNCHES = 4, /* launches are counted at entry, without return probes */
};

/* Features shed for all processes: set from user space. */
enum shed_flags {
	SHED_RARE = 1, /* stacks only of slow and failed calls, and of a smaller sample */
	SHED_PYTHON = 2, /* Python frames */
	SHED_STACKS = 4, /* stacks */
};

/* A thread with a part in another's wait: events.Thread. */
struct who {
	__u32 tid; /* 0: none */
	__u32 tgid;
	__u32 parent; /* tgid of its parent */
	__u32 start; /* start time, in ticks of 10 ms since boot, as in /proc; 0: unknown */
	__u64 cgroup; /* id in the unified hierarchy */
	char comm[16];
};

/* State of a traced process. */
struct target {
	__u32 flags; /* enum target_flags */
	__u32 follow; /* children become targets too */
	__u32 wakers[2]; /* enrolled: in the first hop, and in all others */
	struct who stopper; /* sender of the last stop signal */
};

/* Key of counts: a row in a process. */
struct counts_key {
	__u32 tgid;
	__u32 row;
};

/*
 * Exact sums for one (process, row): tick.Counts. Atomic adds. Slots up to MAX_ROWS hold, by row,
 * the calls without a free slot.
 */
struct counts {
	__u64 calls;
	__u64 done;
	__u64 errors;
	__u64 nested;
	__u64 unmeasured;
	__u64 abandoned;
	__u64 total_ns;
	__u64 on_cpu_ns;
	__u64 runnable_ns;
	__u64 throttled_ns;
	__u64 inner_ns;
	__u64 partial;
	__u64 partial_ns;
	__u32 hist[HIST_BUCKETS]; /* wraps; readers take differences */
};

enum call_flags { /* events.CallFlags */
		  CALL_NESTED = 1,
		  CALL_UNMEASURED = 2,
		  CALL_FAILED = 4,
		  CALL_LEDGER_PARTIAL = 8,
		  CALL_GAP_PARTIAL = 16,
		  CALL_ARGS_PARTIAL = 32,
		  CALL_NO_GRAPHS = 1 << 6, /* as CALL_GRAPHS: no graph was launched */
		  CALL_FOLDED =
			  1 << 7, /* `other` is the launch made inside this one, not around it */
		  CALL_SHIFT_GAP = 1 << 8, /* gap figures are in units of 1,024 ns */
		  CALL_SHIFT = 1 << 9, /* on_cpu, runnable, throttled are in units of 1,024 ns */
		  CALL_THROTTLED = 1 << 10, /* the record has throttled and gap_throttled */
		  CALL_UNSEEN = 1 << 11, /* split by the scheduler's figures: the call or its gap */
		  CALL_GAP_STACK = 1 << 12, /* the record has gap_stack */
		  CALL_SHIFT_MORE_GAP = 1 << 13, /* with CALL_SHIFT_GAP: units of 1,048,576 ns */
		  CALL_SHIFT_MORE = 1 << 14, /* with CALL_SHIFT: units of 1,048,576 ns */
		  CALL_GRAPHS = 1 << 15, /* a graph is among the earlier launches */
};

enum record_kind {
	RECORD_CALL = 1,
	RECORD_FORK,
	RECORD_EXEC,
	RECORD_EXIT,
	RECORD_GATE,
	RECORD_WAIT,
	RECORD_THREAD,
	RECORD_TEXT,
	RECORD_OOM,
	RECORD_KILL,
	RECORD_PY_CODE,
	RECORD_STACK,
	RECORD_RANGE,
};

/* weight_log2 of a call_record contains two numbers. */
#define STACK_LEVEL_SHIFT 5 /* upper bits: level of its stack, which stands for 4^level calls */
#define MAX_STACK_LEVEL 5

/*
 * One call, or two: a driver launch directly inside a runtime launch has no record of its own. An
 * unmeasured call's record ends before gap. Blocked time is the duration less on_cpu and runnable.
 */
struct call_record {
	__u8 kind; /* RECORD_CALL */
	__u8 weight_log2; /* lower bits: log2 of the calls this record stands for */
	__u16 op;
	/* CALL_NESTED: outer op. CALL_FOLDED: op of the inner launch. Else: earlier launches. */
	__u16 other;
	__u16 flags; /* enum call_flags */
	__u32 tgid;
	__u32 tid;
	__u64 start_ns; /* CLOCK_MONOTONIC */
	__u64 arg[MAX_ARGS];
	__u32 tag;
	__u32 stack; /* number of a stack_record, 0: none */
	__u32 gap; /* since the return of the thread's last outermost call with a record; absent, as all below, in an unmeasured call */
	__u32 gap_on_cpu;
	__u64 duration_ns;
	__u32 gap_runnable;
	__u32 on_cpu;
	__u32 runnable;
	__s32 result;
	__u32 throttled; /* absent, as all below, without CALL_THROTTLED or CALL_GAP_STACK */
	__u32 gap_throttled;
	__u32 gap_stack; /* number of the stack with most of gap_on_cpu; absent without CALL_GAP_STACK */
	__u32 pad;
};
_Static_assert(sizeof(struct call_record) == 112, "call_record");
_Static_assert(offsetof(struct call_record, gap_stack) == 104, "call_record");
_Static_assert(offsetof(struct call_record, throttled) == 96, "call_record");

#define LONG_GAP 1000000 /* ns from which the stacks of a gap are taken: events.SampledGap */

#define TEXT_FIRST 256 /* calls of a process whose lasting strings are emitted */
#define TEXT_SHORT 256 /* bytes of most texts, with terminator */
#define TEXT_LONG 4097 /* events.MaxText, terminator, and one to detect more */

/* A string passed to a call, before the call's record: events.Text. */
struct text_record {
	__u8 kind; /* RECORD_TEXT */
	__u8 pad;
	__u16 op;
	__u32 tgid;
	__u32 tid;
	__u32 size; /* with terminator; TEXT_LONG: truncated */
	__u64 time_ns; /* CLOCK_MONOTONIC */
}; /* the string follows, in TEXT_SHORT or TEXT_LONG bytes */
_Static_assert(sizeof(struct text_record) == 24, "text_record");

enum stack_policy { /* probes.StackPolicy */
		    STACKS_NONE,
		    STACKS_SLOW, /* of slow and failed calls, the first from a site, and a sample */
		    STACKS_ALL,
};

/* Why a thread is off-CPU: events.WaitState. */
enum wait_state {
	WAIT_NONE, /* on-CPU */
	WAIT_RUNNABLE,
	WAIT_THROTTLED,
	WAIT_BLOCKED,
	WAIT_STOLEN, /* in records only: runnable, while the hypervisor gave the CPU to others */
};

enum wait_flags { /* events.WaitFlags, except the last */
		  WAIT_IO = 1, /* the kernel counts it as waiting for a block device */
		  WAIT_BY_IRQ = 2, /* woken by an interrupt or a timer */
		  WAIT_IDLE = 4, /* the CPU was idle */
		  WAIT_OTHERS = 8, /* many threads had the CPU, each briefly */
		  WAIT_MOVED = 16, /* the wait continues on another CPU */
		  WAIT_PREVIOUS = 32, /* another culprit of the wait in the previous record */
		  WAIT_STOPPED = 64, /* by a signal or a debugger */
		  WAIT_GIL = 128, /* waits for the lock of a Python interpreter */
};

/* What a thread is blocked on. */
struct block {
	__u64 arg; /* first argument of the system call; with WAIT_GIL the holder's PyThreadState */
	__u32 dev; /* device of the file arg, if it is one: major << 20 | minor; WAIT_GIL: gil.passed */
	__u16 mode; /* mode of that file, 0: none */
	__s16 syscall; /* number, -1: none */
};

/* One wait of a thread, its part on one CPU, or another culprit of it. */
struct wait_record {
	__u8 kind; /* RECORD_WAIT */
	__u8 state; /* enum wait_state */
	__u8 flags; /* enum wait_flags */
	__u8 hop; /* wakers from the thread to one that makes traced calls; 0: it makes them itself */
	__u16 op; /* outermost open call, 0: none */
	__u16 cpu;
	__u32 tgid;
	__u32 tid;
	__u64 start_ns; /* CLOCK_MONOTONIC */
	__u64 ns;
	__u64 taken_ns; /* WAIT_RUNNABLE: while who had the CPU. WAIT_STOLEN: ns */
	struct block on; /* WAIT_BLOCKED */
	struct who who; /* WAIT_RUNNABLE: had the CPU. WAIT_BLOCKED: woke or stopped the thread */
	/*
	 * WAIT_BLOCKED: number of a stack_record of who, 0: none. WAIT_GIL: at the release of the
	 * lock; else of most of its time. If an interrupt or a kernel thread woke the thread: the
	 * thread's own stack, as it blocked.
	 */
	__u32 stack;
	__u32 own; /* WAIT_BLOCKED, woken by a program's thread: its own stack, as it blocked; 0: none */
};
_Static_assert(sizeof(struct wait_record) == 104, "wait_record");

/* Off-CPU time by reason, ns. */
struct sums {
	__u64 runnable;
	__u64 throttled;
	__u64 blocked;
};

/* Account of a thread since its start. Time in no sum is on-CPU. */
struct account {
	__u64 born_ns; /* CLOCK_MONOTONIC */
	__u64 calls_ns; /* in outermost calls that have returned */
	__u64 sync_ns; /* part in calls that wait for the GPU */
	struct sums off; /* total */
	struct sums in_calls; /* part in the calls of calls_ns */
	struct sums in_sync; /* part in the calls of sync_ns */
};

/* A thread's last account, at its end or at exec. */
struct thread_record {
	__u8 kind; /* RECORD_THREAD */
	__u8 enrolled; /* makes no traced calls */
	__u8 pad[6];
	__u32 tgid;
	__u32 tid;
	__u64 end_ns; /* CLOCK_MONOTONIC */
	struct account account;
	char comm[16];
};
_Static_assert(sizeof(struct thread_record) == 136, "thread_record");

/* A process event, on the critical ring. */
struct proc_record {
	__u8 kind; /* RECORD_FORK ... RECORD_GATE, RECORD_OOM, RECORD_KILL */
	__u8 signal; /* RECORD_KILL */
	__u8 pad[2];
	__u32 tgid;
	__u32 tid;
	__u32 peer; /* RECORD_FORK: the child's tgid. RECORD_KILL: the sender's, 0: kernel */
	__u64 time_ns; /* CLOCK_MONOTONIC */
	char comm[16]; /* RECORD_KILL: the sender's */
};
_Static_assert(sizeof(struct proc_record) == 40, "proc_record");

/* Kinds of host sums: tick.HostEvent, except HOST_LOCK_REFUSED. */
enum host_kind {
	HOST_NONE,
	HOST_DISK_READ, /* object: device. The order of the kernel's REQ_OP_... */
	HOST_DISK_WRITE,
	HOST_DISK_FLUSH,
	HOST_RECLAIM, /* direct: the thread itself looks for free memory */
	HOST_CGROUP_RECLAIM, /* likewise, for its cgroup's limit */
	HOST_OOM, /* the process was killed for lack of memory */
	HOST_SIGNAL, /* stops or kills the process. object: signal | sender's tgid << 32 */
	HOST_RETRANSMIT, /* object: peer, as below */
	HOST_CONNECT,
	HOST_SEND, /* ns, for TCP: the smoothed round trip at that time */
	HOST_RECEIVE,
	/* object: holder's tgid, 0: unknown; 24 bytes of the file's name, whose length is in port */
	HOST_LOCK_REFUSED,
	HOST_KINDS,
};

enum host_peer { PEER_TCP, PEER_UDP, PEER_UNIX };

enum host_room {
	HOST_SUMS = 4096, /* separate host_keys */
};
#define HOST_BUCKETS 32 /* bucket 0: below 1,024 ns, then one an octave: tick.HostBuckets */

/* Key of a host sum. */
struct host_key {
	__u32 tgid; /* 0: no process */
	__u8 kind; /* enum host_kind */
	__u8 peer; /* enum host_peer */
	__u16 port; /* of the peer, in network order; 0: any. PEER_UNIX: bytes of its name, 0: a client */
	/* peer: its IPv6 address, or mapped IPv4 address. PEER_UNIX: the end of its name */
	__u64 object[4];
};
_Static_assert(sizeof(struct host_key) == 40, "host_key");

/* Exact sums; atomic adds. */
struct host_sum {
	__u64 count;
	__u64 failed; /* of count */
	__u64 bytes;
	__u64 ns;
	__u32 hist[HOST_BUCKETS]; /* of ns, by power of two; wraps */
	char comm[16]; /* of tgid; HOST_SIGNAL: the sender's */
};
_Static_assert(sizeof(struct host_sum) == 176, "host_sum");

/* Key of page allocations, of 2^order pages each. */
struct pages_key {
	__u32 tgid;
	__u32 order;
};

#include "dropabi.h"
#include "stackabi.h"
#include "rangeabi.h"
#include "originabi.h"
