// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The time ledger: for every thread that makes traced calls and every enrolled waker, when it was
 * off-CPU, why, and who had the CPU instead or ended the wait.
 *
 * The programs run under the scheduler's locks with interrupts off. They are not preempted and do not
 * nest, so per-CPU data is theirs alone (found_running uses none). A thread's state is changed by the
 * CPU that it leaves or gets, or by its waker while it is off-CPU; the scheduler's locks serialize these.
 */
#pragma once

const volatile bool switch_has_state = true; /* sched_switch's fourth argument, since 5.18 */

#define KTHREADD 2 /* the parent of all kernel threads */

/* The state of a task's thread, if it has an account. */
static __always_inline struct thread *followed(const struct task_struct *task)
{
	__u32 tid = task->pid;

	if (!tracked_threads)
		return NULL;
	return tracked(tid) ? bpf_map_lookup_elem(&threads, &tid) : NULL;
}

/* Total throttled time of the thread's cgroup on a CPU, as of the last unthrottle. */
static __always_inline __u64 throttle_clock(struct task_struct *task, __u32 cpu)
{
	struct task_group *group = NULL;
	struct cfs_rq *rq = NULL, **slot;

	if (!bpf_core_field_exists(task->sched_task_group) || !bpf_core_field_exists(group->cfs_rq))
		return 0;
	slot = task->sched_task_group->cfs_rq;
	if (bpf_probe_read_kernel(&rq, sizeof(rq), slot + cpu))
		return 0;
	if (bpf_core_field_exists(rq->throttled_clock_self_time))
		return BPF_CORE_READ(rq, throttled_clock_self_time);
	if (bpf_core_field_exists(rq->throttled_clock_pelt_time))
		return BPF_CORE_READ(rq, throttled_clock_pelt_time);
	if (bpf_core_field_exists(rq->throttled_clock_task_time))
		return BPF_CORE_READ(rq, throttled_clock_task_time);
	return 0;
}

/* The thread becomes runnable: it waits for a CPU. */
static __always_inline void queue(struct clock *k, struct task_struct *task, __u32 cpu, __u64 now)
{
	struct cpu *c = cpu_at(cpu);

	k->state = WAIT_RUNNABLE;
	k->since = now;
	k->cpu = cpu;
	k->throttle_base = throttle_clock(task, cpu);
	k->queued = c != NULL;
	if (!c)
		return;
	if (!c->waiters)
		begin_waiting(c, now);
	__sync_fetch_and_add(&c->waiters, 1);
}

/*
 * The culprit of a slice: the thread, if it is of the waiting process, else its process, by the
 * names of its first thread. None if the CPU was idle.
 */
static __always_inline void culprit_of(struct who *w, const struct slice *s, bool stranger)
{
	if (!s->who.tid) {
		*w = (struct who){};
		return;
	}
	*w = s->who;
	if (!stranger)
		return;
	w->tid = w->tgid;
	w->start = s->born;
	__builtin_memcpy(w->comm, s->process, sizeof(w->comm));
}

/* Emits a culprit from a CPU's scratch. Returns whether there is one. */
__noinline int emit_culprit(__u32 cpu, __u32 scratch_cpu, __u32 i, __u32 flags)
{
	struct cpu *c = cpu_at(cpu), *scratch = cpu_at(scratch_cpu);
	struct culprit *x;
	bool stranger;

	if (!c || !scratch)
		return 0;
	x = &scratch->culprit[i & (CULPRITS - 1)];
	if (!x->ns)
		return 0;
	stranger = x->ns & STRANGER;
	scratch->rec.flags = flags;
	scratch->rec.taken_ns = x->ns & ~STRANGER;
	if (x->slice & SLICES)
		culprit_of(&scratch->rec.who, &c->gathered[x->slice & (CULPRITS - 1)].last,
			   stranger);
	else
		culprit_of(&scratch->rec.who, &c->slices[x->slice & (SLICES - 1)], stranger);
	if (!scratch->rec.who.tid)
		scratch->rec.flags |= WAIT_IDLE;
	emit_wait(&scratch->rec);
	return 1;
}

/* Emits the CPU time of threads without a slot: of process tgid, 0: unknown. */
static __always_inline void emit_others(struct wait_record *rec, __u8 flags, __u32 tgid, __u64 ns)
{
	rec->flags = flags | WAIT_OTHERS;
	rec->taken_ns = ns;
	rec->who = (struct who){};
	rec->who.tgid = tgid;
	emit_wait(rec);
}

