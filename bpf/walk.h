// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Finds the callers of a probed function, from the registers at its entry or return. For code
 * without frame pointers it uses the tables of unwind.h. Unknown data ends the stack, with the
 * reason; nothing is guessed. One frame is one call of a global function, which the verifier checks
 * once: so bpf_loop (5.17) is not needed.
 */
#pragma once

/* Reads a word of the stack. The words above it are likely to be read next. */
static __always_inline bool read_word(struct walk *w, __u64 at, __u64 *out)
{
	__u64 off = at - w->base;

	if (!w->loaded || off > sizeof(w->window) - 8 || off & 7) {
		w->loaded = 0;
		w->base = at;
		off = 0;
		if (bpf_probe_read_user(w->window, sizeof(w->window), (void *)at))
			return !bpf_probe_read_user(out, sizeof(*out), (void *)at);
		w->loaded = 1;
	}
	*out = w->window[off / 8 & (WALK_WINDOW - 1)];
	return true;
}

#define RETURNS 16 /* return instances to search: mostly calls that were left by a longjmp */

/* The original address of a return through the kernel's trampoline at `stack`. */
__noinline int real_return(struct walk *w, __u64 stack)
{
	struct return_instance *r;

	if (!w)
		return WALK_ASTRAY;
	for (int i = 0; i < RETURNS; i++) {
		__u64 at;

		r = (void *)w->returns;
		if (!r)
			break;
		at = BPF_CORE_READ(r, stack);
		if (at > stack)
			break;
		w->returns = (__u64)BPF_CORE_READ(r, next);
		w->pc = BPF_CORE_READ(r, orig_ret_vaddr);
		if (at == stack && w->pc != w->trampoline)
			return 0;
	}
	return WALK_ASTRAY;
}

#if defined(__TARGET_ARCH_x86)
#define RI_STACK(cfa, at) (at)
#define RETURN_MASK ~0ULL
#define SIGNAL_AT 120 /* from ucontext to rbp; rsp and rip are five and six words after it */
#define SIGNAL_FP 0
#define SIGNAL_LR 0
#define SIGNAL_SP 5
#define SIGNAL_PC 6
#define CHAIN_SP(cfa) (cfa)
#else
#define RI_STACK(cfa, at) (cfa)
#define RETURN_MASK 0x0000ffffffffffffULL /* upper bits are a signature */
#define SIGNAL_AT 544 /* from siginfo to x29 */
#define SIGNAL_FP 0
#define SIGNAL_LR 1
#define SIGNAL_SP 2
#define SIGNAL_PC 3
#define CHAIN_SP(cfa) 0 /* the position of a frame pointer within its frame is unknown */
#endif

/* Continues at the interrupted code. */
static __always_inline int step_signal(struct walk *w)
{
	__u64 regs[7];

	if (bpf_probe_read_user(regs, sizeof(regs), (void *)(w->sp + SIGNAL_AT)))
		return WALK_UNREADABLE;
	w->fp = regs[SIGNAL_FP];
	w->lr = regs[SIGNAL_LR];
	w->sp = regs[SIGNAL_SP];
	w->pc = regs[SIGNAL_PC];
	w->interrupted = 1;
	return 0;
}

/* Does a signal handler return to this address? Some C libraries have no table for it. */
static __always_inline bool returns_from_signal(__u64 pc)
{
#if defined(__TARGET_ARCH_x86)
	__u64 code = 0; /* mov $15, %rax; syscall: without the last byte */

	return !bpf_probe_read_user(&code, sizeof(code), (void *)pc) &&
	       code == 0x0f0000000fc0c748ULL;
#else
	__u64 code = 0; /* mov x8, #139; svc #0 */

	return !bpf_probe_read_user(&code, sizeof(code), (void *)pc) &&
	       code == 0xd4000001d2801168ULL;
#endif
}

