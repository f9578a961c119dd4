// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * call_enter and call_exit, the two programs behind every traced function. They
 * learn the row from the attach cookie: bits 0-15 the row, bits 16-31 the
 * library's number, which tells duplicate links apart.
 *
 * A thread's state has one writer, the thread itself, and needs no atomics. The
 * programs can be preempted by the same program in another thread of the same
 * CPU, so nothing here is per CPU.
 */
#pragma once

/* A thread's own scheduler figures at one moment: tier 0 of the ledger. */
struct snapshot {
	__u64 run_delay;
	__u64 sum_exec;
	__u64 exec_start;
	__u64 nvcsw;
	__u64 migrations;
};

struct open_call {
	__u64 sp; /* user stack pointer at entry: the call's identity */
	__u64 ip; /* where the probe is */
	__u64 start_ns;
	__u64 inner_ns; /* spent in traced calls made by this one */
	__u64 arg[MAX_ARGS];
	struct snapshot at;
	__u64 gap_ns;
	__u32 gap_on_cpu;
	__u32 gap_runnable;
	__u32 tag;
	__u16 row;
	__u16 lib;
	__u16 flags; /* enum call_flags so far */
	__u16 parent;
	__u32 probe_ns; /* cost of the probes of inner calls, not this call's doing */
};

struct thread {
	__u32 tgid;
	__u32 flags; /* enum target_flags, as when the thread was first seen */
	__u32 depth;
	__u32 skip_lib; /* the last call that was counted only */
	__u64 skip_sp;
	__u64 skip_ip;
	__u64 trampoline; /* where this process returns to through a return probe */
	__u64 returned_ns; /* when the last outermost call returned */
	struct snapshot returned;
	struct open_call open[MAX_DEPTH];
};

/*
 * recipes: row -> how to read it. Written from user space, before the attach
 * and when a row's threshold or flags change. Cannot fill.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ROWS);
	__uint(map_flags, BPF_F_RDONLY_PROG);
	__type(key, __u32);
	__type(value, struct recipe);
} recipes SEC(".maps");

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
 * call_counts: (tgid, row) -> exact sums. Created at the first call, deleted
 * from user space after the process has ended. When full, sums go to tgid 0,
 * whose entries user space makes beforehand.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_COUNTS);
	__type(key, struct counts_key);
	__type(value, struct counts);
} call_counts SEC(".maps");

/* Templates, too large for the stack. Never written. */
const struct thread no_thread = {};
const struct counts no_counts = {};

/* By enum place; written from user space once measured. */
volatile struct probe_cost probe_costs[PLACES];

#if defined(__TARGET_ARCH_x86)
#define STACK_SLOT 7 /* first slot on the stack */
#define STACK_AT 8 /* above the return address */
#define RETURN_POP 8 /* a return pops the address: sp is that much higher */
#else
#define STACK_SLOT 9
#define STACK_AT 0
#define RETURN_POP 0
#endif

static __always_inline void snap(struct snapshot *s)
{
	struct task_struct *task = bpf_get_current_task_btf();

	s->run_delay = task->sched_info.run_delay;
	s->sum_exec = task->se.sum_exec_runtime;
	s->exec_start = task->se.exec_start;
	s->nvcsw = task->nvcsw;
	s->migrations = task->se.nr_migrations;
}

/* ns split: on_cpu + runnable + blocked. Returns false when on_cpu is unknown. */
static __always_inline bool split(const struct snapshot *a, const struct snapshot *b, __u64 ns,
				  __u64 *on_cpu, __u64 *runnable)
{
	__u64 wait = b->run_delay - a->run_delay;
	__s64 run;

	if (wait > ns)
		wait = ns;
	*runnable = wait;
	if (a->nvcsw == b->nvcsw) { /* never gave the CPU away by itself: never blocked */
		*on_cpu = ns - wait;
		return true;
	}
	*on_cpu = 0;
	if (a->migrations != b->migrations) /* exec_start is in a clock of its CPU */
		return false;
	run = b->sum_exec - a->sum_exec + ns - (b->exec_start - a->exec_start);
	if (run < 0)
		run = 0;
	if ((__u64)run > ns - wait)
		run = ns - wait;
	*on_cpu = run;
	return true;
}