/* Emits the culprits of a wait of ns until now, one record each. */
static __always_inline void emit_runnable(struct thread *t, struct cpu *scratch, __u64 ns,
					  __u64 now, __u8 flags)
{
	struct wait_record *rec = &scratch->rec;
	__u32 here = bpf_get_smp_processor_id();

	rec->state = WAIT_RUNNABLE;
	rec->start_ns = now - ns;
	rec->ns = ns;
	rec->on = (struct block){};
	scratch->apart = !t->clock.hop;
	find_culprits(t->clock.cpu, here, now - ns, now, t->tgid);
	for (int i = 0; i < CULPRITS; i++) {
		if (!emit_culprit(t->clock.cpu, here, i, flags))
			break;
		flags |= WAIT_PREVIOUS;
	}
	if (scratch->own_others >= long_wait) {
		emit_others(rec, flags, t->tgid, scratch->own_others);
		flags |= WAIT_PREVIOUS;
	}
	if (!(flags & WAIT_PREVIOUS) || scratch->others >= long_wait)
		emit_others(rec, flags, 0, scratch->others);
}

/* Emits the time from `since` to `until`, for which the thread was blocked with the stack `own`. */
static __always_inline void emit_blocked(struct thread *t, struct task_struct *task,
					 struct wait_record *rec, __u64 since, __u64 until,
					 __u32 own)
{
	struct clock *k = &t->clock;
	bool by_program = !k->woken_by_irq && k->waker.parent != KTHREADD;

	rec->state = WAIT_BLOCKED;
	rec->flags = k->block_flags & ~BLOCK_TURN;
	rec->start_ns = since;
	rec->ns = until - since;
	rec->taken_ns = 0;
	rec->on = k->on;
	rec->who = (struct who){};
	rec->stack = rec->own = 0;
	if (k->block_flags & WAIT_STOPPED) {
		set_stopper(&rec->who, task);
		emit_wait(rec);
		return;
	}
	if (k->gil_holder) {
		rec->flags |= WAIT_GIL;
		rec->on.arg = k->gil_holder & ~GIL_AGAIN;
	}
	if (k->woken_by_irq)
		rec->flags |= WAIT_BY_IRQ;
	else
		rec->who = k->waker;
	rec->stack = by_program ? k->waker_stack : own;
	rec->own = by_program ? own : 0;
	emit_wait(rec);
}

/*
 * Has the holder of Python's lock released it at the thread's request? Then the wait is short, but
 * identifies the holder and place for the long waits before it.
 */
static __always_inline bool told_to_let_go(const struct clock *k)
{
	return k->gil_holder & GIL_AGAIN && k->waker_stack && !k->woken_by_irq;
}

/* Does the time that the thread was blocked get a record? It is negative if the clock went back. */
static __always_inline bool is_told(const struct clock *k, __s64 ns)
{
	if (ns < 0)
		return false;
	return is_long(ns) || k->block_flags & BLOCK_TURN || told_to_let_go(k);
}

/* Begins the record of a wait that ends. */
static __always_inline void begin_record(struct wait_record *rec, const struct thread *t,
					 const struct task_struct *task)
{
	rec->kind = RECORD_WAIT;
	rec->op = t->depth ? t->open[0].rec.op : 0;
	rec->cpu = t->clock.cpu;
	rec->hop = t->clock.hop;
	rec->tgid = t->tgid;
	rec->tid = task->pid;
}

/* Emits the block that ended before the thread became runnable. If it has run since, its stack is lost. */
static __always_inline void close_block(struct thread *t, struct task_struct *task,
					struct wait_record *rec, bool has_run)
{
	struct clock *k = &t->clock;
	__u64 until = k->since; /* first: a switch in the middle changes it, and takes the block */
	__u64 since = __sync_lock_test_and_set(&k->blocked_since, 0);
	__u32 own = 0;

	if (!since || !is_told(k, until - since))
		return;
	if (!has_run)
		own = profile_blocked(t, task->pid, until - since, until);
	emit_blocked(t, task, rec, since, until, own);
}

/*
 * The current thread is on-CPU, whatever the ledger has seen: its switch-in was missed. If it is
 * runnable by the ledger, the end of its last block was seen. Probes of calls can be preempted: the
 * record is on the stack, since this CPU's scratch may be in use.
 */
__noinline int found_running(struct thread *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct wait_record rec = {};

	if (!t)
		return 0;
	t->clock.missed++;
	begin_record(&rec, t, task);
	close_block(t, task, &rec, true);
	unqueue(&t->clock);
	t->clock.state = WAIT_NONE;
	t->clock.since = bpf_ktime_get_ns();
	t->clock.stolen_base = 0;
	return 0;
}

