// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which calls get stacks, and what is taken. A stack costs as much as both probes of a call, so it
 * is taken selectively, and emitted once.
 */
#pragma once

const volatile __u32 take_stacks = STACKS_NONE; /* Settings.Stacks: enum stack_policy */
const volatile bool each_stack = false; /* Settings.EachStack: emit stacks again */
const volatile __u32 stack_rooms = 8; /* entries of rooms, a power of two; adapted to the CPUs */

/* Space to assemble a stack. It is too large for the programs' own stack. */
struct room {
	__u32 busy;
	__u32 pad;
	struct walk walk;
	struct stack_record rec;
};

/*
 * rooms: any -> space for one stack. Reserved and released by a program, which others can preempt
 * meanwhile: so there are more than CPUs. When all are busy, the stack is dropped and counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, struct room);
} rooms SEC(".maps");

/*
 * stacks: hash of a stack and its program -> its number. Written by the programs. When full, the
 * least recently used is evicted: it is emitted again at its next use, with a new number.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 15);
	__type(key, __u64);
	__type(value, __u32);
} stacks SEC(".maps");

volatile __u32 last_stack = 0; /* number of the newest one */
volatile __u64 stack_ns = 0; /* cost of stacks of calls; added to by programs */

#define ROOM_TRIES 4

/* Reserves a room and returns its index, -1: all tried rooms are busy. */
__noinline int take_room(void)
{
	__u32 at = bpf_get_smp_processor_id();

	for (int i = 0; i < ROOM_TRIES; i++) {
		__u32 key = (at + i * 7) & (stack_rooms - 1);
		struct room *r = bpf_map_lookup_elem(&rooms, &key);

		if (r && !r->busy && __sync_val_compare_and_swap(&r->busy, 0, 1) == 0)
			return key;
	}
	return -1;
}

static __always_inline void leave_room(struct room *r)
{
	__sync_fetch_and_and(&r->busy, 0);
}

#if defined(__TARGET_ARCH_x86)
/* Return address of the function being entered, before a return probe replaces it. */
static __always_inline __u64 returns_to(struct pt_regs *ctx)
{
	__u64 at = 0;

	bpf_probe_read_user(&at, sizeof(at), (void *)PT_REGS_SP(ctx));
	return at;
}
#else
static __always_inline __u64 returns_to(struct pt_regs *ctx)
{
	return ctx->user_regs.regs[30];
}
#endif

/*
 * The callers of the function at rec->ip[0], at its entry or return, as far as known: at least the
 * one that needs no table.
 */
static __always_inline void walk_native(struct pt_regs *ctx, struct room *room, bool entry)
{
	struct stack_record *rec = &room->rec;
	struct walk *w = &room->walk;
	__u32 n;

	rec->end = walk_user(ctx, !entry, w);
	n = w->frames;
	rec->natives = 1 + n;
	bpf_probe_read_kernel(rec->ip + 1, sizeof(w->ip), w->ip);
	if (n)
		return;
	rec->natives = 2;
	rec->ip[1] = ALONE(PT_REGS_IP(ctx));
	if (entry)
		rec->ip[1] = returns_to(ctx);
}

#define HASH_FACTOR 0x9e3779b97f4a7c15ULL

static __always_inline __u64 mix(__u64 h, __u64 v)
{
	h = (h ^ v) * HASH_FACTOR;
	return h ^ h >> 32;
}

/* Does the stack have Python frames, or a reason for missing ones? */
static __always_inline bool has_python(const struct stack_record *rec)
{
	return rec->py.n || (rec->py.end != PY_END_OK && rec->py.end != PY_END_NOT_PYTHON &&
			     rec->py.end != PY_END_NO_THREAD);
}

/* A hash of a stack and its program. */
__noinline __u64 hash_stack(const struct stack_record *rec, __u64 program)
{
	__u64 h = HASH_FACTOR;

	if (!rec)
		return 0;
	h = mix(h, program);
	h = mix(h, (__u64)rec->natives << 32 | rec->end << 16 | rec->py.n);
	for (__u32 i = 0; i < STACK_IPS; i++) {
		if (i >= rec->natives)
			break;
		h = mix(h, rec->ip[i]);
	}
	if (has_python(rec))
		h = mix(h, (__u64)rec->py.epoch << 32 | rec->py.end);
	for (__u32 i = 0; i < PY_FRAMES; i++) {
		if (i >= rec->py.n)
			break;
		h = mix(h, rec->py.frames[i].code);
		h = mix(h, (__u64)rec->py.frames[i].instr << 32 | rec->py.frames[i].mark);
	}
	return h;
}

