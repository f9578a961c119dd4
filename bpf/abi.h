// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Everything that crosses between the kernel and Go. The Go types are generated
 * from this file; a test compares the enumerations with Go's own names.
 */
#pragma once

#define MAX_ARGS 4 /* wide arguments kept per call: events.MaxArgs */
#define MAX_SLOTS 9 /* integer argument slots that can be read: events.MaxSlots */
#define MAX_ROWS 512 /* rows of the catalog */
#define MAX_DEPTH 4 /* traced calls open in one thread at a time; a power of two */
#define MAX_THREADS 8192 /* threads that make traced calls, at a time */
#define MAX_TIDS (1 << 22) /* of the kernel: PID_MAX_LIMIT */
#define MAX_SYSCALLS 512 /* numbers that are told apart: events.MaxSyscall */
#define MAX_WAKERS 64 /* threads enrolled for a process: of the first hop, of all others */
#define MAX_HOPS 4 /* a chain of wakers is followed so far from a thread that makes traced calls */
#define LONG_WAIT 20000 /* ns: shorter waits are in the sums only, unless all are asked for */
#define MAX_TARGETS 4096 /* traced processes, at a time */
#define MAX_COUNTS 8192 /* (process, row) pairs with calls: of 130 processes with everything */
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
	RECIPE_LAUNCH = 1, /* a launch directly inside a launch is counted, not timed */
	RECIPE_ENTRY_ONLY = 2, /* never watch the return */
	RECIPE_STACK = 4, /* some slot lies on the stack */
	RECIPE_OUT = 8, /* some value is read at return */
	RECIPE_SYNC = 16, /* it waits for the GPU: events.ClassSync */
	RECIPE_TEXT = 32, /* arg[0] is the address of a string to put out: events.Row.Text */
	RECIPE_KEEP = 64, /* answers rest on it: it is never thinned. events.Row.Always */
	RECIPE_STAYS = 128, /* the string stays where it is: put out a process's first alone */
};

/* One catalog row, compiled for this architecture. */
struct recipe {
	__u16 op; /* events.Op */
	__u8 nargs;
	__u8 flags; /* enum recipe_flags */
	__u32 slow_ns; /* calls at least this long are never thinned; 0: none is for that */
	struct rule arg[MAX_ARGS];
	struct rule tag;
	__u32 pending; /* a result that is no failure: events.Row.Pending */
	__u16 polls; /* it asks without waiting: events.Row.Polls */
	__u16 layer; /* enum launch_layer */
};
_Static_assert(sizeof(struct recipe) == 56, "recipe");

/* An attach cookie: row | copy << 16 | place << 32. */
#define COOKIE_ROW(c) ((__u32)(c)&0xffff)
#define COOKIE_COPY(c) (((c) >> 16) & 63) /* of one library, of which there can be several files */
#define COOKIE_PLACE(c) ((__u32)((c) >> 32))

/* What kind of instruction a probe replaced; it decides the probe's price. */
enum place {
	PLACE_EMULATED, /* the kernel emulates it: push, jcc, nop */
	PLACE_STEPPED, /* it is single-stepped out of line: a second trap */
	PLACES = 4, /* size of the table, a power of two */
};

/* What a probe costs the call it watches, measured once at start. */
struct probe_cost {
	__u32 inside_ns; /* of the cost, what falls between the two clock readings */
	__u32 around_ns; /* entry and return, as the call around it sees them */
	__u32 entry_ns; /* entry alone, likewise */
};

enum target_flags {
	TARGET_ENTRY_ONLY = 1, /* a return probe would harm this process */
	TARGET_GATE = 2, /* stop it when it maps a CUDA library, until probes are in place */
	TARGET_LAUNCHES = 4, /* its launches are counted at entry, and their returns not watched */
};

/* What is left out of all processes so that tracing costs less: set from user space. */
enum shed_flags {
	SHED_RARE = 1, /* stacks: of calls that are slow or failed, and a smaller sample */
	SHED_PYTHON = 2, /* Python functions of stacks */
	SHED_STACKS = 4, /* stacks */
};

/* A thread that has a part in another's wait: events.Thread. */
struct who {
	__u32 tid; /* 0: none */
	__u32 tgid;
	__u32 parent; /* tgid of its parent */
	__u32 start; /* when it was started, in ticks of 10 ms since boot, as in /proc; 0: not known */
	__u64 cgroup; /* id in the unified hierarchy */
	char comm[16];
};

/* What the kernel remembers of a traced process. */
struct target {
	__u32 flags; /* enum target_flags */
	__u32 follow; /* children become targets too */
	__u32 wakers[2]; /* enrolled because they woke one of its threads, or one of these */
	struct who stopper; /* sent the last signal that stops */
};

/* Whose counts: a row's in a process. */
struct counts_key {
	__u32 tgid;
	__u32 row;
};

