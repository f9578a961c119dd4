// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * CPython's own stack, for 3.10 to 3.14. Version differences are in py_layout, which user space has
 * checked against the process. Loops call global functions, which the verifier checks once: so
 * bpf_loop (5.17) is not needed, and one form serves all kernels.
 */
#pragma once

/*
 * py_processes: tgid -> offsets of its interpreter. Written from user space and at fork, deleted at
 * exec and exit. When full, a process has no Python frames, which is counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TARGETS);
	__type(key, __u32);
	__type(value, struct py_process);
} py_processes SEC(".maps");

/* Number of children with an interpreter: a child's epoch. */
volatile __u32 py_children = 0;

/* Walks by their end: enum py_end. Atomic adds. */
volatile __u64 py_ends[8];

#if defined(__TARGET_ARCH_x86)
#define NR_FUTEX 202
#else
#define NR_FUTEX 98
#endif

#define PY_WORD(w, off) ((w)->raw[((off) >> 3) & (PY_RAW - 1)])
#define PY_HALF(w, off) (((__u32 *)(w)->raw)[((off) >> 2) & (PY_RAW * 2 - 1)])
#define PY_BYTE(w, off) (((__u8 *)(w)->raw)[(off) & (PY_RAW * 8 - 1)])

static __always_inline bool py_read(void *to, __u32 size, __u64 at)
{
	return !bpf_probe_read_user(to, size, (void *)at);
}

/* Reads the first `size` bytes of an object into raw. */
static __always_inline bool py_raw(struct py_walk *w, __u32 size, __u64 at)
{
	return size <= sizeof(w->raw) && py_read(w->raw, size, at);
}

/* pthread_self() of the current thread, which its thread state contains. */
static __always_inline __u64 py_self(const struct py_process *p)
{
	struct task_struct *task = bpf_get_current_task_btf();

#if defined(__TARGET_ARCH_x86)
	return task->thread.fsbase - p->thread_below;
#else
	return task->thread.uw.tp_value - p->thread_below;
#endif
}

/* The innermost frame of the thread state in raw. */
static __always_inline __u64 py_top(struct py_walk *w, const struct py_process *p)
{
	__u64 at = PY_WORD(w, p->at.ts_frame), frame = 0;

	if (!(p->at.flags & PY_CFRAME) || !at)
		return at;
	py_read(&frame, sizeof(frame), at + p->at.cframe_frame);
	return frame;
}

/* Checks up to PY_SEARCH thread states of all interpreters. Returns whether the search is over. */
__noinline int py_search(struct py_walk *w, const struct py_process *p)
{
	if (!w || !p)
		return 1;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PY_SEARCH; i++) {
		__u64 ts = w->thread, interp = w->interp, top;

		if (!ts && !interp)
			return 1;
		w->end = PY_END_FAULT;
		if (!ts) {
			w->interps++;
			if (!py_read(&w->thread, 8, interp + p->at.interp_threads) ||
			    !py_read(&w->interp, 8, interp + p->at.interp_next))
				return 1;
			w->end = PY_END_THREADS;
			continue;
		}
		if (!py_raw(w, p->at.ts_bytes, ts))
			return 1;
		w->end = PY_END_THREADS;
		w->thread = w->raw[1]; /* next */
		top = PY_WORD(w, p->at.ts_id) == w->self ? py_top(w, p) : 0;
		if (!top)
			continue;
		w->end = PY_END_AMBIGUOUS;
		if (w->frame) /* in two interpreters: the inner one is unknown */
			return 1;
		w->end = PY_END_THREADS;
		w->frame = top;
		w->found = ts;
	}
	return 0;
}

/*
 * Is a thread's last thread state still there, and still its own? A freed one is in no list. With a
 * second interpreter there may be another one; a new interpreter comes first in the list.
 */
