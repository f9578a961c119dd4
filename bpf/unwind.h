// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The stack walker's (walk.h) data on processes and files: mappings and tables, which user space
 * makes (internal/unwind), and how to find a rule in them.
 */
#pragma once

#define UNWIND_CACHE (1 << 14) /* addresses, at most 2^16 */
#define WALK_WINDOW 32 /* stack words per read */

/* A walk, its result first. Per thread: too large for the stack, and not per CPU. */
struct walk {
	__u32 frames;
	__u32 end; /* enum walk_end */
	__u64 exact; /* bit per frame: ip is where a signal came, not a return address */
	__u64 ip[WALK_FRAMES]; /* innermost first */

	__u64 pc; /* of the next frame, like sp, fp and lr */
	__u64 sp;
	__u64 fp;
	__u64 lr; /* arm64: the link register, if the previous frame was interrupted */
	__u64 returns; /* struct return_instance *: the return addresses that the kernel replaced */
	__u64 trampoline; /* replacement address, 0: none */
	__u64 start; /* start of the last mapping found */
	__u64 stop; /* its end */
	__u64 bias;
	__u64 space;
	__u32 object;
	__u32 means; /* enum unwind_means */
	__u32 tgid;
	__u32 slot;
	__u32 interrupted; /* pc is where a signal came */
	__u32 loaded; /* window has the words at base */
	__u64 base;
	__u64 window[WALK_WINDOW];
};

/*
 * unwind_spaces: tgid -> its mappings. Written from user space and at fork, deleted at exec and
 * exit. When full, a process's stacks end with WALK_NO_SPACE.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SPACES);
	__type(key, __u32);
	__type(value, struct unwind_space);
} unwind_spaces SEC(".maps");

/*
 * unwind_mappings: slot -> the executable mappings, by address, of one process, or of several forks
 * of it. Written from user space, a set at a time. Cannot fill.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_SPACES);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(max_entries, 1);
			__uint(map_flags, BPF_F_INNER_MAP);
			__uint(key_size, sizeof(__u32));
			__uint(value_size, sizeof(struct unwind_mapping));
		});
} unwind_mappings SEC(".maps");

/*
 * unwind_tables: object -> its table: unwind.Table. Written from user space, a table at a time.
 * Cannot fill; user space bounds their total size.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_OBJECTS);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(max_entries, 1);
			__uint(map_flags, BPF_F_INNER_MAP);
			__uint(key_size, sizeof(__u32));
			__uint(value_size, sizeof(struct table_line));
		});
} unwind_tables SEC(".maps");

/* unwind_rules: number -> rule. Written from user space, before the tables that use them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_RULES);
	__type(key, __u32);
	__type(value, struct unwind_rule);
} unwind_rules SEC(".maps");

/*
 * unwind_wanted: object -> uses of its table, loaded or not. Written by all programs, read from
 * user space. Cannot fill; wraps.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_OBJECTS);
	__type(key, __u32);
	__type(value, __u32);
} unwind_wanted SEC(".maps");

/*
 * unwind_cache: hash of a space and an address -> rest of the hash, and in the low 16 bits the
 * number of the rule. Threads overwrite each other's entries; each entry is one word, so it is
 * consistent. Never stale: the mappings of a space do not change.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UNWIND_CACHE);
	__type(key, __u32);
	__type(value, __u64);
} unwind_cache SEC(".maps");

/* Counts misses of tables and mappings, so that user space need not search. */
volatile __u64 unwind_missed = 0;

/* Stacks by reason of their end: enum walk_end. Atomic adds. */
volatile __u64 walk_ends[16];

#define TABLE_HEAD 16
#define BLOCK_SHIFT 8

static __always_inline __u32 table_word(void *table, __u32 i)
{
	__u32 line = i / TABLE_LINE;
	struct table_line *l = bpf_map_lookup_elem(table, &line);

	return l ? l->word[i % TABLE_LINE] : 0;
}