/* Steps to the caller by a rule: 0, or the reason to stop. */
static __always_inline int step_rule(struct walk *w, const struct unwind_rule *r)
{
	__u64 cfa, at;

	switch (r->kind) {
	case UNWIND_SP:
		if (!w->sp)
			return WALK_ASTRAY;
		cfa = w->sp + r->cfa;
		break;
	case UNWIND_PLT:
		cfa = w->sp + r->cfa + ((w->pc & 15) >= r->arg ? 8 : 0);
		break;
	case UNWIND_FP:
	case UNWIND_CHAIN:
		cfa = w->fp + r->cfa;
		break;
	case UNWIND_SP_DEREF:
	case UNWIND_FP_DEREF:
		at = (r->kind == UNWIND_SP_DEREF ? w->sp : w->fp) + r->cfa;
		if (!read_word(w, at, &cfa))
			return WALK_UNREADABLE;
		break;
	default:
		return WALK_NO_RULE;
	}
	/* An interrupted function may not have used the stack yet. */
	if (cfa < w->sp || (cfa == w->sp && !w->interrupted))
		return WALK_ASTRAY;
	at = cfa + r->ra;
	if (r->fp || r->kind == UNWIND_FP_DEREF) { /* first, since it is below */
		__u64 fp_at = (r->kind == UNWIND_FP_DEREF ? w->fp : cfa) + r->fp;

		if (!read_word(w, fp_at, &w->fp))
			return WALK_UNREADABLE;
	}
	if (r->ra) {
		if (!read_word(w, at, &w->pc))
			return WALK_UNREADABLE;
	} else {
		if (!w->interrupted)
			return WALK_ASTRAY;
		w->pc = w->lr;
	}
	w->pc &= RETURN_MASK;
	w->sp = r->kind == UNWIND_CHAIN ? CHAIN_SP(cfa) : cfa;
	w->interrupted = 0;
	if (w->trampoline && w->pc == w->trampoline)
		return real_return(w, RI_STACK(cfa, at));
	return 0;
}

#define HASH_A 0x9e3779b97f4a7c15ULL
#define HASH_B 0xc2b2ae3d27d4eb4fULL

/* Records the frame at pc and steps to its caller. Returns 0 if there is none. */
__noinline int walk_frame(struct walk *w)
{
	__u32 n, slot, number = 0;
	struct unwind_rule *r;
	__u64 at, hash, *known;
	int found;

	if (!w)
		return 0;
	n = w->frames;
	if (!w->pc) /* some threads start with a return address of 0 */
		return 0;
	if (n >= WALK_FRAMES) {
		w->end = WALK_DEEP;
		return 0;
	}
	/* A call may be its function's last instruction: its return address is then another's. */
	at = w->pc - !w->interrupted;
	hash = (at ^ w->space * HASH_A) * HASH_B;
	hash ^= hash >> 32;
	hash *= HASH_A;
	slot = hash & (UNWIND_CACHE - 1);
	known = bpf_map_lookup_elem(&unwind_cache, &slot);
	if (known && !((*known ^ hash) >> 16))
		number = *known & 0xffff;
	if (!number) {
		found = rule_at(w, at);
		if (found == -WALK_NO_MAPPING || found == -WALK_NO_SPACE) {
			w->end = -found;
			return 0; /* not a frame */
		}
		if (found > 0 && known)
			*known = (hash & ~0xffffULL) | (found & 0xffff);
		if (found < 0)
			w->end = -found;
		else
			number = found;
	}
	w->ip[n & (WALK_FRAMES - 1)] = w->pc;
	if (w->interrupted)
		w->exact |= 1ULL << (n & (WALK_FRAMES - 1));
	w->frames = n + 1;
	if (w->end)
		return 0;
	r = bpf_map_lookup_elem(&unwind_rules, &number);
	if (!r || r->kind == UNWIND_END || (r->kind == UNWIND_CHAIN && !w->fp))
		return 0;
	if (r->kind == UNWIND_SIGNAL ||
	    ((r->kind == UNWIND_NONE || r->kind == UNWIND_CHAIN) && returns_from_signal(w->pc)))
		w->end = step_signal(w);
	else
		w->end = step_rule(w, r);
	return !w->end;
}