/* The number of a stack, emitted if it is new. 0: the ring was full. */
__noinline __u32 number_stack(struct stack_record *rec)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key, size;
	__u32 *known, id;

	if (!rec)
		return 0;
	key = hash_stack(rec, (__u64)task->self_exec_id << 32 | (__u32)task->tgid);
	known = each_stack ? NULL : bpf_map_lookup_elem(&stacks, &key);
	if (known)
		return *known;
	id = __sync_fetch_and_add(&last_stack, 1) + 1;
	if (!id) /* after 2^32 */
		return 0;
	if (!each_stack && bpf_map_update_elem(&stacks, &key, &id, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&stacks, &key); /* another thread was first */
		return known ? *known : 0;
	}
	tell_python(&rec->py);
	rec->kind = RECORD_STACK;
	rec->id = id;
	rec->tgid = task->tgid;
	rec->tid = task->pid;
	rec->time_ns = bpf_ktime_get_ns();
	size = offsetof(struct stack_record, ip) + ((__u32)rec->natives & 127) * sizeof(rec->ip[0]);
	if (has_python(rec))
		size = offsetof(struct stack_record, py.frames) +
		       (rec->py.n & 255) * sizeof(rec->py.frames[0]);
	asm volatile("" : "+r"(size)); /* makes the verifier forget its parts */
	if (size > sizeof(*rec) || bpf_ringbuf_output(&call_ring, rec, size, BPF_RB_NO_WAKEUP)) {
		bpf_map_delete_elem(&stacks, &key);
		return 0;
	}
	return id;
}

/*
 * Takes the stack of the current thread, at the entry or return of the function at ip. Sets
 * sampler.missed if it ends at something not loaded yet.
 */
static __noinline __u32 take_stack(struct pt_regs *ctx, __u64 ip, bool entry, struct thread *t)
{
	__u32 at = take_room(), id;
	struct room *room = bpf_map_lookup_elem(&rooms, &at);

	if (!room || !t) {
		drop(DROP_STACK);
		return 0;
	}
	room->rec.own = 0;
	room->rec.ip[0] = ip;
	walk_native(ctx, room, entry);
	if (shed & SHED_PYTHON) {
		room->rec.py.n = 0;
		room->rec.py.end = PY_END_NOT_PYTHON;
	} else {
		walk_python(&room->rec.py, &t->tstate);
		py_count(&room->rec.py);
	}
	t->sampler.missed = room->rec.end == WALK_NO_SPACE || room->rec.end == WALK_NO_MAPPING ||
			    room->rec.end == WALK_NO_TABLE;
	id = number_stack(&room->rec);
	leave_room(room);
	if (!id)
		drop(DROP_STACK);
	return id;
}

/*
 * Is this a call from a site that this thread has not called from lately? Each site has two slots.
 * When both are taken, a new site must wait for sites_after, so that alternating sites do not each
 * cost a stack. So must a site whose stack ended at something not loaded yet: its slot has an even
 * number.
 */
static __always_inline bool new_site(struct sampler *s, __u64 site)
{
	__u64 full = mix(HASH_FACTOR, site);
	__u32 h = (__u32)full | 1;
	__u32 a = full >> 32 & (SITES - 1), b = full >> 48 & (SITES - 1);
	__u32 one = s->sites[a], two = s->sites[b];

	if (one == h || two == h)
		return false;
	if (one != h - 1 && (two == h - 1 || (one && !two))) {
		a = b;
		one = two;
	}
	if (one && bpf_ktime_get_ns() < s->sites_after)
		return false;
	s->sites[a] = h;
	s->site = a;
	return true;
}

#define SITES_APART 100000 /* ns between stacks of new sites, once their slots are taken */
#define MISSES_APART 10000000 /* ns until a stack that ended too early is retried */
#define SHARE_LEAST 64 /* sampling takes at most 1/N of a thread's time */
#define SHARE_MOST 1024 /* and at least */
#define SHED_RARER 5 /* log2 of the factor by which these shares shrink under SHED_RARE */
#define CERTAIN_SHARE 4096 /* certain stacks then take at most 1/N of a thread's time */
#define PAID_UNIT (1 << 20) /* ns */
#define CERTAIN_AHEAD 1000 /* PAID_UNITs: allowed lead of these, for a burst */
#define LONG_AGO 10000000 /* PAID_UNITs: a lead that long is a time before a wrap */
#define LEVEL_BITS 2 /* log2 of the factor from one sampling level to the next */