/*
 * The integer arguments in calling order, from 1. The context is read at
 * constant offsets, as the verifier asks; after this a rule is only an index.
 */
static __always_inline bool read_slots(struct pt_regs *ctx, __u64 slot[16], bool stack)
{
	__u64 n = 0;

	slot[1] = PT_REGS_PARM1(ctx);
	slot[2] = PT_REGS_PARM2(ctx);
	slot[3] = PT_REGS_PARM3(ctx);
	slot[4] = PT_REGS_PARM4(ctx);
	slot[5] = PT_REGS_PARM5(ctx);
#if defined(__TARGET_ARCH_x86)
	slot[6] = ctx->r9;
#else
	slot[6] = ctx->user_regs.regs[5];
	slot[7] = ctx->user_regs.regs[6];
	slot[8] = ctx->user_regs.regs[7];
#endif
	if (!stack)
		return true;
	n = (MAX_SLOTS + 1 - STACK_SLOT) * sizeof(slot[0]);
	return !bpf_probe_read_user(&slot[STACK_SLOT], n, (void *)(PT_REGS_SP(ctx) + STACK_AT));
}

#define SLOT(n) ((n)&15)

static __always_inline bool read_dim3(__u64 at, __u64 *out)
{
	__u32 d[3];

	if (bpf_probe_read_user(d, sizeof(d), (void *)at))
		return false;
	*out = d[0] | (__u64)(d[1] & 0xffff) << 32 | (__u64)(d[2] & 0xffff) << 48;
	return true;
}

/* One value by its rule. Returns false when user memory could not be read. */
static __always_inline bool take(const __u64 slot[16], const struct rule *r, __u64 *out)
{
	__u64 v = slot[SLOT(r->slot)], w = 0;

	switch (r->take) {
	case TAKE_SLOT:
		*out = r->bytes == 4 ? (__u32)v : v;
		return true;
	case TAKE_OUT: /* the pointer, until the return */
		*out = v;
		return true;
	case TAKE_CONST:
		*out = r->off;
		return true;
	case TAKE_PRODUCT:
		w = slot[SLOT(r->slot2)];
		*out = r->bytes == 4 ? (__u64)(__u32)v * (__u32)w : v * w;
		return true;
	case TAKE_DIM3:
		w = slot[SLOT(r->slot + 1)];
		*out = (__u32)v | (v >> 32 & 0xffff) << 32 | (w & 0xffff) << 48;
		return true;
	case TAKE_PACK3:
		w = slot[SLOT(r->slot + 1)];
		*out = (__u32)v | (w & 0xffff) << 32 | (slot[SLOT(r->slot + 2)] & 0xffff) << 48;
		return true;
	case TAKE_MEM:
		if (r->bytes == 4) {
			__u32 half = 0;
			bool ok = !bpf_probe_read_user(&half, 4, (void *)(v + r->off));

			*out = half;
			return ok;
		}
		return !bpf_probe_read_user(out, 8, (void *)(v + r->off));
	case TAKE_MEM_DIM3:
		return read_dim3(v + r->off, out);
	case TAKE_MEM_PRODUCT:
		if (bpf_probe_read_user(out, 8, (void *)(v + r->off)) ||
		    bpf_probe_read_user(&w, 8, (void *)(v + r->off2)))
			return false;
		*out *= w;
		return true;
	}
	*out = 0;
	return true;
}

