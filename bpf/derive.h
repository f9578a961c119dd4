// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* How each function is read, and the operation a driver launch is counted and recorded as. */
#pragma once

/*
 * recipes: row -> how to read it. Written from user space, before the attach and when a row's
 * threshold or flags change. Cannot fill.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ROWS);
	__uint(map_flags, BPF_F_RDONLY_PROG);
	__type(key, __u32);
	__type(value, struct recipe);
} recipes SEC(".maps");

/*
 * Learns from a driver launch inside an open launch, or returns 1 + the row of the runtime launch
 * that it is to be counted as, 0 for none.
 */
static __always_inline __u32 look_at_origin(struct pt_regs *ctx, struct thread *t,
					    const struct recipe *r, struct open_call *around)
{
	__u64 second = PT_REGS_PARM2(ctx), function = PT_REGS_PARM1(ctx);
	struct recipe *of;
	__u32 row;

	if (!around)
		return origin_of(t->tgid, returns_to(ctx));
	row = around->row;
	of = bpf_map_lookup_elem(&recipes, &row);
	if (of && of->layer == LAYER_RUNTIME)
		learn_origin(around, t->tgid, returns_to(ctx),
			     r->arg[0].slot == 2 ? second : function);
	return 0;
}

/*
 * The recipe of the runtime launch that a driver launch is to be counted and recorded as, since no
 * probe saw that one; NULL for none. The driver's is counted as nested in it. *c and *slot become
 * the runtime's counts and their slot.
 */
static __always_inline struct recipe *made_by(struct pt_regs *ctx, struct thread *t,
					      const struct recipe *r, struct open_call *around,
					      struct counts **c, __u32 *slot)
{
	__u32 known = look_at_origin(ctx, t, r, around), row = known - 1, runtime;
	struct recipe *by;
	struct counts *of;

	if (!known)
		return NULL;
	by = bpf_map_lookup_elem(&recipes, &row);
	runtime = slot_of(t->cache, t->tgid, row);
	of = bpf_map_lookup_elem(&call_counts, &runtime);
	if (!by || !of)
		return NULL;
	add(&(*c)->nested, 1);
	add(&(*c)->unmeasured, 1);
	add(&of->calls, 1);
	*c = of;
	*slot = runtime;
	return by;
}

/* Adds the runtime launch that made a driver launch to its record. */
__noinline int derive(struct call_record *rec, __u32 op)
{
	if (!rec)
		return 0;
	rec->arg[0] = function_of(rec->tgid, rec->arg[0]);
	if (!(rec->flags & CALL_NESTED)) {
		rec->flags |= CALL_FOLDED;
		rec->other = rec->op;
	}
	rec->op = op;
	return 0;
}
