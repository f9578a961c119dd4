// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The names of the code objects in Python stacks: emitted once, before the first stack. */
#pragma once

/*
 * py_codes: emitted code objects. Written when they are emitted; the least recently used are
 * evicted, and emitted again at their next use.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PY_CODES);
	__type(key, struct py_code_key);
	__type(value, __u32);
} py_codes SEC(".maps");

/*
 * Copies the contents of the str that `at` points to, unchanged: up to `room` bytes. Intermediate
 * values are in `head`: the programs' own stack has no room for them.
 */
static __always_inline void py_text(struct py_text *t, void *to, __u32 room, __u64 at,
				    const struct py_process *p, __u64 *head)
{
	__u32 kind, from = p->at.str_compact;
	__u64 str, bytes;

	t->bytes = t->kind = t->cut = 0;
	if (!py_read(head, sizeof(*head), at))
		return;
	str = head[0];
	/* PyASCIIObject: length in 2, state in 4 */
	if (!py_read(head, 5 * sizeof(*head), str) || !(head[4] & PY_STR_COMPACT))
		return;
	kind = head[4] >> 2 & 7;
	bytes = head[2] * kind;
	if (head[2] > room || bytes > room) {
		t->cut = 1;
		bytes = room;
	}
	if (head[4] & PY_STR_ASCII) {
		from = p->at.str_ascii;
		kind = PY_KIND_ASCII;
	}
	if (!py_read(to, bytes, str + from))
		return;
	t->kind = kind;
	t->bytes = bytes;
}

/* Emits a code object, and returns whether it did. `room` is for its line table. */
static __always_inline bool py_emit(const struct py_code_key *key, const struct py_process *p,
				    __u64 *raw, __u64 lines, __u32 size, __u32 room)
{
	struct py_code_record *r = bpf_ringbuf_reserve(&call_ring, sizeof(*r) + room, 0);
	__u64 at = key->code;

	if (!r) {
		drop(DROP_PYTHON);
		return false;
	}
	*r = (struct py_code_record){ .kind = RECORD_PY_CODE, .mark = key->mark, .code = at };
	r->tgid = bpf_get_current_pid_tgid() >> 32;
	r->epoch = key->epoch;
	r->flags = p->at.flags;
	r->lines = size;
	py_read(&r->first, sizeof(r->first), at + p->at.co_first);
	py_text(&r->name, r->name_text, sizeof(r->name_text), at + p->at.co_qualname, p, raw);
	py_text(&r->file, r->file_text, sizeof(r->file_text), at + p->at.co_file, p, raw);
	if (size > room || !py_read(r + 1, size, lines + PY_BYTES_DATA))
		r->lines = 0; /* user space reads the table */
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return true;
}

/* Emits the code object of frame i, unless it has been emitted. */
__noinline int py_tell(struct py_walk *w, const struct py_process *p, __u32 i)
{
	struct py_code_key key = {};
	__u64 lines, size;
	__u32 known = 1;
	bool out;

	if (!w || !p)
		return 0;
	i &= PY_FRAMES - 1;
	key.code = w->frames[i].code & ~7ULL;
	key.mark = w->frames[i].mark;
	key.epoch = w->epoch;
	if (!key.code || bpf_map_lookup_elem(&py_codes, &key))
		return 0;
	lines = py_read(w->raw, sizeof(lines), key.code + p->at.co_lines) ? w->raw[0] : 0;
	size = py_read(w->raw, sizeof(size), lines + PY_BYTES_SIZE) ? w->raw[0] : 0;
	if (size <= PY_LINES_SHORT)
		out = py_emit(&key, p, w->raw, lines, size, PY_LINES_SHORT);
	else
		out = py_emit(&key, p, w->raw, lines,
			      size > PY_LINES_LONG ? PY_LINES_LONG + 1 : size, PY_LINES_LONG);
	if (out) /* otherwise it is emitted with its next stack */
		bpf_map_update_elem(&py_codes, &key, &known, BPF_ANY);
	return 0;
}

/* Emits the new code objects of a stack, before the stack. */
static __always_inline void tell_python(struct py_walk *w)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct py_process *p = bpf_map_lookup_elem(&py_processes, &tgid);

	if (!p)
		return;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PY_FRAMES; i++) {
		if (i >= w->n)
			break;
		py_tell(w, p, i);
	}
}