/* Ends a thread's wait for a CPU: adds it to the sums, and emits it if long. */
static __always_inline void close_wait(struct thread *t, struct task_struct *task, __u64 now,
				       __u8 flags)
{
	struct cpu *scratch = cpu_at(bpf_get_smp_processor_id());
	struct clock *k = &t->clock;
	__u64 wait = now - k->since, held;

	held = throttle_clock(task, k->cpu) - k->throttle_base;
	if ((__s64)held < 0)
		held = 0;
	if (held > wait)
		held = wait;
	k->account.off.throttled += held;
	k->account.off.runnable += wait - held;
	if (!scratch)
		return;
	begin_record(&scratch->rec, t, task);
	close_block(t, task, &scratch->rec, false);
	if (is_long(held)) {
		scratch->rec.state = WAIT_THROTTLED;
		scratch->rec.flags = flags;
		scratch->rec.start_ns = k->since;
		scratch->rec.ns = held;
		scratch->rec.taken_ns = 0;
		scratch->rec.on = (struct block){};
		scratch->rec.who = (struct who){};
		emit_wait(&scratch->rec);
	}
	if (is_long(wait - held))
		emit_runnable(t, scratch, wait - held, now, flags);
}

static __always_inline void switch_out(struct task_struct *task, bool preempt, __u32 state,
				       __u32 cpu, __u64 now)
{
	struct thread *t = followed(task);
	struct clock *k;

	if (!t)
		return;
	k = &t->clock;
	settle(t, task);
	k->switches++;
	if (k->state != WAIT_NONE)
		found_running(t);
	if (preempt || !state) {
		queue(k, task, cpu, now);
		return;
	}
	/* Retired. Only a thread that blocks is certainly in no program that uses t. */
	if (k->hop && !k->enrolled_for) {
		forget_thread(task->pid);
		return;
	}
	k->state = WAIT_BLOCKED;
	k->since = now;
	k->cpu = cpu;
	block(k, task, state);
	if (has_own_stack(t))
		profile_block(task->pid, now);
}

static __always_inline void wake(struct clock *k, __u64 now)
{
	k->account.off.blocked += now - k->since;
	k->blocked_since = k->since;
}

static __always_inline void switch_in(struct task_struct *task, __u32 cpu, __u64 now)
{
	struct thread *t = followed(task);
	struct clock *k;

	if (!t)
		return;
	k = &t->clock;
	if (k->state == WAIT_BLOCKED) { /* its wake-up was missed */
		k->missed++;
		wake(k, now);
		queue(k, task, cpu, now);
	}
	if (k->state == WAIT_RUNNABLE) {
		close_wait(t, task, now, 0);
		unqueue(k);
	}
	k->state = WAIT_NONE;
	k->since = now;
	k->cpu = cpu;
	k->stolen_base = stolen_from(task);
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	struct task_struct *prev, *next;
	__u32 cpu, state;
	struct cpu *c;
	bool out, in;
	__u64 now;

	if (!tracked_threads)
		return 0;
	prev = (struct task_struct *)ctx[1];
	next = (struct task_struct *)ctx[2];
	cpu = bpf_get_smp_processor_id();
	c = cpu_at(cpu);
	if (!c)
		return 0;
	out = tracked(prev->pid);
	in = tracked(next->pid);
	if (!out && !in && !c->waiters) /* nearly always */
		return 0;
	now = bpf_ktime_get_ns();
	if (c->waiters)
		add_slice(c, cpu, prev, now);
	if (out) {
		state = switch_has_state ? ctx[3] : prev->__state;
		switch_out(prev, ctx[0], state, cpu, now);
	}
	if (in)
		switch_in(next, cpu, now);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	struct thread *t = followed(task);
	__u64 now;

	if (!t || t->clock.state != WAIT_BLOCKED)
		return 0;
	now = bpf_ktime_get_ns();
	wake(&t->clock, now);
	queue(&t->clock, task, cpu_of(task), now);
	return 0;
}

/* A thread that waits for one CPU moves to the queue of another. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task, int cpu)
{
	struct thread *t = followed(task);
	__u64 now;

	if (!t || t->clock.state != WAIT_RUNNABLE)
		return 0;
	now = bpf_ktime_get_ns();
	if (t->clock.queued)
		add_running(t->clock.cpu, rq_of(task), now);
	close_wait(t, task, now, WAIT_MOVED);
	unqueue(&t->clock);
	queue(&t->clock, task, cpu, now);
	return 0;
}