static __always_inline struct counts *counts_of(__u32 tgid, __u32 row)
{
	struct counts_key key = { .tgid = tgid, .row = row };
	struct counts *c = bpf_map_lookup_elem(&call_counts, &key);

	if (c)
		return c;
	bpf_map_update_elem(&call_counts, &key, &no_counts, BPF_NOEXIST);
	c = bpf_map_lookup_elem(&call_counts, &key);
	if (c)
		return c;
	drop(DROP_COUNTS_FULL);
	key.tgid = 0;
	return bpf_map_lookup_elem(&call_counts, &key);
}

static __always_inline void add(__u64 *to, __u64 n)
{
	__sync_fetch_and_add(to, n);
}

/* A call that will not return: longjmp, exec, the end of its thread. */
static __always_inline void abandon(__u32 tgid, __u32 row)
{
	struct counts *c = counts_of(tgid, row);

	if (c)
		add(&c->abandoned, 1);
}

/* Where the kernel has put its return trampoline in this process, 0 if unknown. */
static __always_inline __u64 trampoline(struct thread *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct xol_area *area = NULL;

	if (t->trampoline || !bpf_core_field_exists(area->vaddr))
		return t->trampoline;
	area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	if (area)
		t->trampoline = BPF_CORE_READ(area, vaddr);
	return t->trampoline;
}

#if defined(__TARGET_ARCH_x86)
/* Does the return address at sp lead to the trampoline, as of a call that still stands? */
static __always_inline bool hijacked(struct pt_regs *ctx, struct thread *t, __u64 sp)
{
	__u64 ret = 0;

	if (bpf_probe_read_user(&ret, sizeof(ret), (void *)sp))
		return false;
	return ret == trampoline(t);
}
#define STANDS(ctx, t, o) (!trampoline(t) || hijacked(ctx, t, (o)->sp))
#else
/* The link register, so of the function that is being entered only. */
static __always_inline bool hijacked(struct pt_regs *ctx, struct thread *t, __u64 sp)
{
	return ctx->user_regs.regs[30] == trampoline(t);
}
#define STANDS(ctx, t, o) true /* where it saved its return address is not known */
#endif

/*
 * Forgets open calls whose frames are gone, as a longjmp leaves them. One below
 * sp is gone. One at sp stands if it jumped here: then the return address is the
 * trampoline's. One above stands if its own is; a launch is taken to stand,
 * since it calls nothing that could leave it, and is the hot path.
 */
static __always_inline void prune(struct pt_regs *ctx, struct thread *t, __u64 sp, bool launch)
{
#pragma unroll
	for (int i = 0; i < MAX_DEPTH; i++) {
		__u32 top = t->depth - 1;
		struct open_call *o;

		if (top >= MAX_DEPTH)
			return;
		o = &t->open[top];
		if (o->sp == sp && hijacked(ctx, t, sp))
			return;
		if (o->sp > sp && (launch || STANDS(ctx, t, o)))
			return;
		abandon(t->tgid, o->row);
		t->depth = top;
	}
}

/* Is this hit the second of one call, by another link to the same instruction? */
static __always_inline bool duplicate(const struct thread *t, __u64 sp, __u64 ip, __u32 lib)
{
	__u32 top = t->depth - 1;

	if (top < MAX_DEPTH && t->open[top].sp == sp && t->open[top].ip == ip &&
	    t->open[top].lib != lib)
		return true;
	return t->skip_sp == sp && t->skip_ip == ip && t->skip_lib != lib;
}

static __always_inline struct thread *thread_of(__u32 tgid, __u32 tid, bool make)
{
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);
	struct target *p;

	if (t && t->tgid == tgid)
		return t;
	if (!make)
		return NULL;
	p = bpf_map_lookup_elem(&targets, &tgid);
	if (!p)
		return NULL;
	if (bpf_map_update_elem(&threads, &tid, &no_thread, BPF_ANY))
		return NULL;
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t)
		return NULL;
	t->tgid = tgid;
	t->flags = p->flags;
	return t;
}