/*
 * Exact sums for one (process, row): tick.Counts. Added to atomically. Slots up
 * to MAX_ROWS gather, by row, the calls for which no slot was free.
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
		  CALL_FOLDED =
			  1 << 7, /* `other` is the launch made inside this one, not around it */
		  CALL_SHIFT_GAP = 1 << 8, /* gap figures are in units of 1,024 ns */
		  CALL_SHIFT = 1 << 9, /* on_cpu, runnable, throttled are in units of 1,024 ns */
		  CALL_THROTTLED = 1 << 10, /* the record has throttled and gap_throttled */
		  CALL_UNSEEN = 1 << 11, /* the scheduler's figures split it or its gap */
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

/* weight_log2 of a call_record has two numbers. */
#define STACK_LEVEL_SHIFT 5 /* from here on: calls that its stack stands for, 4^level */
#define MAX_STACK_LEVEL 5

/*
 * One call, or two: a launch that the driver makes directly inside a launch of
 * the runtime has no record of its own. An unmeasured call's record ends before gap. Blocked time
 * is the duration less on_cpu and runnable.
 */
struct call_record {
	__u8 kind; /* RECORD_CALL */
	__u8 weight_log2; /* calls this record stands for, in the low bits */
	__u16 op;
	/* CALL_NESTED: op around. CALL_FOLDED: op of the launch inside. Else: launches before it. */
	__u16 other;
	__u16 flags; /* enum call_flags */
	__u32 tgid;
	__u32 tid;
	__u64 start_ns; /* CLOCK_MONOTONIC */
	__u64 arg[MAX_ARGS];
	__u32 tag;
	__u32 stack; /* number of a stack_record, 0: none was taken */
	__u32 gap; /* since the return of the thread's last outermost call with a record; from here on an unmeasured call has nothing */
	__u32 gap_on_cpu;
	__u64 duration_ns;
	__u32 gap_runnable;
	__u32 on_cpu;
	__u32 runnable;
	__s32 result;
	__u32 throttled; /* absent without CALL_THROTTLED */
	__u32 gap_throttled;
};
_Static_assert(sizeof(struct call_record) == 104, "call_record");
_Static_assert(offsetof(struct call_record, throttled) == 96, "call_record");

#define TEXT_FIRST 256 /* calls of a process whose strings are put out though they stay */
#define TEXT_SHORT 256 /* bytes of most texts, with their end */
#define TEXT_LONG 4097 /* events.MaxText, its end, and one to see that there is more */

/* A string that a call was given, before the call's record: events.Text. */
struct text_record {
	__u8 kind; /* RECORD_TEXT */
	__u8 pad;
	__u16 op;
	__u32 tgid;
	__u32 tid;
	__u32 size; /* with its end; TEXT_LONG: it was cut */
	__u64 time_ns; /* CLOCK_MONOTONIC */
}; /* the string follows, in TEXT_SHORT or TEXT_LONG bytes */
_Static_assert(sizeof(struct text_record) == 24, "text_record");

enum stack_policy { /* probes.StackPolicy */
		    STACKS_NONE,
		    STACKS_SLOW, /* of slow and failed calls, the first from a site, and a sample */
		    STACKS_ALL,
};

/* Why a thread is not on a CPU: events.WaitState. */
enum wait_state {
	WAIT_NONE, /* it is on one */
	WAIT_RUNNABLE,
	WAIT_THROTTLED,
	WAIT_BLOCKED,
	WAIT_STOLEN, /* of records alone: runnable, while the hypervisor let others have the CPU */
};

enum wait_flags { /* events.WaitFlags, but for the last */
		  WAIT_IO = 1, /* counted as waiting for a block device */
		  WAIT_BY_IRQ = 2, /* an interrupt or a timer woke it */
		  WAIT_IDLE = 4, /* nobody had the CPU */
		  WAIT_OTHERS = 8, /* many had it, each for a short time */
		  WAIT_MOVED = 16, /* it goes on waiting on another CPU */
		  WAIT_PREVIOUS = 32, /* one more culprit of the wait in the record before */
		  WAIT_STOPPED = 64, /* by a signal or a debugger */
		  WAIT_GIL = 128, /* for the lock of a Python interpreter */
};

/* What a thread blocks on. */
struct block {
	__u64 arg; /* first argument of the system call; with WAIT_GIL the PyThreadState that had the lock */
	__u32 dev; /* of the file that arg is, if it is one: major << 20 | minor; of Python's lock: gil.passed */
	__u16 mode; /* of that file, 0: none */
	__s16 syscall; /* number, -1: none */
};

