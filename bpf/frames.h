// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Which open calls of a thread still stand, and which hits of probes are of one call. */
#pragma once

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
#define STANDS(ctx, t, sp) (!trampoline(t) || hijacked(ctx, t, sp))
#else
/* The link register, so of the function that is being entered only. */
static __always_inline bool hijacked(struct pt_regs *ctx, struct thread *t, __u64 sp)
{
	return ctx->user_regs.regs[30] == trampoline(t);
}
#define STANDS(ctx, t, sp) true /* where it saved its return address is not known */
#endif

/*
 * Forgets open calls whose frames are gone, as a longjmp leaves them. One below
 * sp is gone. One at sp stands if it jumped here: then the return address is the
 * trampoline's. One above stands if its own is; around a launch that is taken
 * for granted while all launches have probes, since the launch path is hot. Else
 * the return of one may never be seen: it is gone once it has made its one launch
 * of the driver, and another comes.
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
		abandon(t->tgid, counted_row(o));
		t->depth = top;
	}
}

/*
 * Is a launch made inside one that was counted at its entry only, and so is not open?
 * That one stands if its return address is where it was: a caller that went on has
 * written over it, all but for chance. A jump from one launch to another is not seen.
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
 * Is a launch to be counted at its entry only, since a lever says so, or said when the
 * launch around it was entered? Then LEVER_COUNTS, and that one's op if there is one.
 */
__noinline int lever_counts(struct thread *t, __u64 sp, __u32 op, bool driver)
{
	__u64 ret = 0;

	if (!t)
		return 0;
	if (inside_counted(t, sp)) {
		if (driver && origins_mode == ORIGINS_DERIVE) /* its return may not be seen */
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

/* Counts links made and closed: what hits a call may get is another since. Written from user space. */
volatile __u32 links_changed = 0;

/*
 * Is this hit one more of a call that is known, by the link of another copy? Each
 * link hits once a call, so a copy that was seen has a new call at the same place.
 */
static __always_inline bool duplicate(struct thread *t, __u64 sp, __u64 ip, __u64 cookie)
{
	__u32 top = t->depth - 1;
	__u64 copy = 1ULL << COOKIE_COPY(cookie), *seen;

	if (top < MAX_DEPTH && t->open[INDEX(top, MAX_DEPTH)].sp == sp &&
	    t->open[INDEX(top, MAX_DEPTH)].ip == ip)
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
