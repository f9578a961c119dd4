// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * State of a thread that makes traced calls: its open calls and its scheduler figures. Only the
 * thread itself writes it, so no atomics.
 */
#pragma once

/* A thread's scheduler figures at one moment: tier 0 of the ledger. */
struct snapshot {
	__u64 run_delay;
	__u64 sum_exec;
	__u64 exec_start;
	__u64 nvcsw;
	__u64 switches; /* of either kind */
	__u64 migrations;
};

/* The clocks of a thread at one moment: by the ledger, and by the scheduler. */
struct mark {
	struct sums off;
	__u64 unseen; /* grows with each switch that the ledger missed */
	struct snapshot task;
};

struct open_call {
	__u64 sp; /* user stack pointer at entry: the call's identity */
	__u64 ip; /* address of the probe */
	__u64 inner_ns; /* time in traced calls made by this one */
	struct mark at;
	__u32 probe_ns; /* cost of the probes of inner calls: not part of this call */
	__u16 row;
	__u8 recipe_flags;
	__u8 links; /* low byte of links_changed at entry */
	__u64 seen; /* set of copies whose links saw it */
	struct call_record rec; /* known part */
};

/* rec.on_cpu of an open call: the slot of its counts. Calls that begin later may have another one. */
#define COUNTED(o) ((o)->rec.on_cpu)

#define ORIGIN_LAUNCHED 1 /* rec.result of an open launch, which has made its driver launch */

#define WAKERS 4 /* a power of two */
#define ENROL_AFTER 3 /* wake-ups by one thread; within the job one is enough */

#define GIL_AGAIN 1 /* its last lock wait timed out: it has asked the holder to let go */

/* The ledger's state of a thread. Written by the programs in ledger.h. */
struct clock {
	struct account account;
	__u64 since; /* start of state */
	__u64 blocked_since; /* start of the block that ended at since, 0: none */
	__u64 throttle_base; /* throttle_clock() at since */
	__u64 stolen_base; /* stolen_from() that the account includes, while on-CPU */
	__u64 switches; /* switches off a CPU, as seen */
	__u64 missed; /* missed switches: its state was impossible */
	__u32 state; /* enum wait_state */
	__u32 cpu; /* current or last one, or the one it waits for */
	__u8 queued; /* one of the CPU's waiters */
	__u8 block_flags; /* enum wait_flags */
	__u8 woken_by_irq; /* last wake-up */
	__u8 hop; /* wakers from it to a thread that makes traced calls; 0: it makes them itself */
	__u32 enrolled_for; /* tgid whose quota it uses: see target.wakers. 0: none */
	struct block on;
	/*
	 * For on: the PyThreadState of the lock's holder, with GIL_AGAIN; 0: it does not wait for
	 * the lock.
	 */
	__u64 gil_holder;
	struct who waker; /* of the last wake-up */
	__u32 waker_stack; /* see wait_record.stack */
	__u32 used_s; /* end of the last long wait that it ended, or of its last long gap: s */
	__u32 waker_tid[WAKERS];
	__u32 waker_count[WAKERS];
};

#define SITES 32 /* a power of two */

/* Which calls of a thread get stacks. Written by stack.h. */
struct sampler {
	__u64 sampled_ns; /* time of the last sample */
	__u64 sites_after; /* time from which a site may replace another */
	__u64 cost_ns; /* cost of a stack */
	__u32 left; /* calls until the next sample */
	__u32 drawn; /* initial value of left */
	__u32 level; /* a sample stands for 4^level calls */
	__u32 site; /* slot of the last new one */
	__u32 missed; /* the last stack ended at something not loaded yet */
	__u32 paid; /* SHED_RARE: when its certain stacks are within their share; PAID_UNITs, wraps */
	__u32 sites[SITES]; /* hashes of its recent call sites, 0: free */
};

struct thread {
	__u32 tgid;
	__u32 flags; /* enum target_flags, as of its first call, except TARGET_LAUNCHES */
	__u32 depth;
	__u32 skip_links; /* links_changed at the last call that was counted only */
	__u64 skip_sp; /* of that call, as in open_call */
	__u64 skip_ip;
	__u64 skip_seen;
	__u64 trampoline; /* the address of the return trampoline in this process */
	struct ring_view ring;
	__u32 levers_seen; /* levers_changed as of flags */
	__u16 counted_op; /* of the last launch that a lever made counted at entry only */
	__u16 polling; /* the last query's result was "not ready" */
	__u64 counted_sp; /* of that call, as in open_call; 0: none, or it has returned */
	__u64 counted_ret; /* its return address */
	/*
	 * The last outermost call with a record: a gap starts at its return, and includes calls
	 * without records.
	 */
	__u64 returned_ns;
	struct mark returned; /* at returned_ns */
	struct mark scratch; /* at a call's return */
	struct call_record counted; /* a call that is counted only; scratch */
	__u64 slot[SLOTS]; /* arguments of that or another call; scratch */
	__u64 range_sp; /* of the last NVTX call, as in open_call */
	__u64 range_ip;
	__u64 range_seen;
	__u32 range_links; /* links_changed at that call */
	__u32 ranges_lost; /* dropped NVTX calls */
	struct cached_slot cache[CACHE];
	struct sampler sampler;
	__u64 tstate; /* its PyThreadState at the last walk */
	struct clock clock;
	struct open_call open[MAX_DEPTH];
	__u32 launches; /* outermost ones since the last record with their count: see launched() */
	__u32 wakes; /* tid whose long wait it ended last */
};

