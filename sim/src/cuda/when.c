/* SPDX-License-Identifier: Apache-2.0 */
/* Times that depend on other processes. A gate is a kernel that ends once those of others
 * have begun too. Work queued behind it has a time relative to the gate's end. No thread
 * runs for that: each query looks whether gates have opened. */
#include "gpu.h"

#define GATES 16384 /* a ring: older gates have opened, or the caller waits */
#define FUTEX_WAIT 0

struct gate {
	struct sim_gate *from; /* NULL: it only joins the dependencies of its start */
	struct when start;
	u64 end; /* when it opened; 0: not yet */
};

static struct gate *gates;
static u64 next_gate = 1, first_closed = 1;

static struct gate *gate_of(u64 id)
{
	return &gates[id % GATES];
}

/* Reports whether a gate has opened, and when. A gate that left the ring opened long ago. */
static int opened(u64 id, u64 *end)
{
	*end = id + GATES < next_gate ? 1 : gate_of(id)->end;
	return *end != 0;
}

/* Replaces opened gates by their times; reports whether the time is known. Caller: the lock. */
static int settle(struct when *w)
{
	for (u32 i = 0; i < w->n;) {
		u64 end;

		if (!opened(w->term[i].gate, &end)) {
			i++;
			continue;
		}
		if (w->at < end + w->term[i].plus)
			w->at = end + w->term[i].plus;
		w->term[i] = w->term[--w->n];
	}
	return !w->n;
}

static void look(struct gate *k)
{
	u64 all;

	if (!settle(&k->start))
		return;
	if (!k->from)
		k->end = k->start.at;
	else if (k->from->look(k->from, k->start.at, &all))
		k->end = all > k->start.at ? all : k->start.at;
}

/* Looks at all gates, oldest first: one that opens may let the next begin. The caller holds
 * the lock. */
static void look_at_all(void)
{
	for (u64 id = first_closed; id < next_gate; id++)
		if (!gate_of(id)->end)
			look(gate_of(id));
	while (first_closed < next_gate && gate_of(first_closed)->end)
		first_closed++;
}

/* Creates a gate that begins at `start`. The caller holds the lock. */
int gate_new(struct sim_gate *from, const struct when *start, u64 *id)
{
	struct gate *k;

	if (!gates) {
		void *p = mmap(NULL, GATES * sizeof(*gates), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			return ERR_OUT_OF_MEMORY;
		gates = p;
	}
	if (next_gate - first_closed == GATES)
		look_at_all();
	if (next_gate - first_closed == GATES)
		return ERR_OUT_OF_MEMORY;
	*id = next_gate++;
	k = gate_of(*id);
	k->from = from;
	k->start = *start;
	k->end = 0;
	look(k);
	return OK;
}

/* Sets `to` to the later of two times. When it would depend on too many gates, one new gate
 * that waits for all of them replaces them. The caller holds the lock. */
void when_join(struct when *to, const struct when *with)
{
	if (to->at < with->at)
		to->at = with->at;
	for (u32 i = 0; i < with->n; i++) {
		u32 k = 0;

		while (k < to->n && to->term[k].gate != with->term[i].gate)
			k++;
		if (k == ARRAY_SIZE(to->term)) {
			struct when all = *to;

			if (gate_new(NULL, &all, &to->term[0].gate))
				return;
			to->term[0].plus = 0;
			to->n = k = 1;
		}
		if (k == to->n) {
			to->term[to->n++] = with->term[i];
		} else if (to->term[k].plus < with->term[i].plus) {
			to->term[k].plus = with->term[i].plus;
		}
	}
}

void when_plus(struct when *w, u64 ns)
{
	w->at += ns;
	for (u32 i = 0; i < w->n; i++)
		w->term[i].plus += ns;
}

/* Reports whether a time is known, after a look at the gates. The caller holds the lock. */
int when_known(struct when *w)
{
	if (likely(!w->n))
		return 1;
	look_at_all();
	return settle(w);
}

/* Reports whether a time is over. */
int when_past(struct when *w)
{
	if (unlikely(w->n)) {
		int known;

		lock(&g.lock);
		known = when_known(w);
		unlock(&g.lock);
		if (!known)
			return 0;
	}
	return !w->at || now_ns() >= w->at;
}

/* Returns the word to wait for: that of a gate which the time depends on and whose own start
 * is known. The caller holds the lock. */
static const u32 *word_of(const struct when *w)
{
	const struct gate *k = gate_of(w->term[0].gate);

	while (k->start.n)
		k = gate_of(k->start.term[0].gate);
	return k->from ? k->from->word : NULL;
}

/* Waits until a time is known: spins, yields or blocks on the word, as the device's flags say. */
void wait_known(struct when *w, u32 sched)
{
	struct timespec most = { 0, 5000000 };
	const u32 *word;
	u32 seen;

	while (w->n) {
		lock(&g.lock);
		word = when_known(w) ? NULL : word_of(w);
		seen = word ? __atomic_load_n(word, __ATOMIC_ACQUIRE) : 0;
		if (word)
			when_known(w); /* the word may have changed before it was read */
		unlock(&g.lock);
		if (!w->n || !word)
			continue;
		if (sched & SCHED_BLOCK)
			syscall(SYS_futex, word, FUTEX_WAIT, seen, &most);
		else if (sched & SCHED_YIELD)
			sched_yield();
		else
			for (int i = 0; i < 64 && __atomic_load_n(word, __ATOMIC_ACQUIRE) == seen;
			     i++)
				cpu_relax();
	}
}

void wait_when(struct when w, u32 sched)
{
	wait_known(&w, sched);
	wait_until(w.at, sched);
}

/* Called by libnccl's thread of each communicator: a rank has arrived, so a kernel on this
 * process's GPU may now end and the next begin. */
CU(simLook)(void)
{
	if (!*g.live)
		return ERR_NOT_INITIALIZED;
	lock(&g.lock);
	look_at_all();
	unlock(&g.lock);
	return OK;
}