/*
 * The cost of a stack, ns. That of the last one is an upper bound: the thread may have been preempted
 * meanwhile.
 */
static __always_inline __u64 cost_of_stack(struct sampler *s, __u64 last)
{
	s->cost_ns += s->cost_ns / 8;
	if (!s->cost_ns || last < s->cost_ns)
		s->cost_ns = last;
	return s->cost_ns;
}

/* By how much the certain stacks of a thread are ahead of their share, PAID_UNITs. */
static __always_inline __s32 certain_lead(const struct sampler *s, __u64 now)
{
	__s32 lead = s->paid - (__u32)(now / PAID_UNIT);

	return s->paid && lead > 0 && lead < LONG_AGO ? lead : 0;
}

/*
 * Draws the next sample, as often as the thread's budget allows. The last one has taken at most `cost`.
 */
__noinline int draw(struct sampler *s, __u64 now, __u64 cost)
{
	__u64 apart; /* mean time between samples of this level, ns */
	__u32 rarer = shed & SHED_RARE ? SHED_RARER : 0;

	if (!s)
		return 0;
	cost = cost_of_stack(s, cost);
	if (s->drawn) {
		apart = (now - s->sampled_ns) / s->drawn << (s->level & 7) * LEVEL_BITS;
		if (apart < cost * SHARE_LEAST << rarer && s->level < MAX_STACK_LEVEL)
			s->level++;
		else if (apart > cost * SHARE_MOST << rarer && s->level > 0)
			s->level--;
	}
	s->sampled_ns = now;
	/* At random, 4^level on average: counting would beat against the pattern of calls. */
	s->drawn = 1 + bpf_get_prandom_u32() % ((2u << (s->level & 7) * LEVEL_BITS) - 1);
	s->left = s->drawn;
	return 0;
}

enum stack_why { STACK_UNWANTED, STACK_CERTAIN, STACK_SITE, STACK_SAMPLE };

/*
 * Is the stack of a call to be taken? That of a slow or failed call is `certain`, and the first from a
 * site is taken, too. These stand for themselves; a sample stands for the others. Under SHED_RARE, a
 * slow or failed call beyond the share of these is one of the others.
 */
__noinline int stack_wanted(struct sampler *s, __u64 site, bool certain)
{
	if (!s)
		return STACK_UNWANTED;
	if (!(shed & SHED_RARE)) {
		if (certain || take_stacks == STACKS_ALL)
			return STACK_CERTAIN;
		if (new_site(s, site))
			return STACK_SITE;
	} else if (certain && certain_lead(s, bpf_ktime_get_ns()) < CERTAIN_AHEAD) {
		return STACK_CERTAIN;
	}
	if (s->left > 1) {
		s->left--;
		return STACK_UNWANTED;
	}
	return STACK_SAMPLE;
}

/*
 * Takes the stack of a call, if wanted, and returns the cost, ns. `site` is where the call was
 * made.
 */
static __always_inline __u64 stack_of(struct pt_regs *ctx, struct thread *t,
				      struct call_record *rec, __u64 ip, __u64 site, bool entry,
				      bool certain)
{
	struct sampler *s = &t->sampler;
	int why;
	__u64 begun, now;

	rec->stack = 0;
	if (take_stacks == STACKS_NONE || shed & SHED_STACKS ||
	    !rec->op) /* a call of the calibration */
		return 0;
	why = stack_wanted(s, site + rec->op * HASH_FACTOR + PT_REGS_SP(ctx), certain);
	if (why == STACK_UNWANTED)
		return 0;
	begun = bpf_ktime_get_ns();
	rec->stack = take_stack(ctx, ip, entry, t);
	now = bpf_ktime_get_ns();
	__sync_fetch_and_add(&stack_ns, now - begun);
	if (why == STACK_CERTAIN && shed & SHED_RARE)
		s->paid = now / PAID_UNIT + certain_lead(s, now) + 1 +
			  cost_of_stack(s, now - begun) * CERTAIN_SHARE / PAID_UNIT;
	if (why == STACK_SITE) {
		s->sites_after = now + (s->missed ? MISSES_APART : SITES_APART);
		if (s->missed)
			s->sites[s->site & (SITES - 1)] &= ~1U;
	}
	if (why == STACK_SAMPLE) {
		rec->weight_log2 |= s->level << STACK_LEVEL_SHIFT;
		draw(s, now, now - begun);
	}
	return now - begun;
}
