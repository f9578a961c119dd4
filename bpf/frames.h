// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Which open calls of a thread are still on its stack, and which probe hits belong to one call. */
#pragma once

/* Address of the kernel's return trampoline in this process, 0 if unknown. */
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
/* Is the return address at sp the trampoline, as for a call on the stack? */
static __always_inline bool hijacked(struct pt_regs *ctx, struct thread *t, __u64 sp)
{
	__u64 ret = 0;

	if (bpf_probe_read_user(&ret, sizeof(ret), (void *)sp))
		return false;
	return ret == trampoline(t);
}
#define STANDS(ctx, t, sp) (!trampoline(t) || hijacked(ctx, t, sp))
#else
/* The link register, so only valid for the function being entered. */
static __always_inline bool hijacked(struct pt_regs *ctx, struct thread *t, __u64 sp)
{
	return ctx->user_regs.regs[30] == trampoline(t);
}
#define STANDS(ctx, t, sp) true /* the location of its saved return address is unknown */
#endif

/*
 * Abandons open calls whose frames are gone, as after a longjmp. A call below sp is gone. A call at
 * sp remains if it tail-jumped here: then the return address is the trampoline. A call above sp
 * remains if its own return address is the trampoline; around a launch that is assumed while all
 * launches have probes, since the launch path is hot. Otherwise its return may be missed: a runtime
 * launch is gone once it has made its one driver launch, and another driver launch comes.
 */
static __always_inline void prune(struct pt_regs *ctx, struct thread *t, __u64 sp,
				  const struct recipe *r)
{
	bool granted = r->flags & RECIPE_LAUNCH && origins_mode == ORIGINS_OFF;
	bool next = r->layer == LAYER_DRIVER && origins_mode == ORIGINS_DERIVE;

#pragma unroll
	for (int i = 0; i < MAX_DEPTH; i++) {
		__u32 top = t->depth - 1;
		struct open_call *o;
		__u64 at;

		if (top >= MAX_DEPTH)
			return;
		o = &t->open[INDEX(top, MAX_DEPTH)];
		at = o->sp;
		if (at == sp && hijacked(ctx, t, sp))
			return;
		if (at > sp && (granted || (!(next && o->rec.result == ORIGIN_LAUNCHED) &&
					    STANDS(ctx, t, at))))
			return;
		abandon(COUNTED(o));
		t->depth = top;
	}
}

/*
 * Is a launch made inside one that was counted at entry only, and so is not open? The outer one
 * remains if its return address is unchanged: a caller that continued has almost certainly
 * overwritten it. A jump from one launch to another is missed.
 */
static __always_inline bool inside_counted(struct thread *t, __u64 sp)
{
#if defined(__TARGET_ARCH_x86)
	__u64 ret = 0;

	if (sp >= t->counted_sp || bpf_probe_read_user(&ret, sizeof(ret), (void *)t->counted_sp))
		return false;
	return ret == t->counted_ret || (ret && ret == trampoline(t));
#else
	return sp < t->counted_sp;
#endif
}

#define LEVER_COUNTS (1 << 16)

/*
 * Is a launch to be counted at entry only, by a lever, now or at the entry of the launch around it?
 * Then LEVER_COUNTS, and the outer one's op if there is one.
 */
__noinline int lever_counts(struct thread *t, __u64 sp, __u32 op, bool driver)
{
	__u64 ret = 0;

	if (!t)
		return 0;
	if (inside_counted(t, sp)) {
		if (driver && origins_mode == ORIGINS_DERIVE) /* its return may be missed */
			t->counted_sp = 0;
		return LEVER_COUNTS | t->counted_op;
	}
	if (!(t->flags & TARGET_LAUNCHES)) {
		t->counted_sp = 0;
		return 0;
	}
	if (driver) { /* it makes no launch itself */
		t->counted_sp = 0;
		return LEVER_COUNTS;
	}
#if defined(__TARGET_ARCH_x86)
	bpf_probe_read_user(&ret, sizeof(ret), (void *)sp);
#endif
	t->counted_op = op;
	t->counted_sp = sp;
	t->counted_ret = ret;
	return LEVER_COUNTS;
}

/* Counts links made and closed, which change the hits of a call. Written from user space. */
volatile __u32 links_changed = 0;

/*
 * Is this hit a repeat of a known call, by the link of another copy? Each link hits once per call,
 * so a second hit by one copy is a new call at the same place. So is a hit by a link that did not
 * exist when the known call began: that call's return may never be seen.
 */
static __always_inline bool duplicate(struct thread *t, __u64 sp, __u64 ip, __u64 cookie)
{
	__u32 top = t->depth - 1;
	__u64 copy = 1ULL << COOKIE_COPY(cookie), *seen;

	if (top < MAX_DEPTH && t->open[INDEX(top, MAX_DEPTH)].sp == sp &&
	    t->open[INDEX(top, MAX_DEPTH)].ip == ip &&
	    t->open[INDEX(top, MAX_DEPTH)].links == (__u8)links_changed)
		seen = &t->open[INDEX(top, MAX_DEPTH)].seen;
	else if (t->skip_sp == sp && t->skip_ip == ip && t->skip_links == links_changed)
		seen = &t->skip_seen;
	else
		return false;
	if (*seen & copy)
		return false;
	*seen |= copy;
	return true;
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