/* One wait of a thread, or of a wait on one CPU, or one more culprit of it. */
struct wait_record {
	__u8 kind; /* RECORD_WAIT */
	__u8 state; /* enum wait_state */
	__u8 flags; /* enum wait_flags */
	__u8 hop; /* wakers from the thread to one that makes traced calls; 0: it makes them itself */
	__u16 op; /* the outermost open call, 0: none */
	__u16 cpu;
	__u32 tgid;
	__u32 tid;
	__u64 start_ns; /* CLOCK_MONOTONIC */
	__u64 ns;
	__u64 taken_ns; /* WAIT_RUNNABLE: while who had the CPU. WAIT_STOLEN: ns */
	struct block on; /* WAIT_BLOCKED */
	struct who who; /* WAIT_RUNNABLE: had the CPU. WAIT_BLOCKED: woke or stopped it */
	/*
	 * WAIT_BLOCKED: number of a stack_record of who, 0: none. WAIT_GIL: as it let go; else of most
	 * of its time. Where an interrupt or a thread of the kernel woke the thread it is of the thread
	 * itself, as it blocked.
	 */
	__u32 stack;
	__u32 rest;
};
_Static_assert(sizeof(struct wait_record) == 104, "wait_record");

/* Time without a CPU, by why: ns. */
struct sums {
	__u64 runnable;
	__u64 throttled;
	__u64 blocked;
};

/* What a thread has done since it is accounted for. What is in no sum, it was on a CPU. */
struct account {
	__u64 born_ns; /* CLOCK_MONOTONIC */
	__u64 calls_ns; /* in outermost calls that have returned */
	__u64 sync_ns; /* of these: in calls that wait for the GPU */
	struct sums off; /* in all */
	struct sums in_calls; /* of off: in the calls of calls_ns */
	struct sums in_sync; /* of off: in the calls of sync_ns */
};

/* A thread's last account, when it ends or its process runs another program. */
struct thread_record {
	__u8 kind; /* RECORD_THREAD */
	__u8 enrolled; /* it made no traced calls */
	__u8 pad[6];
	__u32 tgid;
	__u32 tid;
	__u64 end_ns; /* CLOCK_MONOTONIC */
	struct account account;
	char comm[16];
};
_Static_assert(sizeof(struct thread_record) == 136, "thread_record");

/* A process's life, on the critical ring. */
struct proc_record {
	__u8 kind; /* RECORD_FORK ... RECORD_GATE, RECORD_OOM, RECORD_KILL */
	__u8 signal; /* RECORD_KILL */
	__u8 pad[2];
	__u32 tgid;
	__u32 tid;
	__u32 peer; /* RECORD_FORK: the child's tgid. RECORD_KILL: the sender's, 0: the kernel */
	__u64 time_ns; /* CLOCK_MONOTONIC */
	char comm[16]; /* RECORD_KILL: the sender's */
};
_Static_assert(sizeof(struct proc_record) == 40, "proc_record");

/* What is summed up of the host: tick.HostEvent. */
enum host_kind {
	HOST_NONE,
	HOST_DISK_READ, /* object: device. In the order of the kernel's REQ_OP_... */
	HOST_DISK_WRITE,
	HOST_DISK_FLUSH,
	HOST_RECLAIM, /* direct: the thread itself had to look for free memory */
	HOST_CGROUP_RECLAIM, /* likewise, for its cgroup's limit */
	HOST_OOM, /* the process was killed for want of memory */
	HOST_SIGNAL, /* stops or kills it. object: signal | sender's tgid << 32 */
	HOST_RETRANSMIT, /* object: peer, as the rest */
	HOST_CONNECT,
	HOST_SEND, /* ns: the smoothed round trip then */
	HOST_RECEIVE,
	HOST_KINDS,
};

#define HOST_SUMS 4096 /* host_key that are told apart at a time */
#define HOST_BUCKETS 32 /* bucket 0: below 1,024 ns, then one an octave: tick.HostBuckets */

/* What is summed up, and of whom. */
struct host_key {
	__u32 tgid; /* 0: of nobody in particular */
	__u16 kind; /* enum host_kind */
	__u16 port; /* of the peer, in network order; 0: any */
	__u64 object[2]; /* of a peer: its IPv6 address, or IPv4 mapped to one */
};
_Static_assert(sizeof(struct host_key) == 24, "host_key");

/* Exact sums; added to atomically. */
struct host_sum {
	__u64 count;
	__u64 failed; /* of count */
	__u64 bytes;
	__u64 ns;
	__u32 hist[HOST_BUCKETS]; /* of ns, by power of two; wraps */
	char comm[16]; /* of tgid; HOST_SIGNAL: of the sender */
};
_Static_assert(sizeof(struct host_sum) == 176, "host_sum");

/* Whose page allocations, of 2^order pages each. */
struct pages_key {
	__u32 tgid;
	__u32 order;
};

#include "dropabi.h"
#include "stackabi.h"
#include "rangeabi.h"
#include "originabi.h"
