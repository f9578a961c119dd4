// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What is known of a thread that makes traced calls: its open calls and its own
 * scheduler figures. One writer, the thread itself, so no atomics.
 */
#pragma once

/* A thread's own scheduler figures at one moment: tier 0 of the ledger. */
struct snapshot {
	__u64 run_delay;
	__u64 sum_exec;
	__u64 exec_start;
	__u64 nvcsw;
	__u64 switches; /* of either kind */
	__u64 migrations;
};

/* Where the clocks of a thread stood: by the ledger, and by the scheduler. */
struct mark {
	struct sums off;
	__u64 unseen; /* grows with each switch that the ledger did not see */
	struct snapshot task;
};

struct open_call {
	__u64 sp; /* user stack pointer at entry: the call's identity */
	__u64 ip; /* where the probe is */
	__u64 inner_ns; /* spent in traced calls made by this one */
	struct mark at;
	__u32 probe_ns; /* cost of the probes of inner calls: no doing of this call */
	__u16 row;
	__u8 recipe_flags;
	__u8 pad;
	__u64 seen; /* set of copies whose links saw it */
	struct call_record rec; /* as far as it is known */
};

/* What an open launch has in rec.result. Above 0: 1 + the row that it is counted by: origin.h. */
#define ORIGIN_LAUNCHED -1 /* it has made its launch of the driver */

/* The row that an open call is counted by. */
static __always_inline __u32 counted_row(const struct open_call *o)
{
	return o->rec.result > 0 ? o->rec.result - 1 : o->row;
}

#define WAKERS 4 /* a power of two */
#define ENROL_AFTER 3 /* wake-ups by one thread; of its own process or a child one is enough */

#define GIL_AGAIN 1 /* its last wait for the lock timed out: it has asked the holder to let go */

/* The ledger's part of a thread. Written by the programs in ledger.h. */
struct clock {
	struct account account;
	__u64 since; /* when state began */
	__u64 blocked_since; /* when a block began that ended at since, 0: none did */
	__u64 throttle_base; /* throttle_clock() at since */
	__u64 stolen_base; /* stolen_from() up to which the account has it, while it has a CPU */
	__u64 switches; /* seen: it left a CPU */
	__u64 missed; /* seen too late: it was found where it could not have been */
	__u32 state; /* enum wait_state */
	__u32 cpu; /* where it is, was last, or waits */
	__u8 queued; /* it is among the CPU's waiters */
	__u8 block_flags; /* enum wait_flags */
	__u8 woken_by_irq; /* last */
	__u8 hop; /* wakers from it to a thread that makes traced calls; 0: it makes them itself */
	__u32 enrolled_for; /* tgid whose quota it is in: see target.wakers. 0: none */
	struct block on;
	/*
	 * As of on: the PyThreadState that has the lock, with GIL_AGAIN; 0: it does not wait for
	 * that.
	 */
	__u64 gil_holder;
	struct who waker; /* last */
	__u32 waker_stack; /* see wait_record.stack */
	__u32 used_s; /* when it last ended a long wait: s */
	__u32 waker_tid[WAKERS];
	__u32 waker_count[WAKERS];
};

#define SITES 32 /* a power of two */

/* Which calls of a thread have their stack taken. Written by stack.h. */
struct sampler {
	__u64 sampled_ns; /* when a call was last sampled */
	__u64 sites_after; /* from when on a site may take another one's place */
	__u64 cost_ns; /* what a sample takes */
	__u32 left; /* calls until the next sample */
	__u32 drawn; /* what left was */
	__u32 level; /* a sample stands for 4^level calls */
	__u32 site; /* the place of the last new one */
	__u32 missed; /* the last stack ended where something was not known yet */
	__u32 pad;
	__u32 sites[SITES]; /* hashes of where it has called from lately, 0: free */
};