static __always_inline bool py_same(struct py_walk *w, const struct py_process *p, __u64 ts)
{
	__u64 at, link = 0, head = 0;

	if (!ts || !py_raw(w, p->at.ts_bytes, ts) || PY_WORD(w, p->at.ts_id) != w->self)
		return false;
	/* prev, next, interp are its first members */
	at = w->raw[0] ? w->raw[0] + 8 : w->raw[2] + p->at.interp_threads;
	return py_read(&link, 8, at) && link == ts &&
	       py_read(&head, 8, p->runtime + p->at.interp_head) && head == w->raw[2];
}

/* Finds the current thread's innermost frame; `tstate` is its last thread state. */
__noinline int py_find(struct py_walk *w, const struct py_process *p, __u64 *tstate)
{
	if (!w || !p || !tstate)
		return 0;
	w->self = py_self(p);
	if (py_same(w, p, *tstate)) {
		w->frame = py_top(w, p);
		return 0;
	}
	*tstate = 0;
	if (!py_read(&w->interp, 8, p->runtime + p->at.interp_head)) {
		w->end = PY_END_FAULT;
		return 0;
	}
	w->end = PY_END_THREADS;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PY_THREADS / PY_SEARCH; i++)
		if (py_search(w, p)) {
			if (w->end == PY_END_THREADS)
				w->end = w->frame ? PY_END_OK : PY_END_NO_THREAD;
			break;
		}
	if (w->end == PY_END_OK && w->interps == 1)
		*tstate = w->found;
	else if (w->end != PY_END_OK)
		w->frame = 0;
	return 0;
}

/*
 * Marks the end of the frames of one evaluation loop. The loop may run nothing: as a frame ends,
 * its objects are destroyed.
 */
static __always_inline void py_end_group(struct py_walk *w)
{
	__u32 n = w->n;

	if (n && n <= PY_FRAMES && !(w->frames[(n - 1) & (PY_FRAMES - 1)].code & PY_ENTRY)) {
		w->frames[(n - 1) & (PY_FRAMES - 1)].code |= PY_ENTRY;
		return;
	}
	if (n >= PY_FRAMES)
		return;
	w->frames[n & (PY_FRAMES - 1)] = (struct py_frame){ .code = PY_ENTRY };
	w->n = n + 1;
}

static __always_inline __u64 py_mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 32;
}

/*
 * Distinguishes the code object in raw from earlier ones at its address. From 3.12 on each has a
 * number; before that, it is derived from the name's hash and the lines.
 */
static __noinline __u32 py_mark(struct py_walk *w, const struct py_process *p)
{
	__u64 name[2] = {}, lines[3] = {}, h;

	if (p->at.co_version)
		return PY_HALF(w, p->at.co_version - 8);
	py_read(name, sizeof(name), PY_WORD(w, p->at.co_name - 8) + 16); /* length, hash */
	py_read(lines, sizeof(lines), PY_WORD(w, p->at.co_lines - 8) + 16); /* size, hash, first */
	h = py_mix(PY_HALF(w, p->at.co_first - 8), PY_WORD(w, p->at.co_file - 8));
	h = py_mix(py_mix(h, name[0]), name[1]);
	h = py_mix(py_mix(h, lines[0]), lines[2]);
	return py_mix(h, PY_WORD(w, p->at.co_qualname - 8));
}

