// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The programs behind every traced function. The attach cookie has the row. The same program in
 * another thread can preempt them on the same CPU, so nothing here is per CPU.
 */
#pragma once

/* By enum place; written from user space after calibration. */
volatile struct probe_cost probe_costs[PLACES];

/* Counts a traced process's call without thread state. */
__noinline int count_stateless(__u32 tgid, __u32 row)
{
	struct counts *c;
	__u32 slot;

	if (!bpf_map_lookup_elem(&targets, &tgid))
		return 0;
	drop(DROP_THREADS_FULL);
	slot = find_slot(tgid, row);
	c = bpf_map_lookup_elem(&call_counts, &slot);
	if (c) {
		add(&c->calls, 1);
		add(&c->unmeasured, 1);
	}
	return 0;
}

#define WATCH_RETURN 0
#define SKIP_RETURN 1 /* honored by session links only */

/* Fills in the fields that every record has. */
static __always_inline void begin(struct call_record *rec, const struct recipe *r, __u32 tgid,
				  __u32 tid, const struct open_call *around)
{
	rec->kind = RECORD_CALL;
	rec->weight_log2 = 0;
	rec->op = r->op;
	rec->other = around ? around->rec.op : 0;
	rec->flags = around ? CALL_NESTED : 0;
	rec->tgid = tgid;
	rec->tid = tid;
	rec->gap = rec->gap_on_cpu = rec->gap_runnable = rec->gap_throttled = rec->gap_stack = 0;
}

/*
 * A launch directly inside an outermost launch has no record of its own: it is counted, and the
 * outer record mentions it.
 */
static __always_inline bool fold(const struct recipe *r, struct open_call *o)
{
	if (!(o->recipe_flags & r->flags & RECIPE_LAUNCH) ||
	    o->rec.flags & (CALL_NESTED | CALL_FOLDED))
		return false;
	o->rec.flags |= CALL_FOLDED;
	o->rec.other = r->op;
	return true;
}

/* A call without a return probe: its times are unknown, not zero. */
static __always_inline void count_only(struct pt_regs *ctx, struct thread *t,
				       const struct recipe *r, __u32 tid, struct open_call *around,
				       __u16 inside, __u64 cookie, __u64 calls,
				       const struct recipe *by)
{
	struct call_record *rec = &t->counted;

	t->skip_sp = PT_REGS_SP(ctx);
	t->skip_ip = PT_REGS_IP(ctx);
	t->skip_links = links_changed;
	t->skip_seen = 1ULL << COOKIE_COPY(cookie);
	if (around) {
		around->probe_ns += probe_costs[COOKIE_PLACE(cookie) & (PLACES - 1)].entry_ns;
		if (fold(r, around))
			return;
	}
	begin(rec, r, t->tgid, tid, around);
	rec->stack = 0;
	if (inside) {
		rec->flags |= CALL_NESTED;
		rec->other = inside;
	}
	rec->flags |= CALL_UNMEASURED;
	read_args(ctx, r, rec, t->slot);
	if (by)
		derive(rec, by->op);
	rec->start_ns = bpf_ktime_get_ns();
	if (r->flags & RECIPE_TEXT && (!(r->flags & RECIPE_STAYS) || calls <= TEXT_FIRST))
		emit_text(rec, r->flags & RECIPE_STAYS);
	if (take_stacks != STACKS_NONE)
		stack_of(ctx, t, rec, PT_REGS_IP(ctx), returns_to(ctx), true, false);
	emit_call(&t->ring, rec, offsetof(struct call_record, gap), r->flags & RECIPE_KEEP);
}

/*
 * Opens a call, inside `around` if not NULL, to be closed at its return. It is counted in a slot, and
 * recorded as the runtime launch `by`, if not NULL.
 */