struct thread {
	__u32 tgid;
	__u32 flags; /* enum target_flags, as when the thread was first seen, but for TARGET_LAUNCHES */
	__u32 depth;
	__u32 skip_links; /* links_changed at the last call that was counted only */
	__u64 skip_sp; /* of that call, as in open_call */
	__u64 skip_ip;
	__u64 skip_seen;
	__u64 trampoline; /* where this process returns to through a return probe */
	struct ring_view ring;
	__u32 levers_seen; /* levers_changed as of flags */
	__u16 counted_op; /* of the launch that was last counted at its entry only, by a lever */
	__u16 polling; /* the last query was told that it is not ready yet */
	__u64 counted_sp; /* of that call, as in open_call; 0: there is none, or it has returned */
	__u64 counted_ret; /* its return address */
	/*
	 * The last outermost call that has a record: a gap begins with its return, and has in it
	 * what was left out since.
	 */
	__u64 returned_ns;
	struct mark returned; /* at returned_ns */
	struct mark scratch; /* where a call returned */
	struct call_record counted; /* of a call that is counted only; scratch */
	__u64 slot[SLOTS]; /* of that or another call; scratch */
	__u64 range_sp; /* of the last call of NVTX, as in open_call */
	__u64 range_ip;
	__u64 range_seen;
	__u32 range_links; /* links_changed then */
	__u32 ranges_lost; /* calls of NVTX that found no room */
	struct cached_slot cache[CACHE];
	struct sampler sampler;
	__u64 tstate; /* its PyThreadState when it was last walked */
	struct clock clock;
	struct open_call open[MAX_DEPTH];
	__u32 launches; /* outermost ones, since a record said so */
	__u32 wakes; /* tid whose long wait it ended last */
};

/*
 * targets: tgid -> what we may do to it. Written from user space and at fork;
 * deleted at the process's exit. When full, a child is not traced, and counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TARGETS);
	__type(key, __u32);
	__type(value, struct target);
} targets SEC(".maps");

/*
 * levers: tgid -> anything: TARGET_LAUNCHES is on. Written from user space while the
 * process runs, deleted at its exit. A map of its own, since the programs write to
 * targets. Cannot fill.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TARGETS);
	__type(key, __u32);
	__type(value, __u32);
} levers SEC(".maps");

/* Counts changes of levers, so that threads look again. Written from user space. */
volatile __u32 levers_changed = 0;

/*
 * threads: tid -> state. Written by the thread, deleted at its exit and exec.
 * When full, calls are counted but not timed, and that is counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

/*
 * tracked: bit by tid: is it in threads? It spares the scheduler's programs the
 * lookup. Written where threads is. Cannot fill.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TIDS / 64);
	__type(key, __u32);
	__type(value, __u64);
} tracked_tids SEC(".maps");

/* Entries of threads. */
volatile __u64 tracked_threads = 0;

static __always_inline bool tracked(__u32 tid)
{
	__u32 word = tid / 64;
	__u64 *bits = bpf_map_lookup_elem(&tracked_tids, &word);

	return bits && *bits >> (tid & 63) & 1;
}

static __always_inline void set_tracked(__u32 tid, bool on)
{
	__u32 word = tid / 64;
	__u64 *bits = bpf_map_lookup_elem(&tracked_tids, &word), bit = 1ULL << (tid & 63);

	if (!bits)
		return;
	if (on)
		__sync_fetch_and_or(bits, bit);
	else
		__sync_fetch_and_and(bits, ~bit);
	__sync_fetch_and_add(&tracked_threads, on ? 1 : -1);
}

/* A template, too large for the stack. Never written. */
const struct thread no_thread = {};

/* Opens the account of the current thread. */
static __noinline struct thread *add_thread(__u32 tgid, __u32 tid)
{
	struct thread *t;
	__u64 now;

	if (bpf_map_update_elem(&threads, &tid, &no_thread, BPF_NOEXIST))
		return NULL;
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t)
		return NULL;
	now = bpf_ktime_get_ns();
	t->tgid = tgid;
	t->clock.account.born_ns = now;
	t->clock.since = now;
	t->clock.cpu = bpf_get_smp_processor_id();
	set_tracked(tid, true); /* last: from here on the scheduler's programs write */
	return t;
}

/* The place in which a thread was enrolled is another one's. */
static __always_inline void unenrol(struct thread *t)
{
	__u32 tgid = __sync_lock_test_and_set(&t->clock.enrolled_for, 0);
	struct target *p;

	if (!tgid)
		return;
	p = bpf_map_lookup_elem(&targets, &tgid);
	if (p)
		__sync_fetch_and_add(&p->wakers[t->clock.hop > 1], -1);
}

/*
 * Enrols the current thread, which has ended a wait of a thread that a process waits for, by
 * so many hops.
 */