/* Counts a traced process's call for which there is no thread state. */
static __always_inline void count_stateless(__u32 tgid, __u32 row)
{
	struct counts *c;

	if (!bpf_map_lookup_elem(&targets, &tgid))
		return;
	drop(DROP_THREADS_FULL);
	c = counts_of(tgid, row);
	if (c) {
		add(&c->calls, 1);
		add(&c->unmeasured, 1);
	}
}

/* What an entry learns of a call before it decides how to follow it. */
struct entry {
	__u64 arg[MAX_ARGS];
	__u32 tag;
	__u16 flags;
	__u16 parent;
};

static __always_inline void read_args(struct pt_regs *ctx, const struct recipe *r, struct entry *e)
{
	__u64 slot[16] = {}, tag = 0;

	if (!read_slots(ctx, slot, r->flags & RECIPE_STACK))
		e->flags |= CALL_ARGS_PARTIAL;
#pragma unroll
	for (int i = 0; i < MAX_ARGS; i++)
		if (i < r->nargs && !take(slot, &r->arg[i], &e->arg[i]))
			e->flags |= CALL_ARGS_PARTIAL;
	if (r->tag.take && !take(slot, &r->tag, &tag))
		e->flags |= CALL_ARGS_PARTIAL;
	e->tag = tag;
}

/* Puts out a call whose return is not watched: its times are unknown, not zero. */
static __always_inline void emit_entry(const struct thread *t, __u32 tid, const struct recipe *r,
				       const struct entry *e)
{
	struct call_record rec = {
		.kind = RECORD_CALL,
		.op = r->op,
		.parent = e->parent,
		.flags = e->flags | CALL_UNMEASURED,
		.tgid = t->tgid,
		.tid = tid,
		.start_ns = bpf_ktime_get_ns(),
		.tag = e->tag,
	};

#pragma unroll
	for (int i = 0; i < MAX_ARGS; i++)
		rec.arg[i] = e->arg[i];
	emit_call(&rec, offsetof(struct call_record, duration_ns), false);
}

/* The time between the thread's last outermost call and this one. */
static __always_inline void measure_gap(const struct thread *t, struct open_call *o)
{
	__u64 on_cpu = 0, runnable = 0, ns = o->start_ns - t->returned_ns;
	__u32 shift = 0;

	if (!split(&t->returned, &o->at, ns, &on_cpu, &runnable))
		o->flags |= CALL_GAP_PARTIAL;
	if (ns >> 32) {
		o->flags |= CALL_SHIFT_GAP;
		shift = 10;
	}
	o->gap_ns = ns >> shift;
	o->gap_on_cpu = on_cpu >> shift;
	o->gap_runnable = runnable >> shift;
}

#define WATCH_RETURN 0
#define SKIP_RETURN 1 /* honoured by session links only */