/* Records one frame and steps to its caller. Returns whether it was the last. */
__noinline int py_step(struct py_walk *w, const struct py_process *p)
{
	__u64 code;
	__u32 flags, n;
	__s32 instr;
	__u8 owner;

	if (!w || !p || !w->frame)
		return 1;
	w->end = PY_END_FAULT;
	if (!py_raw(w, p->at.f_bytes, w->frame))
		return 1;
	flags = p->at.flags;
	code = PY_WORD(w, p->at.f_code) & ~7ULL; /* 3.14 tags it */
	instr = flags & PY_LASTI ? PY_HALF(w, p->at.f_instr) * 2
				 : PY_WORD(w, p->at.f_instr) - code - p->at.co_code;
	owner = flags & PY_LASTI ? 0 : PY_BYTE(w, p->at.f_owner);
	w->frame = PY_WORD(w, p->at.f_prev);
	if (owner >= PY_OWNER_SHIM) {
		w->end = PY_END_OK;
		py_end_group(w);
		return 0;
	}
	w->end = PY_END_CUT;
	n = w->n;
	if (n >= PY_FRAMES)
		return 1;
	if (flags & PY_LASTI || (flags & PY_ENTRY_BYTE && PY_BYTE(w, p->at.f_owner - 1)))
		code |= PY_ENTRY;
	w->end = PY_END_FAULT;
	if (!py_raw(w, p->at.co_bytes, (code & ~7ULL) + 8))
		return 1;
	w->end = PY_END_STRANGE;
	if (w->raw[0] != p->code_type)
		return 1;
	if (!(flags & PY_LASTI) && owner != PY_OWNER_GENERATOR &&
	    instr < (__s32)PY_HALF(w, p->at.co_code - 16 - 8) * 2)
		code |= PY_BEGINS;
	w->frames[n & (PY_FRAMES - 1)].code = code;
	w->frames[n & (PY_FRAMES - 1)].instr = instr;
	w->frames[n & (PY_FRAMES - 1)].mark = py_mark(w, p);
	w->n = n + 1;
	w->end = PY_END_OK;
	return 0;
}

/*
 * Fills w with the Python frames of the current thread, innermost first. `tstate` is 8 bytes of
 * thread state, initially zero. Returns the number of frames; w->end says whether these are all,
 * and if not, why.
 */
__noinline int walk_python(struct py_walk *w, __u64 *tstate)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct py_process *p;

	if (!w || !tstate)
		return 0;
	w->n = 0;
	w->frame = 0;
	w->thread = 0;
	w->interp = 0;
	w->interps = 0;
	w->end = PY_END_NOT_PYTHON;
	p = bpf_map_lookup_elem(&py_processes, &tgid);
	if (p) {
		w->epoch = p->epoch;
		w->end = PY_END_OK;
		py_find(w, p, tstate);
#pragma clang loop unroll(disable)
		for (int i = 0; i < PY_STEPS; i++)
			if (py_step(w, p))
				break;
		if (w->end == PY_END_OK && w->frame)
			w->end = PY_END_CUT;
	}
	return w->n;
}

/* Counts a walk by its end. */
static __always_inline void py_count(const struct py_walk *w)
{
	__sync_fetch_and_add(&py_ends[w->end & 7], 1);
}

/* A part of Python's lock. The interpreter counts the lock's handovers to other threads. */
struct gil {
	__u64 holder; /* thread state of the current or last holder, 0: unknown */
	__u64 locked;
	__u64 passed;
};
_Static_assert(sizeof(struct gil) == PY_GIL_HOLDER, "gil");

/* Reads the lock that a blocking thread waits for. All zero if it waits for something else. */
static __always_inline void read_gil(struct gil *g, __u32 tgid, const struct block *on)
{
	struct py_process *p;

	*g = (struct gil){};
	if (on->syscall != NR_FUTEX)
		return;
	p = bpf_map_lookup_elem(&py_processes, &tgid);
	if (p && p->gil && on->arg - p->gil < PY_GIL_BYTES)
		py_read(g, sizeof(*g), p->gil - PY_GIL_HOLDER);
}

/* A child has its parent's interpreter, until it runs another program. */
static __always_inline void py_fork(__u32 parent, __u32 child)
{
	struct py_process *p = bpf_map_lookup_elem(&py_processes, &parent), inherited;

	if (!p)
		return;
	inherited = *p;
	inherited.epoch = PY_CHILD | __sync_fetch_and_add(&py_children, 1);
	if (bpf_map_update_elem(&py_processes, &child, &inherited, BPF_ANY))
		drop(DROP_PYTHON);
}

static __always_inline void py_forget(__u32 tgid)
{
	bpf_map_delete_elem(&py_processes, &tgid);
}