static __always_inline void follow(struct pt_regs *ctx, struct task_struct *task, struct thread *t,
				   const struct recipe *r, const struct open_call *around,
				   __u64 cookie, __u32 slot, const struct recipe *by)
{
	__u32 at = t->depth;
	struct open_call *o;

	if (at >= MAX_DEPTH) /* impossible: for the verifier */
		return;
	if (ledger)
		settle(t, task);
	t->skip_sp = 0;
	o = &t->open[INDEX(at, MAX_DEPTH)];
	o->sp = PT_REGS_SP(ctx);
	o->ip = PT_REGS_IP(ctx);
	o->inner_ns = 0;
	o->probe_ns = 0;
	o->row = COOKIE_ROW(cookie);
	o->recipe_flags = r->flags;
	o->seen = 1ULL << COOKIE_COPY(cookie);
	o->links = links_changed;
	begin(&o->rec, r, t->tgid, task->pid, around);
	o->rec.result = 0;
	COUNTED(o) = slot;
	read_args(ctx, r, &o->rec, t->slot);
	if (by)
		derive(&o->rec, by->op);
	o->rec.start_ns = mark(task, t, &o->at); /* last: excludes this program's time */
	t->depth = at + 1; /* the reader of the account sees no call that is half open */
	if (at == 0 && t->returned_ns)
		measure_gap(t, o, task->pid);
}

#define SOURCE_GRAPH 3 /* events.SourceGraph */
#define GRAPH_LAUNCHED (1U << 16)

/* Counts an outermost launch, up to 65,535, and notes whether it is of a graph. */
static __always_inline void launched(struct thread *t, __u16 op)
{
	if ((__u16)t->launches < 0xffff)
		t->launches++;
	if (op >> 8 == SOURCE_GRAPH)
		t->launches |= GRAPH_LAUNCHED;
}

static __always_inline int enter(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx), sp = PT_REGS_SP(ctx), ip = PT_REGS_IP(ctx);
	__u32 tgid = task->tgid, tid = task->pid, row = COOKIE_ROW(cookie), top, lever = 0;
	struct thread *t = thread_of(tgid, tid);
	struct recipe *r = bpf_map_lookup_elem(&recipes, &row), *by = NULL;
	struct open_call *o = NULL;
	struct counts *c;
	__u32 slot;
	bool launch, counted = false;

	if (!r)
		return SKIP_RETURN;
	launch = r->flags & RECIPE_LAUNCH;
	if (!t || t->clock.hop) {
		t = new_caller(t, tgid, tid);
		if (!t) {
			count_stateless(tgid, row);
			return SKIP_RETURN;
		}
	}
	if (t->levers_seen != levers_changed)
		see_levers(t);
	if (duplicate(t, sp, ip, cookie)) {
		drop(DROP_DUPLICATE_LINK);
		return SKIP_RETURN;
	}
	prune(ctx, t, sp, r);
	slot = slot_of(t->cache, tgid, row);
	c = bpf_map_lookup_elem(&call_counts, &slot);
	if (!c)
		return SKIP_RETURN;
	add(&c->calls, 1);
	top = t->depth - 1;
	if (top < MAX_DEPTH) {
		o = &t->open[INDEX(top, MAX_DEPTH)];
		counted = launch && o->recipe_flags & RECIPE_LAUNCH;
	}
	if (launch && !counted && (t->flags & TARGET_LAUNCHES || t->counted_sp))
		lever = lever_counts(t, sp, r->op, r->layer == LAYER_DRIVER);
	if (r->layer == LAYER_DRIVER && origins_mode != ORIGINS_OFF && !(__u16)lever)
		by = made_by(ctx, t, r, counted ? o : NULL, &c, &slot);
	if (o || (__u16)lever)
		add(&c->nested, 1);
	else if (launch)
		launched(t, r->op);
	top = t->depth;
	if (top >= MAX_DEPTH || r->flags & RECIPE_ENTRY_ONLY || t->flags & TARGET_ENTRY_ONLY ||
	    counted || lever) {
		if (top >= MAX_DEPTH)
			drop(DROP_TOO_DEEP);
		add(&c->unmeasured, 1);
		count_only(ctx, t, r, tid, o, lever, cookie, c->calls, by);
		return SKIP_RETURN;
	}
	follow(ctx, task, t, r, o, cookie, slot, by);
	return WATCH_RETURN;
}

