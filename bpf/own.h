// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Stacks that a thread takes of itself outside traced calls: Python frames or, without Python, native
 * ones.
 */
#pragma once

/*
 * Fills a room with the current thread's Python frames, where it releases Python's lock, or anywhere:
 * there a frame may be incomplete, or in a page that the thread waits for. So an incomplete walk is
 * then no loss, and is not kept. Returns whether there are any.
 */
static __always_inline bool walk_own_python(struct room *room, bool anywhere)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct stack_record *rec = &room->rec;
	__u64 tstate = 0;
	struct thread *t;

	t = bpf_map_lookup_elem(&threads, &tid);
	rec->own = 1;
	rec->end = WALK_NOT_TAKEN;
	rec->natives = 0;
	walk_python(&rec->py, t ? &t->tstate : &tstate);
	if (!anywhere)
		py_count(&rec->py);
	else if (rec->py.end != PY_END_OK && rec->py.end != PY_END_CUT)
		rec->py.n = 0;
	return rec->py.n;
}

/* Space for an own stack, NULL if none may be taken now. leave_room releases it. */
static __always_inline struct room *own_room(void)
{
	struct room *room;
	__u32 at = take_room();

	room = bpf_map_lookup_elem(&rooms, &at);
	if (!room)
		drop(DROP_STACK);
	return room;
}

/* The number of the Python stack with which the current thread releases Python's lock, 0: none. */
__noinline __u32 lock_stack(void)
{
	struct room *room;
	__u32 id = 0;

	if (shed & (SHED_PYTHON | SHED_STACKS))
		return 0;
	room = own_room();
	if (!room)
		return 0;
	if (walk_own_python(room, false))
		id = number_stack(&room->rec);
	leave_room(room);
	return id;
}

/*
 * What stacks of one place in the code have in common: all of them but the instruction at which the
 * innermost native function was.
 */
static __always_inline __u64 place_of(struct stack_record *rec)
{
	__u64 ip = rec->ip[0], key;

	if (rec->natives > 1)
		rec->ip[0] = 0;
	key = hash_stack(rec, 0);
	rec->ip[0] = ip;
	return key;
}

/* Does a sample at a place make its stack that of the majority? */
static __always_inline bool decides(const struct majority *m, __u64 place)
{
	return m->place == place ? !m->most : m->lead < (__s64)tick_ns(m);
}

#define EARLY_STACKS 100 /* a second of the clock */

/*
 * The frames of the current thread, from where it entered the kernel. None if a table is not loaded
 * yet: there is a next time. After EARLY_STACKS times the frames before it are kept, since it may
 * never be loaded.
 */
static __always_inline void walk_native_here(struct room *room, struct profile *p)
{
	struct stack_record *rec = &room->rec;

	rec->end = walk_here(&room->walk);
	if ((rec->end == WALK_NO_SPACE || rec->end == WALK_NO_MAPPING ||
	     rec->end == WALK_NO_TABLE) &&
	    p->early < EARLY_STACKS) {
		p->early++;
		return;
	}
	rec->natives = room->walk.frames;
	bpf_probe_read_kernel(rec->ip, sizeof(room->walk.ip), room->walk.ip);
}

/*
 * Takes the current thread's stack: the profile's `place` and `stack` after it. For votes (enum
 * own_votes) the stack is emitted only if it decides one.
 */
__noinline int own_stack(struct profile *p, __u32 votes)
{
	struct room *room;

	if (!p)
		return 0;
	p->place = p->stack = 0;
	room = own_room();
	if (!room)
		return 0;
	if (!walk_own_python(room, true) &&
	    (room->rec.py.end == PY_END_NOT_PYTHON || room->rec.py.end == PY_END_NO_THREAD))
		walk_native_here(room, p);
	if (room->rec.py.n || room->rec.natives) {
		p->place = place_of(&room->rec);
		if (!votes || (votes & VOTE_WORK && decides(&p->work, p->place)) ||
		    (votes & VOTE_GAP && decides(&p->gap, p->place)))
			p->stack = number_stack(&room->rec);
	}
	leave_room(room);
	return 0;
}