/*
 * targets: tgid -> how it is traced. Written from user space and at fork; deleted at the process's
 * exit. When full, a child is not traced, and counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TARGETS);
	__type(key, __u32);
	__type(value, struct target);
} targets SEC(".maps");

/*
 * levers: tgid -> any value: TARGET_LAUNCHES is on. Written from user space while the process runs,
 * deleted at its exit. A separate map, since the programs write to targets. Cannot fill.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TARGETS);
	__type(key, __u32);
	__type(value, __u32);
} levers SEC(".maps");

/* Counts changes of levers, so that threads reload them. Written from user space. */
volatile __u32 levers_changed = 0;

/*
 * threads: tid -> state. Written by the thread, deleted at its exit and, unless it is enrolled, at
 * exec. When full, calls are counted but not timed, which counts as drops.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

/*
 * tracked_tids: bit by tid: is it in threads? It spares the scheduler's programs the lookup.
 * Written where threads is. Cannot fill.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TIDS / 64);
	__type(key, __u32);
	__type(value, __u64);
} tracked_tids SEC(".maps");

/* Number of entries of threads. */
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

/* A template, too large for the stack. Read-only. */
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

/* Frees the slot of an enrolled thread. */
static __always_inline void unenrol(struct thread *t)
{
	__u32 tgid = __sync_lock_test_and_set(&t->clock.enrolled_for, 0);
	struct target *p;

	if (!tgid)
		return;
	p = bpf_map_lookup_elem(&targets, &tgid);
	if (p && p->wakers[t->clock.hop > 1]) /* 0: another process has its number */
		__sync_fetch_and_add(&p->wakers[t->clock.hop > 1], -1);
}

/*
 * Enrolls the current thread, which has ended a wait that leads by this many hops to a thread of
 * the process.
 */
__noinline int enrol(__u32 tgid, __u32 wakes, __u32 hop)
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
	/* A zero-length wait marks its account's start: one that only computes has no other. */
	rec.tgid = t->tgid;
	rec.tid = task->pid;
	rec.cpu = t->clock.cpu;
	rec.hop = hop;
	rec.start_ns = t->clock.since;
	emit_wait(&rec);
	return 0;
}

/* The state of a thread at its first traced call. `t` is its existing state, if any. */
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

/* Makes a thread reload the levers. */
__noinline int see_levers(struct thread *t)
{
	__u32 tgid;

	if (!t)
		return 0;
	t->levers_seen = levers_changed; /* first: later changes are seen next time */
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

/* Adds an outermost call to its thread's account. `off` is as of `now`, not later. */
static __always_inline void account_call(struct account *a, const struct open_call *o,
					 const struct sums *off, __u64 now)
{
	a->calls_ns += now - o->rec.start_ns;
	add_since(&a->in_calls, &o->at.off, off);
	if (!(o->recipe_flags & RECIPE_SYNC))
		return;
	a->sync_ns += now - o->rec.start_ns;
	add_since(&a->in_sync, &o->at.off, off);
}

__noinline int found_running(struct thread *t); /* ledger.h */

/* Ends the state of the current thread, or of its former tid; its open calls will not return. */
__noinline int forget_thread(__u32 tid)
{
	struct thread_record rec = { .kind = RECORD_THREAD };
	struct thread *t;

	if (!tracked(tid))
		return 0;
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t)
		return 0;
	set_tracked(tid, false);
	if (t->clock.state != WAIT_NONE) /* it runs: its switch-in was missed */
		found_running(t);
	rec.end_ns = bpf_ktime_get_ns();
	if (t->depth && t->depth <= MAX_DEPTH)
		account_call(&t->clock.account, &t->open[0], &t->clock.account.off, rec.end_ns);
	for (int i = 0; i < MAX_DEPTH; i++)
		if (i < t->depth)
			abandon(COUNTED(&t->open[i]));
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
 * Does the call end a wait? A thread that polls the GPU waits for it: the first query with another
 * result ends the wait.
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