/* Initializes the walk, with the kernel's changes to the stack. Returns 0 on success. */
__noinline int walk_begin(struct walk *w)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct uprobe_task *utask;
	struct unwind_space *s;
	struct xol_area *area;
	__u32 tgid = task->tgid;

	if (!w)
		return WALK_NO_SPACE;
	w->frames = w->end = w->interrupted = w->loaded = w->slot = 0;
	w->exact = w->start = w->stop = w->trampoline = w->returns = w->space = 0;
	w->tgid = tgid;
	s = use_space(w);
	if (!s)
		return WALK_NO_SPACE;
	if (!(s->seen & SPACE_USED))
		s->seen |= SPACE_USED;
	utask = BPF_CORE_READ(task, utask);
	if (utask)
		w->returns = (__u64)BPF_CORE_READ(utask, return_instances);
	area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	if (w->returns && area)
		w->trampoline = BPF_CORE_READ(area, vaddr);
	return 0;
}

/* Walks to the end. A separate function, so that the verifier checks the loop once a program. */
__noinline int walk_frames(struct walk *w)
{
	for (int i = 0; i <= WALK_FRAMES; i++)
		if (!walk_frame(w))
			break;
	return 0;
}

#if defined(__TARGET_ARCH_x86)
#define USER_PC(regs) BPF_CORE_READ(regs, ip)
#define USER_SP(regs) BPF_CORE_READ(regs, sp)
#define USER_FP(regs) BPF_CORE_READ(regs, bp)
#define USER_LR(regs) 0
#else
#define USER_PC(regs) BPF_CORE_READ(regs, user_regs.pc)
#define USER_SP(regs) BPF_CORE_READ(regs, user_regs.sp)
#define USER_FP(regs) BPF_CORE_READ(regs, user_regs.regs[29])
#define USER_LR(regs) BPF_CORE_READ(regs, user_regs.regs[30])
#endif

/*
 * Fills w with the frames of the current thread, innermost first, from where it last entered the
 * kernel: by a system call, a fault or an interrupt. Returns as walk_user.
 */
static __always_inline int walk_here(struct walk *w)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	__u32 end = walk_begin(w);

	w->end = end;
	if (!end) {
		w->pc = USER_PC(regs);
		w->sp = USER_SP(regs);
		w->fp = USER_FP(regs);
		w->lr = USER_LR(regs);
		w->interrupted = 1;
		walk_frames(w);
		end = w->end & 15;
	}
	return end;
}

/*
 * Fills w with the callers of the probed function, innermost first, from its registers at entry,
 * before it has used the stack, or at return. Returns why there are no more: enum walk_end.
 */
static __always_inline int walk_user(struct pt_regs *ctx, bool at_return, struct walk *w)
{
	__u32 end = walk_begin(w);
	__u64 sp = PT_REGS_SP(ctx);

	if (end) {
		w->end = end;
		goto out;
	}
	w->fp = PT_REGS_FP(ctx);
	w->lr = 0;
	w->sp = sp;
#if defined(__TARGET_ARCH_x86)
	w->pc = PT_REGS_IP(ctx);
	if (!at_return) {
		w->sp = sp + 8;
		if (!read_word(w, sp, &w->pc)) {
			w->end = WALK_UNREADABLE;
			goto out;
		}
	}
#else
	w->pc = ALONE(PT_REGS_IP(ctx)) & RETURN_MASK;
	if (!at_return)
		w->pc = PT_REGS_RET(ctx) & RETURN_MASK;
#endif
	if (w->trampoline && w->pc == w->trampoline && real_return(w, sp)) {
		w->end = WALK_ASTRAY;
		goto out;
	}
	walk_frames(w);
out:
	end = w->end & 15;
	__sync_fetch_and_add(&walk_ends[end], 1);
	return end;
}
