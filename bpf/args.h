// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Arguments of a call: from registers, stack and memory to kept values, by rule. */
#pragma once

#if defined(__TARGET_ARCH_x86)
#define STACK_SLOT 7 /* first slot on the stack */
#define STACK_AT 8 /* above the return address */
#define RETURN_POP 8 /* a return pops the address: sp is this much higher */
#else
#define STACK_SLOT 9
#define STACK_AT 0
#define RETURN_POP 0
#endif

#define SLOTS 16 /* at least MAX_SLOTS + 1; a power of two */
#define SLOT(n) ((n) & (SLOTS - 1))

/*
 * The integer arguments in calling order, from 1; 0 has the start of those on the stack, so that a
 * structure there is read like others. The context is read at constant offsets, as the verifier
 * requires; then a rule is only an index.
 */
static __always_inline bool read_slots(struct pt_regs *ctx, __u64 slot[SLOTS], bool stack)
{
	slot[0] = PT_REGS_SP(ctx) + STACK_AT;
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
	return !bpf_probe_read_user(
		&slot[STACK_SLOT], (MAX_SLOTS + 1 - STACK_SLOT) * sizeof(slot[0]), (void *)slot[0]);
}

static __always_inline bool read_dim3(__u64 at, __u64 *out)
{
	__u32 d[3];

	if (bpf_probe_read_user(d, sizeof(d), (void *)at))
		return false;
	*out = d[0] | (__u64)(d[1] & 0xffff) << 32 | (__u64)(d[2] & 0xffff) << 48;
	return true;
}

/* One value by its rule. Returns false if user memory is unreadable. */
static __always_inline bool take(const __u64 slot[SLOTS], const struct rule *r, __u64 *out)
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
	case TAKE_MEM_VOLUME: {
		__u64 d[3];

		if (bpf_probe_read_user(d, sizeof(d), (void *)(v + r->off)))
			return false;
		*out = d[0] * d[1] * d[2];
		return true;
	}
	case TAKE_PAIR:
		*out = (v & 0xffff) | (slot[SLOT(r->slot2)] & 0xffff) << 16;
		return true;
	}
	*out = 0;
	return true;
}

/*
 * Sets arguments and tag of a record, and the flag for missing ones. `slot` has room for SLOTS,
 * which the BPF stack lacks. A recipe uses only slots that are read.
 */
static __always_inline void read_args(struct pt_regs *ctx, const struct recipe *r,
				      struct call_record *rec, __u64 *slot)
{
	__u64 tag = 0;

	if (!read_slots(ctx, slot, r->flags & RECIPE_STACK))
		rec->flags |= CALL_ARGS_PARTIAL;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_ARGS; i++) {
		__u64 v = 0;

		if (i < r->nargs && !take(slot, &r->arg[i], &v))
			rec->flags |= CALL_ARGS_PARTIAL;
		rec->arg[i] = v;
	}
	if (r->tag.take && !take(slot, &r->tag, &tag))
		rec->flags |= CALL_ARGS_PARTIAL;
	rec->tag = tag;
}

/* Reads, at return, the values that the function has stored through its pointers. */
static __always_inline void take_out(const struct recipe *r, struct call_record *rec)
{
#pragma unroll
	for (int i = 0; i < MAX_ARGS; i++) {
		__u64 at = rec->arg[i];

		if (i >= r->nargs || r->arg[i].take != TAKE_OUT)
			continue;
		rec->arg[i] = 0; /* a failed call stores nothing */
		if (!(rec->flags & CALL_FAILED) &&
		    bpf_probe_read_user(&rec->arg[i], r->arg[i].bytes == 4 ? 4 : 8,
					(void *)(at + r->arg[i].off)))
			rec->flags |= CALL_ARGS_PARTIAL;
	}
}
