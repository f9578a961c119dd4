// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The programs behind NVTX functions, with which a program names what it does. These are no CUDA
 * calls: none is opened or counted, and none ends a gap.
 */
#pragma once

#define MESSAGE_ASCII 1 /* nvtxMessageType_t: a row's tag has the type of its name */

/* Is this hit a repeat of the last call, by the link of another copy? As in duplicate(). */
static __always_inline bool range_again(struct thread *t, __u64 sp, __u64 ip, __u64 cookie)
{
	__u64 copy = 1ULL << COOKIE_COPY(cookie);

	if (t->range_sp == sp && t->range_ip == ip && t->range_links == links_changed &&
	    !(t->range_seen & copy)) {
		t->range_seen |= copy;
		return true;
	}
	t->range_sp = sp;
	t->range_ip = ip;
	t->range_links = links_changed;
	t->range_seen = copy;
	return false;
}

/* Reads the name into its record. An unreadable one is identified by its address. */
static __always_inline void read_name(struct range_record *rec, __u64 at)
{
	long n = bpf_probe_read_user_str(rec->name, sizeof(rec->name), (void *)at);

	if (n < 0) {
		rec->name[0] = 0;
		drop(DROP_TEXT);
	} else if (n == sizeof(rec->name)) {
		rec->flags |= RANGE_CUT;
	}
}

/*
 * Emits an NVTX call whose arguments are in t->counted. They are dropped first when the ring fills:
 * its other half is for CUDA calls only.
 */
__noinline int emit_range(struct thread *t, __u64 id, bool returned)
{
	__u64 used = bpf_ringbuf_query(&call_ring, BPF_RB_AVAIL_DATA);
	struct range_record *rec = NULL;

	if (!t)
		return 0;
	if (ledger && t->clock.state != WAIT_NONE)
		found_running(t); /* before the record of the range, which is later */
	if (used <= ring_bytes / 2)
		rec = bpf_ringbuf_reserve(&call_ring, sizeof(*rec), 0);
	if (!rec) {
		t->ranges_lost++;
		drop(DROP_RANGE);
		return 0;
	}
	rec->kind = RECORD_RANGE;
	rec->flags = ledger ? 0 : RANGE_UNACCOUNTED;
	rec->op = t->counted.op;
	rec->tgid = t->tgid;
	rec->tid = t->counted.tid;
	rec->lost = t->ranges_lost;
	rec->id = id;
	rec->domain = t->counted.arg[1];
	rec->name[0] = 0;
	if (returned)
		rec->flags |= RANGE_RETURNED;
	else if (t->counted.tag == MESSAGE_ASCII)
		read_name(rec, id);
	rec->time_ns = bpf_ktime_get_ns();
	rec->account = t->clock.account;
	if (t->depth && t->depth <= MAX_DEPTH)
		account_call(&rec->account, &t->open[0], &rec->account.off, rec->time_ns);
	bpf_ringbuf_submit(rec, wakeup(used > ring_bytes / 4));
	return 0;
}

/* The thread, if it makes CUDA calls: others have no steps. */
static __always_inline struct thread *range_thread(struct task_struct *task)
{
	struct thread *t = thread_of(task->tgid, task->pid);

	return t && !t->clock.hop ? t : NULL;
}

static __always_inline int range_enter(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 row = COOKIE_ROW(cookie), top;
	struct thread *t = range_thread(task);
	struct recipe *r = bpf_map_lookup_elem(&recipes, &row);
	volatile struct probe_cost *price = &probe_costs[COOKIE_PLACE(cookie) & (PLACES - 1)];
	bool watch;

	if (!t || !r || range_again(t, PT_REGS_SP(ctx), PT_REGS_IP(ctx), cookie))
		return SKIP_RETURN;
	watch = !(r->flags & RECIPE_ENTRY_ONLY || t->flags & TARGET_ENTRY_ONLY);
	top = t->depth - 1;
	if (top < MAX_DEPTH)
		t->open[INDEX(top, MAX_DEPTH)].probe_ns +=
			watch ? price->around_ns : price->entry_ns;
	begin(&t->counted, r, t->tgid, task->pid, NULL);
	read_args(ctx, r, &t->counted, t->slot);
	emit_range(t, t->counted.arg[0], false);
	return watch ? WATCH_RETURN : SKIP_RETURN;
}

static __always_inline int range_leave(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 row = COOKIE_ROW(cookie);
	struct thread *t = range_thread(task);
	struct recipe *r = bpf_map_lookup_elem(&recipes, &row);

	if (!t || !r || r->flags & RECIPE_ENTRY_ONLY)
		return 0;
	begin(&t->counted, r, t->tgid, task->pid, NULL);
	t->counted.arg[1] = 0;
	emit_range(t, PT_REGS_RC(ctx), true);
	return 0;
}

SEC("uprobe.session")
int range_session(struct pt_regs *ctx)
{
	int skip;

	if (bpf_session_is_return())
		return range_leave(ctx);
	skip = range_enter(ctx);
	asm volatile("%0 &= 1" : "+r"(skip)); /* the verifier requires 0 or 1 */
	return skip;
}

SEC("uprobe.multi")
int range_enter_multi(struct pt_regs *ctx)
{
	range_enter(ctx);
	return 0;
}

SEC("uprobe.multi")
int range_exit_multi(struct pt_regs *ctx)
{
	return range_leave(ctx);
}

SEC("uprobe")
int range_enter_perf(struct pt_regs *ctx)
{
	range_enter(ctx);
	return 0;
}

SEC("uretprobe")
int range_exit_perf(struct pt_regs *ctx)
{
	return range_leave(ctx);
}