/* The number of the rule for an address of a file, 0: none, or -WALK_NO_TABLE. */
static __always_inline int find_rule(__u32 object, __u64 at)
{
	__u32 block, lo, hi, first, low = at & ((1 << BLOCK_SHIFT) - 1), zero = 0, *wanted;
	struct table_line *head;
	void *table;

	table = bpf_map_lookup_elem(&unwind_tables, &object);
	wanted = bpf_map_lookup_elem(&unwind_wanted, &object);
	if (wanted)
		*(volatile __u32 *)wanted += 1; /* two at once may count as one */
	if (!table) {
		if (wanted) /* else the file cannot have a table: unwind.noObject */
			__sync_fetch_and_add(&unwind_missed, 1);
		return -WALK_NO_TABLE;
	}
	head = bpf_map_lookup_elem(table, &zero);
	if (!head || at >> BLOCK_SHIFT < head->word[0])
		return 0;
	at = (at >> BLOCK_SHIFT) - head->word[0];
	if (at >= head->word[1])
		return 0;
	block = at;
	first = TABLE_HEAD + head->word[1] + 1;
	lo = table_word(table, TABLE_HEAD + block);
	hi = table_word(table, TABLE_HEAD + block + 1);
	for (int i = 0; i <= BLOCK_SHIFT && lo < hi; i++) {
		__u32 mid = (lo + hi) / 2;

		if ((table_word(table, first + mid) & ((1 << BLOCK_SHIFT) - 1)) <= low)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? table_word(table, first + lo - 1) >> 16 : 0;
}

/* Uses the process's current mappings. User space may replace them while a stack is taken. */
static __always_inline struct unwind_space *use_space(struct walk *w)
{
	__u32 tgid = w->tgid;
	struct unwind_space *s = bpf_map_lookup_elem(&unwind_spaces, &tgid);

	if (s) {
		w->slot = s->slot;
		w->space = s->id;
	}
	return s;
}

/* Finds the mapping of an address: 0, or the reason for none. */
static __always_inline int find_mapping(struct walk *w, __u64 at)
{
	struct unwind_mapping *m = NULL;
	struct unwind_space *s;
	__u32 lo = 1, hi, tgid, zero = 0;
	void *maps = NULL;

	for (int i = 0; i < 2; i++) {
		__u32 slot = w->slot;

		maps = bpf_map_lookup_elem(&unwind_mappings, &slot);
		m = maps ? bpf_map_lookup_elem(maps, &zero) : NULL;
		if (m && m->end == w->space)
			break;
		m = NULL;
		if (!use_space(w))
			return WALK_NO_SPACE;
	}
	if (!m)
		return WALK_NO_SPACE;
	hi = m->start + 1;
	for (int i = 0; i < 13 && lo < hi; i++) {
		__u32 mid = (lo + hi) / 2;

		m = bpf_map_lookup_elem(maps, &mid);
		if (m && m->start <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	lo--;
	m = bpf_map_lookup_elem(maps, &lo);
	if (lo && m && at >= m->start && at < m->end) {
		w->start = m->start;
		w->stop = m->end;
		w->bias = m->bias;
		w->object = m->object;
		w->means = m->means;
		return 0;
	}
	tgid = w->tgid;
	s = bpf_map_lookup_elem(&unwind_spaces, &tgid);
	if (s && !(s->seen & SPACE_MISSED)) {
		s->seen |= SPACE_MISSED;
		__sync_fetch_and_add(&unwind_missed, 1);
	}
	return WALK_NO_MAPPING;
}

#define RULE_CHAIN 1 /* number of the frame pointer rule: unwind.Rules */

/* The number of the rule for an address, or the negated reason for none. */
__noinline int rule_at(struct walk *w, __u64 at)
{
	int end;

	if (!w)
		return -WALK_NO_SPACE;
	if (at < w->start || at >= w->stop) {
		end = find_mapping(w, at);
		if (end)
			return -end;
	}
	switch (w->means) {
	case MEANS_TABLE:
		return find_rule(w->object, at - w->bias);
	case MEANS_FP:
		return RULE_CHAIN;
	default:
		return -WALK_JIT;
	}
}

/* A child has its parent's mappings. */
static __always_inline void fork_space(__u32 tgid, __u32 child)
{
	struct unwind_space *s = bpf_map_lookup_elem(&unwind_spaces, &tgid), copy;

	if (!s)
		return;
	copy = *s;
	bpf_map_update_elem(&unwind_spaces, &child, &copy, BPF_ANY);
}

/* A process has ended, or runs another program. */
static __always_inline void drop_space(__u32 tgid)
{
	bpf_map_delete_elem(&unwind_spaces, &tgid);
}