/* Pair links also deliver the returns of calls that are counted only. */
static __always_inline bool return_expected(const struct thread *t, const struct recipe *r)
{
	__u32 top = t->depth - 1;

	if (r->flags & RECIPE_ENTRY_ONLY || t->flags & TARGET_ENTRY_ONLY)
		return false;
	if (r->flags & RECIPE_LAUNCH && (t->flags & TARGET_LAUNCHES || t->counted_sp))
		return false;
	return top >= MAX_DEPTH ||
	       !(t->open[INDEX(top, MAX_DEPTH)].recipe_flags & r->flags & RECIPE_LAUNCH);
}

static __always_inline void count_return(struct counts *c, const struct call_record *rec,
					 const struct parts *p, __u64 inner)
{
	add(&c->done, 1);
	add(&c->total_ns, rec->duration_ns);
	__sync_fetch_and_add(&c->hist[hist_index(rec->duration_ns)], 1);
	if (rec->flags & CALL_FAILED)
		add(&c->errors, 1);
	if (p->runnable)
		add(&c->runnable_ns, p->runnable);
	if (p->throttled)
		add(&c->throttled_ns, p->throttled);
	if (inner)
		add(&c->inner_ns, inner);
	if (p->partial) {
		add(&c->partial, 1);
		add(&c->partial_ns, rec->duration_ns - p->runnable);
	} else {
		add(&c->on_cpu_ns, p->on_cpu);
	}
}

/*
 * Completes the record of a call that has returned, counts and emits it: `has` says whether it did.
 * Returns the cost of its stack, ns.
 */
static __always_inline __u64 close_call(struct pt_regs *ctx, struct thread *t, struct open_call *o,
					const struct recipe *r, const struct parts *p, __u64 ns,
					bool *has)
{
	__u32 slot = COUNTED(o);
	struct counts *c = bpf_map_lookup_elem(&call_counts, &slot);
	struct call_record *rec = &o->rec;
	__u64 size = offsetof(struct call_record, throttled), cost;
	__u32 shift = 0;
	bool notable, keep;

	rec->result = (__s32)PT_REGS_RC(ctx);
	if (rec->result && (__u32)rec->result != r->pending)
		rec->flags |= CALL_FAILED;
	if (p->partial)
		rec->flags |= CALL_LEDGER_PARTIAL;
	if (p->unseen)
		rec->flags |= CALL_UNSEEN;
	if (p->throttled)
		rec->flags |= CALL_THROTTLED;
	rec->duration_ns = ns;
	if (r->flags & RECIPE_OUT)
		take_out(r, rec);
	if (c)
		count_return(c, rec, p, o->inner_ns);
	if (ns >> 42) {
		rec->flags |= CALL_SHIFT | CALL_SHIFT_MORE;
		shift = 20;
	} else if (ns >> 32) {
		rec->flags |= CALL_SHIFT;
		shift = 10;
	}
	rec->on_cpu = p->on_cpu >> shift;
	rec->runnable = p->runnable >> shift;
	rec->throttled = p->throttled >> shift;
	if (rec->flags & CALL_GAP_STACK)
		size = sizeof(*rec);
	else if (rec->flags & CALL_THROTTLED)
		size = offsetof(struct call_record, gap_stack);
	if (r->flags & RECIPE_TEXT)
		emit_text(
			rec,
			false); /* not at entry: by now the library has read the string from the disk */
	notable = rec->flags & CALL_FAILED || (r->slow_ns && ns >= r->slow_ns);
	cost = stack_of(ctx, t, rec, o->ip, PT_REGS_IP(ctx), false, notable);
	keep = ends_polling(t, r, rec) /* always called: it has state */ || ns >= long_call;
	if (!(rec->flags & CALL_NESTED || r->flags & RECIPE_LAUNCH)) {
		rec->other = t->launches;
		rec->flags |= t->launches & GRAPH_LAUNCHED ? CALL_GRAPHS : CALL_NO_GRAPHS;
	}
	keep |= rec->flags & CALL_GAP_STACK;
	*has = emit_call(&t->ring, rec, size, keep || notable || r->flags & RECIPE_KEEP);
	return cost;
}