static __noinline int enrol(__u32 tgid, __u32 wakes, __u32 hop)
{
	struct wait_record rec = { .kind = RECORD_WAIT, .state = WAIT_RUNNABLE };
	struct task_struct *task = bpf_get_current_task_btf();
	struct target *p = bpf_map_lookup_elem(&targets, &tgid);
	struct thread *t;

	if (!p)
		return 0;
	if (p->wakers[hop > 1] >= MAX_WAKERS) {
		drop(hop > 1 ? DROP_DEEP_WAKERS_FULL : DROP_WAKERS_FULL);
		return 0;
	}
	t = add_thread(task->tgid, task->pid);
	if (!t) {
		drop(DROP_WAKER_NO_ROOM);
		return 0;
	}
	t->clock.hop = hop;
	t->clock.used_s = bpf_ktime_get_ns() / 1000000000;
	t->wakes = wakes;
	t->clock.enrolled_for = tgid;
	__sync_fetch_and_add(&p->wakers[hop > 1], 1);
	/* A wait of no time says from when on it has an account: one that computes has no other. */
	rec.tgid = t->tgid;
	rec.tid = task->pid;
	rec.cpu = t->clock.cpu;
	rec.hop = hop;
	rec.start_ns = t->clock.since;
	emit_wait(&rec);
	return 0;
}

/* The state of a thread that makes its first traced call. `t` is what there is of it. */
static __noinline struct thread *new_caller(struct thread *t, __u32 tgid, __u32 tid)
{
	struct target *p = bpf_map_lookup_elem(&targets, &tgid);

	if (!p)
		return NULL;
	if (t) {
		unenrol(t);
		t->clock.hop = 0;
	} else {
		t = add_thread(tgid, tid);
	}
	if (t) {
		t->flags = p->flags;
		t->levers_seen = 0;
	}
	return t;
}

/* Has a thread see that levers have changed. */
__noinline int see_levers(struct thread *t)
{
	__u32 tgid;

	if (!t)
		return 0;
	t->levers_seen = levers_changed; /* first: what changes from now on is seen next time */
	tgid = t->tgid;
	if (bpf_map_lookup_elem(&levers, &tgid))
		t->flags |= TARGET_LAUNCHES;
	else
		t->flags &= ~TARGET_LAUNCHES;
	return 0;
}

static __always_inline struct thread *thread_of(__u32 tgid, __u32 tid)
{
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);

	return t && t->tgid == tgid ? t : NULL;
}

static __always_inline void add_since(struct sums *to, const struct sums *from,
				      const struct sums *now)
{
	to->runnable += now->runnable - from->runnable;
	to->throttled += now->throttled - from->throttled;
	to->blocked += now->blocked - from->blocked;
}

/* Adds an outermost call to an account of its thread. */
static __always_inline void account_call(struct account *a, const struct open_call *o, __u64 now)
{
	a->calls_ns += now - o->rec.start_ns;
	add_since(&a->in_calls, &o->at.off, &a->off);
	if (!(o->recipe_flags & RECIPE_SYNC))
		return;
	a->sync_ns += now - o->rec.start_ns;
	add_since(&a->in_sync, &o->at.off, &a->off);
}

/* Ends the state of the current thread, or of what it was; its open calls will not return. */
static __noinline int forget_thread(__u32 tid)
{
	struct thread_record rec = { .kind = RECORD_THREAD };
	struct thread *t;

	if (!tracked(tid))
		return 0;
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t)
		return 0;
	set_tracked(tid, false);
	rec.end_ns = bpf_ktime_get_ns();
	if (t->depth && t->depth <= MAX_DEPTH)
		account_call(&t->clock.account, &t->open[0], rec.end_ns);
	for (int i = 0; i < MAX_DEPTH; i++)
		if (i < t->depth)
			abandon(t->tgid, counted_row(&t->open[i]));
	rec.tgid = t->tgid;
	rec.tid = tid;
	rec.enrolled = t->clock.hop != 0;
	rec.account = t->clock.account;
	bpf_get_current_comm(rec.comm, sizeof(rec.comm));
	unenrol(t);
	bpf_map_delete_elem(&profiles, &tid);
	bpf_map_delete_elem(&threads, &tid);
	emit_thread(&rec);
	return 0;
}

/*
 * Does the call end a wait? A thread that asks again and again whether the GPU is ready waits
 * for it: the first query that is told so ends that.
 */
static __always_inline bool ends_polling(struct thread *t, const struct recipe *r,
					 const struct call_record *rec)
{
	bool was = t->polling;

	if (!r->polls || rec->flags & CALL_NESTED)
		return false;
	t->polling = (__u32)rec->result == r->pending;
	return was && !t->polling;
}

/* Index of the open call that returns here, or MAX_DEPTH. Calls above it are gone. */
static __always_inline __u32 find_open(const struct thread *t, __u32 row, __u64 sp)
{
	__u32 at = MAX_DEPTH;

#pragma unroll
	for (int i = 0; i < MAX_DEPTH; i++)
		if (i < t->depth && t->open[i].sp == sp && t->open[i].row == row)
			at = i;
	return at;
}
