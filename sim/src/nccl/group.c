/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that meet those of other ranks, and groups: a group launches one kernel for all
 * its tasks of a communicator. */
#include "nccl.h"

/* A kernel of this process, and the slots where it meets those of other ranks. */
struct op {
	struct sim_gate gate;
	struct comm *comm;
	u32 arrived, n;
	struct {
		struct slot *at;
		u64 enough;
	} meet[];
};

/* A kernel in a graph: each launch of the graph creates a new op from it. It is never freed,
 * because graphs are copied. */
struct recorded {
	struct sim_gate gate;
	struct comm *comm;
	u32 n;
	struct task *tasks;
};

static _Thread_local struct {
	int depth;
	u32 n, cap, n_joining;
	struct task *tasks;
	struct comm *joining[MAX_COMMS];
} group;

/* The gate's look function: see gate.h. */
static int look(struct sim_gate *gate, u64 begin, u64 *all)
{
	struct op *o = (struct op *)gate;
	struct comm *c = o->comm;
	u64 last = begin;

	if (__atomic_load_n(&c->aborted, __ATOMIC_ACQUIRE)) {
		last = now_ns();
		o->n = 0;
	} else if (!o->arrived) {
		o->arrived = 1;
		for (u32 i = 0; i < o->n; i++) {
			u64 *latest = &o->meet[i].at->latest,
			    was = __atomic_load_n(latest, __ATOMIC_ACQUIRE);

			while (was < begin &&
			       !__atomic_compare_exchange_n(latest, &was, begin, 0,
							    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				;
			__atomic_add_fetch(&o->meet[i].at->came, 1, __ATOMIC_ACQ_REL);
		}
		shared_changed(c->sh);
	}
	for (u32 i = 0; i < o->n; i++) {
		u64 latest;

		if (__atomic_load_n(&o->meet[i].at->came, __ATOMIC_ACQUIRE) < o->meet[i].enough)
			return 0;
		latest = __atomic_load_n(&o->meet[i].at->latest, __ATOMIC_ACQUIRE);
		last = last < latest ? latest : last;
	}
	*all = last;
	free(o);
	__atomic_sub_fetch(&c->outstanding, 1, __ATOMIC_ACQ_REL);
	comm_reuse(c);
	return 1;
}

/* Assigns the task's next meeting. Reusing its slot is safe: a rank arrives at a meeting only
 * when it knows that the previous one ended. By then all ranks had arrived there, and so knew
 * that the one before had ended. */
static void meet(struct op *o, const struct task *t)
{
	struct comm *c = t->comm;
	u64 n = (u64)c->nranks, nth, ways = 2;
	struct slot *at;

	if (t->peer < 0) {
		nth = c->collectives++;
		at = &c->sh->collective[nth % COLLECTIVES];
		nth /= COLLECTIVES;
		ways = n;
	} else {
		u64 from = t->receive ? (u64)t->peer : (u64)c->rank;
		u64 to = t->receive ? (u64)c->rank : (u64)t->peer;

		nth = c->messages[t->receive ? n + (u64)t->peer : (u64)t->peer]++;
		at = &c->sh->message[(from * n + to) * MESSAGES + nth % MESSAGES];
		nth /= MESSAGES;
	}
	o->meet[o->n].at = at;
	o->meet[o->n++].enough = (nth + 1) * ways;
}

/* A communicator's kernels run one after the other, whatever their streams. */
static void after_last(struct comm *c, void *stream)
{
	if (c->last_stream && c->last_stream != stream && stream &&
	    !drv.cuEventRecord(c->event, c->last_stream))
		drv.cuStreamWaitEvent(stream, c->event, 0);
	c->last_stream = stream;
}

static int mangled(char *out, size_t n, const char *kernel)
{
	return snprintf(out, n, "_Z%d%s24ncclDevKernelArgsStorageILm4096EE", (int)strlen(kernel),
			kernel);
}

/* Returns a gate for tasks of one communicator, with a meeting for each. */
static struct sim_gate *gate_of(struct comm *c, const struct task *tasks, u32 n)
{
	struct op *o = malloc(sizeof(*o) + n * sizeof(o->meet[0]));

	if (!o)
		return NULL;
	*o = (struct op){ .gate = { .look = look, .word = &c->sh->word }, .comm = c };
	for (u32 i = 0; i < n; i++)
		meet(o, &tasks[i]);
	__atomic_add_fetch(&c->outstanding, 1, __ATOMIC_ACQ_REL);
	return &o->gate;
}

static struct sim_gate *again(struct sim_gate *gate)
{
	struct recorded *r = (struct recorded *)gate;

	return comm_live(r->comm) ? gate_of(r->comm, r->tasks, r->n) : NULL;
}

static struct sim_gate *record(struct comm *c, const struct task *tasks, u32 n)
{
	struct recorded *r = malloc(sizeof(*r) + n * sizeof(*tasks));

	if (!r)
		return NULL;
	*r = (struct recorded){ .gate = { .again = again }, .comm = c, .n = n };
	r->tasks = (struct task *)(r + 1);
	memcpy(r->tasks, tasks, n * sizeof(*tasks));
	return &r->gate;
}

/* Launches one kernel for n tasks of one communicator. */
static int launch(const struct task *tasks, u32 n)
{
	struct launch_config config = { .grid = { 2, 1, 1 }, .block = { 512, 1, 1 } };
	struct comm *c = tasks->comm;
	int capturing = 0;
	struct sim_gate *gate;
	void *f, *params[2];
	char name[160];
	u64 ns = 0;

	if (!comm_live(c))
		return nccl_fail(NCCL_ARGUMENT, "no such communicator");
	config.stream = tasks->stream;
	mangled(name, sizeof(name), tasks->kernel);
	if (drv.cuStreamIsCapturing(tasks->stream, &capturing) ||
	    drv.cuModuleGetFunction(&f, c->module, name) || drv.simGate(f))
		return nccl_fail(NCCL_CUDA, "no stream");
	for (u32 i = 0; i < n; i++)
		ns = tasks[i].ns > ns ? tasks[i].ns : ns;
	if (!capturing)
		after_last(c, tasks->stream);
	gate = capturing ? record(c, tasks, n) : gate_of(c, tasks, n);
	if (!gate)
		return nccl_fail(NCCL_SYSTEM, "no memory");
	params[0] = &gate;
	params[1] = &ns;
	if (!drv.cuLaunchKernelEx(&config, f, params, NULL))
		return NCCL_OK;
	if (!capturing)
		__atomic_sub_fetch(&c->outstanding, 1, __ATOMIC_ACQ_REL);
	free(gate);
	return nccl_fail(NCCL_CUDA, "the kernel was not launched");
}

/* Moves the tasks of the first task's communicator to the front of the list, in order;
 * returns their number. */
static u32 gather(struct task *tasks, u32 n)
{
	u32 k = 1;

	for (u32 i = 1; i < n; i++)
		if (tasks[i].comm == tasks->comm) {
			struct task t = tasks[i];

			for (u32 j = i; j > k; j--)
				tasks[j] = tasks[j - 1];
			tasks[k++] = t;
		}
	return k;
}

/* Within a group, a communicator waits for the other ranks only at the end of the group. */
int group_defer_join(struct comm *c)
{
	if (!group.depth || group.n_joining == MAX_COMMS)
		return 0;
	group.joining[group.n_joining++] = c;
	return 1;
}

EXPORT ncclResult_t ncclGroupStart(void)
{
	group.depth++;
	return NCCL_OK;
}

static int run_group(void)
{
	int err = NCCL_OK;

	for (u32 i = 0; i < group.n_joining; i++)
		comm_settle(group.joining[i]);
	group.n_joining = 0;
	for (u32 i = 0, k; i < group.n && !err; i += k) {
		k = gather(&group.tasks[i], group.n - i);
		err = launch(&group.tasks[i], k);
	}
	group.n = 0;
	return err;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
	if (!group.depth)
		return nccl_fail(NCCL_USAGE, "ncclGroupEnd without ncclGroupStart");
	return --group.depth ? NCCL_OK : run_group();
}

int enqueue(struct task t)
{
	if (!group.depth) {
		if (!comm_joined(t.comm))
			return nccl_fail(NCCL_ARGUMENT, "not all ranks have joined");
		return launch(&t, 1);
	}
	if (group.n == group.cap) {
		u32 cap = group.cap ? 2 * group.cap : 64;
		struct task *more = malloc(cap * sizeof(*more));

		if (!more)
			return nccl_fail(NCCL_SYSTEM, "no memory");
		if (group.tasks)
			memcpy(more, group.tasks, group.n * sizeof(*more));
		free(group.tasks);
		group.tasks = more;
		group.cap = cap;
	}
	group.tasks[group.n++] = t;
	return NCCL_OK;
}