static __always_inline int leave(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(ctx), ns, cost, stack;
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid, row = COOKIE_ROW(cookie), at;
	volatile struct probe_cost *price = &probe_costs[COOKIE_PLACE(cookie) & (PLACES - 1)];
	struct recipe *r = bpf_map_lookup_elem(&recipes, &row);
	struct thread *t = thread_of(tgid, task->pid);
	struct parts p = {}; /* Linux 5.15 rejects uninitialized arguments */
	struct open_call *o;
	struct mark *m;
	bool has;

	if (!r)
		return 0;
	if (!t) {
		if (bpf_map_lookup_elem(&targets, &tgid))
			drop(DROP_ORPHAN_RETURN);
		return 0;
	}
	at = find_open(t, row, PT_REGS_SP(ctx) - RETURN_POP);
	if (at >= MAX_DEPTH) {
		if (return_expected(t, r))
			drop(DROP_ORPHAN_RETURN);
		if (t->counted_sp == PT_REGS_SP(ctx) - RETURN_POP)
			t->counted_sp = 0;
		return 0;
	}
#pragma unroll
	for (int i = 1; i < MAX_DEPTH; i++)
		if (i > at && i < t->depth)
			abandon(COUNTED(&t->open[i]));
	if (ledger)
		settle(t, task);
	o = &t->open[INDEX(at, MAX_DEPTH)];
	m = &t->scratch;
	note(task, t, m);
	if (ledger && t->clock.since > now) /* switched since the clock was read */
		now = mark(task, t, m);
	ns = now - o->rec.start_ns;
	cost = price->inside_ns + o->probe_ns;
	ns -= cost < ns ? cost : ns;
	split(t, &o->at, m, ns, &p);
	if (at == 0)
		account_call(&t->clock.account, o, &m->off, now);
	t->depth = at; /* the reader of the account sees the call in it, or as open */
	stack = close_call(ctx, t, o, r, &p, ns, &has);
	if (at > 0) {
		o = &t->open[INDEX(at - 1, MAX_DEPTH)];
		o->inner_ns += ns;
		o->probe_ns += price->around_ns + cost + stack;
	} else if (has) {
		t->returned = *m;
		t->returned_ns = now + stack; /* the gap after it excludes that */
		if (!(r->flags & RECIPE_LAUNCH))
			t->launches = 0;
	}
	return 0;
}

extern bool bpf_session_is_return(void) __ksym __weak;

SEC("uprobe.session")
int call_session(struct pt_regs *ctx)
{
	int skip;

	if (bpf_session_is_return())
		return leave(ctx);
	skip = enter(ctx);
	asm volatile("%0 &= 1" : "+r"(skip)); /* the verifier requires 0 or 1 */
	return skip;
}

SEC("uprobe.multi")
int call_enter_multi(struct pt_regs *ctx)
{
	enter(ctx);
	return 0;
}

SEC("uprobe.multi")
int call_exit_multi(struct pt_regs *ctx)
{
	return leave(ctx);
}

SEC("uprobe")
int call_enter(struct pt_regs *ctx)
{
	enter(ctx);
	return 0;
}

SEC("uretprobe")
int call_exit(struct pt_regs *ctx)
{
	return leave(ctx);
}
