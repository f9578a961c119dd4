/* SPDX-License-Identifier: Apache-2.0 */
/* Streams as queues of end times; synchronize and query. */
#include "gpu.h"

/* Returns the calling thread's own default stream, created on first use. */
static struct stream *per_thread(struct thread *t)
{
	if (t->per_thread && t->per_thread_ctx == t->ctx)
		return t->per_thread;
	lock(&g.lock);
	t->per_thread = (void *)object_new(KIND_STREAM);
	if (t->per_thread)
		t->per_thread->ctx = t->ctx;
	t->per_thread_ctx = t->ctx;
	unlock(&g.lock);
	return t->per_thread;
}

/* Finds the stream of a handle; NULL means the caller's default stream. */
int stream_find(struct thread *t, void *handle, void *dflt, struct stream **out)
{
	if (!handle)
		handle = dflt;
	if (handle == STREAM_LEGACY)
		*out = t->ctx->legacy;
	else if (handle == STREAM_PER_THREAD)
		*out = per_thread(t);
	else
		*out = object_get(handle, KIND_STREAM);
	return *out ? OK : ERR_INVALID_HANDLE;
}

/* Returns when all work that the stream waits for is done. Legacy and blocking streams wait
 * for each other; other streams are independent. The caller holds the lock. */
struct when stream_end(struct stream *s)
{
	struct context *ctx = s->ctx;
	struct when end = s == ctx->legacy ? ctx->legacy_until : s->until;

	if (s == ctx->legacy)
		when_join(&end, &ctx->blocking_until);
	else if (!(s->flags & STREAM_NON_BLOCKING))
		when_join(&end, &ctx->legacy_until);
	when_known(&end);
	return end;
}

static void set_end(struct stream *s, const struct when *end)
{
	struct context *ctx = s->ctx;

	s->until = *end;
	if (s == ctx->legacy)
		ctx->legacy_until = *end;
	else if (!(s->flags & STREAM_NON_BLOCKING))
		when_join(&ctx->blocking_until, end);
	when_join(&ctx->all_until, end);
	s->ends[s->head++ % g.cfg.queue] = end->n ? UNKNOWN : end->at;
}

/* Waits for a free place in the stream's queue. Behind a kernel that waits for others, a
 * place is known to be free only once that kernel has ended. The caller holds the lock. */
static void wait_place(struct stream *s)
{
	u64 full;

	while ((full = s->ends[s->head % g.cfg.queue]) > now_ns()) {
		struct when until = s->until;

		unlock(&g.lock);
		if (full == UNKNOWN)
			wait_known(&until, sched_of(s->ctx));
		else
			wait_until(full, sched_of(s->ctx));
		lock(&g.lock);
		for (u32 i = 0; full == UNKNOWN && i < g.cfg.queue; i++)
			if (s->ends[i] == UNKNOWN)
				s->ends[i] = until.at;
	}
}

/* Submits work of host_ns on the CPU and gpu_ns on the GPU. A full queue blocks the caller,
 * as launches do. During capture the work goes to the graph. */
int stream_submit(struct stream *s, u64 host_ns, u64 gpu_ns, struct when *end)
{
	struct when start;

	if (likely(!(host_ns | gpu_ns | g.capturing) && !end))
		return OK;
	if (end)
		memset(end, 0, sizeof(*end));
	burn(host_ns);
	lock(&g.lock);
	if (s->capture) {
		s->capture_broken |= !node_new(s->capture, gpu_ns, NULL);
		unlock(&g.lock);
		return OK;
	}
	if (gpu_ns)
		wait_place(s);
	start = stream_end(s);
	if (gpu_ns) {
		u64 now = now_ns();

		if (start.at < now)
			start.at = now;
		if (!start.n)
			start.at = share_turn(s->ctx->device, start.at, gpu_ns);
		when_plus(&start, gpu_ns);
		set_end(s, &start);
	}
	if (end)
		*end = start;
	unlock(&g.lock);
	return OK;
}

/* Submits a kernel that runs gpu_ns once all have arrived. During capture it goes to the
 * graph. */
int stream_gate(struct stream *s, u64 host_ns, struct sim_gate *gate, u64 gpu_ns)
{
	struct when start, end = { .n = 1 };
	int err;

	burn(host_ns);
	lock(&g.lock);
	if (s->capture) {
		s->capture_broken |= !node_new(s->capture, gpu_ns, gate);
		unlock(&g.lock);
		return OK;
	}
	wait_place(s);
	start = stream_end(s);
	if (start.at < now_ns())
		start.at = now_ns();
	err = gate_new(gate, &start, &end.term[0].gate);
	if (!err) {
		end.term[0].plus = gpu_ns;
		when_known(&end);
		set_end(s, &end);
	}
	unlock(&g.lock);
	return err;
}