static __always_inline int enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
	__u64 sp = PT_REGS_SP(ctx), ip = PT_REGS_IP(ctx);
	__u32 tgid = id >> 32, tid = id, row = COOKIE_ROW(cookie), top;
	__u32 place = COOKIE_PLACE(cookie) & (PLACES - 1);
	struct thread *t = thread_of(tgid, tid, true);
	struct recipe *r = bpf_map_lookup_elem(&recipes, &row);
	struct recipe *around = NULL;
	struct open_call *o = NULL;
	struct entry e = {};
	struct counts *c;

	if (!r)
		return SKIP_RETURN;
	if (!t) {
		count_stateless(tgid, row);
		return SKIP_RETURN;
	}
	if (duplicate(t, sp, ip, COOKIE_LIB(cookie))) {
		drop(DROP_DUPLICATE_LINK);
		return SKIP_RETURN;
	}
	prune(ctx, t, sp, r->flags & RECIPE_LAUNCH);
	top = t->depth - 1;
	if (top < MAX_DEPTH) {
		__u32 around_row = t->open[top].row;

		o = &t->open[top];
		around = bpf_map_lookup_elem(&recipes, &around_row);
		e.flags = CALL_NESTED;
		e.parent = around ? around->op : 0;
	}
	c = counts_of(tgid, row);
	if (c) {
		add(&c->calls, 1);
		if (o)
			add(&c->nested, 1);
	}
	read_args(ctx, r, &e);
	if (r->flags & RECIPE_ENTRY_ONLY || t->flags & TARGET_ENTRY_ONLY || t->depth >= MAX_DEPTH ||
	    (around && around->flags & r->flags & RECIPE_LAUNCH)) {
		if (t->depth >= MAX_DEPTH)
			drop(DROP_TOO_DEEP);
		if (c)
			add(&c->unmeasured, 1);
		t->skip_sp = sp;
		t->skip_ip = ip;
		t->skip_lib = COOKIE_LIB(cookie);
		if (o)
			o->probe_ns += probe_costs[place].entry_ns;
		emit_entry(t, tid, r, &e);
		return SKIP_RETURN;
	}
	t->skip_sp = 0;
	top = t->depth;
	if (top >= MAX_DEPTH)
		return SKIP_RETURN;
	t->depth = top + 1;
	o = &t->open[top];
	o->sp = sp;
	o->ip = ip;
	o->inner_ns = 0;
	o->probe_ns = 0;
	o->row = row;
	o->lib = COOKIE_LIB(cookie);
	o->flags = e.flags;
	o->parent = e.parent;
	o->tag = e.tag;
	__builtin_memcpy(o->arg, e.arg, sizeof(o->arg));
	snap(&o->at);
	o->start_ns = bpf_ktime_get_ns();
	o->gap_ns = o->gap_on_cpu = o->gap_runnable = 0;
	if (top == 0 && t->returned_ns)
		measure_gap(t, o);
	return WATCH_RETURN;
}

/* Index of the bucket for ns: exact below 8, then 8 an octave (stats.HistIndex). */
static __always_inline __u32 hist_index(__u64 ns)
{
	__u32 e = 0, i;
	__u64 v = ns;

	if (ns < 8)
		return ns;
	if (v >> 32) {
		v >>= 32;
		e += 32;
	}
	if (v >> 16) {
		v >>= 16;
		e += 16;
	}
	if (v >> 8) {
		v >>= 8;
		e += 8;
	}
	if (v >> 4) {
		v >>= 4;
		e += 4;
	}
	if (v >> 2) {
		v >>= 2;
		e += 2;
	}
	if (v >> 1)
		e += 1;
	i = (e - 2) * 8 + ((ns >> (e - 3)) & 7);
	return i < HIST_BUCKETS ? i : HIST_BUCKETS - 1;
}

/* Index of the open call that returns here, or MAX_DEPTH. Calls above it are gone. */
static __always_inline __u32 find_open(struct thread *t, __u32 row, __u64 sp)
{
	__u32 at = MAX_DEPTH;

#pragma unroll
	for (int i = 0; i < MAX_DEPTH; i++)
		if (i < t->depth && t->open[i].sp == sp && t->open[i].row == row)
			at = i;
	return at;
}

static __always_inline void take_out(const struct recipe *r, struct call_record *rec)
{
#pragma unroll
	for (int i = 0; i < MAX_ARGS; i++) {
		__u64 at = rec->arg[i];

		if (i >= r->nargs || r->arg[i].take != TAKE_OUT)
			continue;
		rec->arg[i] = 0; /* a failed call leaves nothing to read */
		if (!(rec->flags & CALL_FAILED) && bpf_probe_read_user(&rec->arg[i], 8, (void *)at))
			rec->flags |= CALL_ARGS_PARTIAL;
	}
}

