// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Finds who had a CPU while a thread waited for it: from the CPU's slices and gathered time. */
#pragma once

/* Adds the time of culprits without a slot. */
static __always_inline void refuse(struct cpu *scratch, __u64 ns)
{
	if (ns & STRANGER)
		scratch->others += ns & ~STRANGER;
	else
		scratch->own_others += ns;
	drop(DROP_CULPRITS_FULL);
}

/*
 * Adds a slice to the culprit table in a CPU's scratch; ns has STRANGER. A separate function for
 * the verifier, like the next: their loops would multiply.
 */
__noinline int accuse(__u32 scratch_cpu, __u32 id, __u32 slice, __u64 ns)
{
	struct cpu *scratch = cpu_at(scratch_cpu);
	__u32 least;

	if (!scratch)
		return 0;
	scratch->least = 0;
	for (int i = 0; i < CULPRITS; i++) {
		if (scratch->culprit[i].ns && scratch->culprit[i].id != id) {
			least = INDEX(scratch->least, CULPRITS);
			if (scratch->culprit[i].ns < scratch->culprit[least].ns)
				scratch->least = i;
			continue;
		}
		scratch->culprit[i].id = id;
		scratch->culprit[i].slice = slice;
		scratch->culprit[i].ns = (scratch->culprit[i].ns & ~STRANGER) + ns;
		return 0;
	}
	/* Table full: the smallest is evicted, and loses its name. */
	least = INDEX(scratch->least, CULPRITS);
	if (scratch->culprit[least].ns >= ns) {
		refuse(scratch, ns);
		return 0;
	}
	refuse(scratch, scratch->culprit[least].ns);
	scratch->culprit[least].id = id;
	scratch->culprit[least].slice = slice;
	scratch->culprit[least].ns = ns;
	return 0;
}

/*
 * Adds a slice of a CPU to the culprits of the wait in a CPU's scratch. Returns whether earlier
 * slices can be in the wait. Its inputs are in the scratch, so that the verifier need not track
 * them through the surrounding loop.
 */
__noinline int charge(__u32 cpu, __u32 scratch_cpu, __u32 i)
{
	struct cpu *c = cpu_at(cpu), *scratch = cpu_at(scratch_cpu);
	struct slice *s;
	__u64 a, b, ns;
	__u32 n;

	if (!c || !scratch)
		return 0;
	n = (scratch->newest - i) & (SLICES - 1);
	s = &c->slices[n];
	if (s->to <= scratch->from)
		return 0;
	scratch->oldest = s->from;
	a = s->from > scratch->from ? s->from : scratch->from;
	b = s->to < scratch->to ? s->to : scratch->to;
	if (a >= b)
		return 1;
	ns = take_from(&scratch->others, b - a);
	if (!ns)
		return 0;
	if (s->who.tgid != scratch->tgid)
		accuse(scratch_cpu, s->who.tgid, n, ns | STRANGER);
	else
		accuse(scratch_cpu, scratch->apart ? s->who.tid : scratch->tgid, n, ns);
	return 1;
}

/* Adds a process's evicted slices, likewise. Returns whether there are more. */
__noinline int charge_gathered(__u32 cpu, __u32 scratch_cpu, __u32 i)
{
	struct cpu *c = cpu_at(cpu), *scratch = cpu_at(scratch_cpu);
	struct gathered *x;
	__u64 ns;

	if (!c || !scratch || i >= c->ngathered)
		return 0;
	i &= CULPRITS - 1;
	x = &c->gathered[i];
	ns = take_from(&scratch->others, x->ns);
	if (!ns)
		return 0;
	if (x->last.who.tgid != scratch->tgid)
		accuse(scratch_cpu, x->last.who.tgid, SLICES + i, ns | STRANGER);
	else if (scratch->apart) /* which of its threads is unknown */
		scratch->own_others += ns;
	else
		accuse(scratch_cpu, scratch->tgid, SLICES + i, ns);
	return 1;
}

/*
 * Fills the culprit table in a CPU's scratch with the users of a CPU from `from` to `to`, during a
 * wait of a thread of tgid, and `others` with the rest. The thread may run on another CPU by now. Then
 * slices can move to the gathered ones meanwhile; all together never exceed the wait.
 */
__noinline int find_culprits(__u32 cpu, __u32 scratch_cpu, __u64 from, __u64 to, __u32 tgid)
{
	struct cpu *c = cpu_at(cpu), *scratch = cpu_at(scratch_cpu);

	if (!c || !scratch)
		return 0;
	scratch->from = from;
	scratch->to = to;
	scratch->oldest = to;
	scratch->tgid = tgid;
	scratch->newest = c->head;
	scratch->others = to - from;
	scratch->own_others = 0;
	for (int i = 0; i < CULPRITS; i++)
		scratch->culprit[i].ns = 0;
	for (int i = 1; i <= SLICES; i++)
		if (!charge(cpu, scratch_cpu, i))
			break;
	if (scratch->oldest <= from || !c->gathered_from)
		return 0;
	if (from >
	    c->gathered_from) { /* others waited before: how much is of this wait is not known */
		drop(DROP_TURNS_FULL);
		return 0;
	}
	for (int i = 0; i < CULPRITS; i++)
		if (!charge_gathered(cpu, scratch_cpu, i))
			break;
	return 0;
}