/* Waiting for a capturing stream is an error, and ends the capture. */
int stream_wait(struct stream *s, u32 sched)
{
	struct when end;

	if (unlikely(s->capture)) {
		s->capture_broken = 1;
		return ERR_CAPTURE_UNSUPPORTED;
	}
	lock(&g.lock);
	end = stream_end(s);
	unlock(&g.lock);
	wait_when(end, sched);
	if (unlikely(s->n_host))
		run_host_calls(s);
	return OK;
}

int context_wait(struct context *ctx)
{
	struct when end;

	for (u32 i = 0; g.capturing && i < object_count(KIND_STREAM); i++) {
		struct stream *s = (void *)object_at(KIND_STREAM, i);

		if (s && s->ctx == ctx && s->capture) {
			s->capture_broken = 1;
			return ERR_CAPTURE_UNSUPPORTED;
		}
	}
	lock(&g.lock);
	end = ctx->all_until;
	unlock(&g.lock);
	wait_when(end, sched_of(ctx));
	for (u32 i = 0; g.host_calls && i < object_count(KIND_STREAM); i++) {
		struct stream *s = (void *)object_at(KIND_STREAM, i);

		if (s && s->ctx == ctx)
			run_host_calls(s);
	}
	return OK;
}

/* The caller holds the lock. */
void stream_free(struct stream *s)
{
	g.host_calls -= s->n_host;
	g.capturing -= s->capture != NULL;
	if (s->host)
		munmap(s->host, s->host_cap * sizeof(*s->host));
	object_free(&s->o);
}

CU(cuCtxSynchronize)(void)
{
	ENTER;
	return context_wait(t->ctx);
}

static int cuStreamSynchronize_on(void *dflt, void *handle)
{
	struct stream *s;

	ENTER_AS("cuStreamSynchronize");
	err = stream_find(t, handle, dflt, &s);
	if (!err)
		err = stream_wait(s, sched_of(t->ctx));
	step_end();
	return err;
}
TWIN(cuStreamSynchronize, _ptsz, (void *s), s)

static int cuStreamQuery_on(void *dflt, void *handle)
{
	struct stream *s;
	struct when end;

	ENTER_AS("cuStreamQuery");
	err = stream_find(t, handle, dflt, &s);
	if (err)
		return err;
	if (s->capture) {
		s->capture_broken = 1;
		return ERR_CAPTURE_UNSUPPORTED;
	}
	lock(&g.lock);
	end = stream_end(s);
	unlock(&g.lock);
	if (!when_past(&end))
		return ERR_NOT_READY;
	if (unlikely(s->n_host))
		run_host_calls(s);
	return OK;
}
TWIN(cuStreamQuery, _ptsz, (void *s), s)

static int create(const char *op, void **out, u32 flags, int prio)
{
	struct stream *s;

	ENTER_AS(op);
	if (!out || flags & ~STREAM_NON_BLOCKING)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	lock(&g.lock);
	s = (void *)object_new(KIND_STREAM);
	if (s) {
		s->ctx = t->ctx;
		s->flags = flags;
		s->priority = prio < GREATEST_PRIORITY ? GREATEST_PRIORITY
			      : prio > LEAST_PRIORITY  ? LEAST_PRIORITY
						       : prio;
	}
	unlock(&g.lock);
	*out = s;
	return s ? OK : ERR_OUT_OF_MEMORY;
}

CU(cuStreamCreateWithPriority)(void **out, u32 flags, int prio)
{
	return create("cuStreamCreateWithPriority", out, flags, prio);
}

CU(cuStreamCreate)(void **out, u32 flags)
{
	return create("cuStreamCreate", out, flags, 0);
}

/* As in CUDA, the work goes on; only the handle becomes invalid. */
CU(cuStreamDestroy_v2)(void *handle)
{
	struct stream *s;

	ENTER;
	s = object_get(handle, KIND_STREAM);
	if (!s)
		return ERR_INVALID_HANDLE;
	burn(g.cfg.call_ns);
	if (s->n_host) {
		stream_wait(s, sched_of(t->ctx));
	}
	lock(&g.lock);
	stream_free(s);
	unlock(&g.lock);
	return OK;
}

CU(cuStreamDestroy)(void *handle)
{
	return impl_cuStreamDestroy_v2(handle);
}

static int cuStreamGetFlags_on(void *dflt, void *handle, u32 *flags)
{
	struct stream *s;

	ENTER_AS("cuStreamGetFlags");
	err = stream_find(t, handle, dflt, &s);
	if (!err)
		*flags = s->flags;
	return err;
}
TWIN(cuStreamGetFlags, _ptsz, (void *s, u32 *flags), s, flags)

/* The priority is kept, without effect: streams do not wait for each other's kernels. */
static int cuStreamGetPriority_on(void *dflt, void *handle, int *priority)
{
	struct stream *s;

	ENTER_AS("cuStreamGetPriority");
	err = stream_find(t, handle, dflt, &s);
	if (err || !priority)
		return err ? err : ERR_INVALID_VALUE;
	*priority = s->priority;
	return OK;
}
TWIN(cuStreamGetPriority, _ptsz, (void *s, int *priority), s, priority)