static __always_inline void count_return(struct counts *c, const struct call_record *rec,
					 __u64 on_cpu, __u64 runnable, __u64 inner)
{
	add(&c->done, 1);
	if (rec->flags & CALL_FAILED)
		add(&c->errors, 1);
	add(&c->total_ns, rec->duration_ns);
	if (runnable)
		add(&c->runnable_ns, runnable);
	if (rec->flags & CALL_LEDGER_PARTIAL) {
		add(&c->partial, 1);
		add(&c->partial_ns, rec->duration_ns - runnable);
	} else {
		add(&c->on_cpu_ns, on_cpu);
	}
	if (inner)
		add(&c->inner_ns, inner);
	__sync_fetch_and_add(&c->hist[hist_index(rec->duration_ns)], 1);
}

/* An entry whose return nobody was to watch, as pair links bring it all the same. */
static __always_inline bool return_expected(const struct thread *t, const struct recipe *r)
{
	__u32 top = t->depth - 1, row;
	struct recipe *around;

	if (r->flags & RECIPE_ENTRY_ONLY || t->flags & TARGET_ENTRY_ONLY)
		return false;
	if (top >= MAX_DEPTH || !(r->flags & RECIPE_LAUNCH))
		return true;
	row = t->open[top].row;
	around = bpf_map_lookup_elem(&recipes, &row);
	return !around || !(around->flags & RECIPE_LAUNCH);
}

static __always_inline int leave(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	__u64 cookie = bpf_get_attach_cookie(ctx), on_cpu, runnable, ns, cost;
	__u32 tgid = id >> 32, tid = id, row = COOKIE_ROW(cookie), at;
	__u32 place = COOKIE_PLACE(cookie) & (PLACES - 1);
	struct thread *t = thread_of(tgid, tid, false);
	struct recipe *r = bpf_map_lookup_elem(&recipes, &row);
	struct call_record rec = { .kind = RECORD_CALL };
	struct open_call *o;
	struct snapshot s;
	struct counts *c;

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
		return 0;
	}
#pragma unroll
	for (int i = 1; i < MAX_DEPTH; i++)
		if (i > at && i < t->depth)
			abandon(tgid, t->open[i].row);
	t->depth = at;
	o = &t->open[at];

	snap(&s);
	ns = now - o->start_ns;
	cost = probe_costs[place].inside_ns + o->probe_ns;
	ns -= cost < ns ? cost : ns;
	rec.result = (__s32)PT_REGS_RC(ctx);
	rec.flags = o->flags | (rec.result ? CALL_FAILED : 0);
	if (!split(&o->at, &s, ns, &on_cpu, &runnable))
		rec.flags |= CALL_LEDGER_PARTIAL;
	rec.duration_ns = ns;
	rec.start_ns = o->start_ns;
	rec.op = r->op;
	rec.parent = o->parent;
	rec.tgid = tgid;
	rec.tid = tid;
	rec.tag = o->tag;
	rec.gap = o->gap_ns;
	rec.gap_on_cpu = o->gap_on_cpu;
	rec.gap_runnable = o->gap_runnable;
	__builtin_memcpy(rec.arg, o->arg, sizeof(rec.arg));
	if (r->flags & RECIPE_OUT)
		take_out(r, &rec);

	c = counts_of(tgid, row);
	if (c)
		count_return(c, &rec, on_cpu, runnable, o->inner_ns);
	if (ns >> 32) {
		rec.flags |= CALL_SHIFT;
		on_cpu >>= 10;
		runnable >>= 10;
	}
	rec.on_cpu = on_cpu;
	rec.runnable = runnable;
	emit_call(&rec, sizeof(rec), rec.flags & CALL_FAILED || (r->slow_ns && ns >= r->slow_ns));

	if (at > 0) {
		o = &t->open[(at - 1) & (MAX_DEPTH - 1)];
		o->inner_ns += ns;
		o->probe_ns += probe_costs[place].around_ns + cost;
		return 0;
	}
	t->returned = s;
	t->returned_ns = now;
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
	asm volatile("%0 &= 1" : "+r"(skip)); /* the verifier wants 0 or 1 */
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
