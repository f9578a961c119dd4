/* SPDX-License-Identifier: Apache-2.0 */
/* Streams as queues of "done at" times; synchronise and query. */
#include "gpu.h"

/* The stream that belongs to the calling thread alone, made at its first use. */
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

/* The stream behind a handle; NULL stands for the caller's default stream. */
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

/* When all that the stream waits for is done. Legacy and blocking streams wait
 * for each other; others are on their own. */
u64 stream_end(struct stream *s)
{
	struct context *ctx = s->ctx;
	u64 end = s->until;

	if (s == ctx->legacy)
		end = ctx->legacy_until > ctx->blocking_until ? ctx->legacy_until
							      : ctx->blocking_until;
	else if (!(s->flags & STREAM_NON_BLOCKING) && ctx->legacy_until > end)
		end = ctx->legacy_until;
	return end;
}

static void max_to(u64 *to, u64 v)
{
	if (v > *to)
		*to = v;
}

static void set_end(struct stream *s, u64 end)
{
	struct context *ctx = s->ctx;

	s->until = end;
	if (s == ctx->legacy)
		ctx->legacy_until = end;
	else if (!(s->flags & STREAM_NON_BLOCKING))
		max_to(&ctx->blocking_until, end);
	max_to(&ctx->all_until, end);
}

/* Work of host_ns on the CPU and gpu_ns on the GPU. A full queue makes the caller
 * wait, as launches do. In a capture the work goes to the graph. */
int stream_submit(struct stream *s, u64 host_ns, u64 gpu_ns, u64 *end)
{
	u64 start, full;

	if (likely(!(host_ns | gpu_ns | g.capturing) && !end))
		return OK;
	burn(host_ns);
	lock(&g.lock);
	if (s->capture) {
		s->capture->nodes++;
		s->capture->gpu_ns += gpu_ns;
		if (end)
			*end = 0;
		unlock(&g.lock);
		return OK;
	}
	while (gpu_ns && (full = s->ends[s->head % g.cfg.queue]) > now_ns()) {
		unlock(&g.lock);
		wait_until(full, sched_of(s->ctx));
		lock(&g.lock);
	}
	start = stream_end(s);
	if (gpu_ns) {
		u64 now = now_ns();

		if (start < now)
			start = now;
		start += gpu_ns;
		set_end(s, start);
		s->ends[s->head++ % g.cfg.queue] = start;
	}
	if (end)
		*end = start;
	unlock(&g.lock);
	return OK;
}

/* Waiting for a stream in capture is an error, and ends the capture. */
int stream_wait(struct stream *s, u32 sched)
{
	if (unlikely(s->capture)) {
		s->capture_broken = 1;
		return ERR_CAPTURE_UNSUPPORTED;
	}
	wait_until(stream_end(s), sched);
	if (unlikely(s->n_host))
		run_host_calls(s);
	return OK;
}

int context_wait(struct context *ctx)
{
	for (u32 i = 0; g.capturing && i < object_count(KIND_STREAM); i++) {
		struct stream *s = (void *)object_at(KIND_STREAM, i);

		if (s && s->ctx == ctx && s->capture) {
			s->capture_broken = 1;
			return ERR_CAPTURE_UNSUPPORTED;
		}
	}
	wait_until(ctx->all_until, sched_of(ctx));
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
	return err ? err : stream_wait(s, sched_of(t->ctx));
}
TWIN(cuStreamSynchronize, _ptsz, (void *s), s)

static int cuStreamQuery_on(void *dflt, void *handle)
{
	struct stream *s;

	ENTER_AS("cuStreamQuery");
	err = stream_find(t, handle, dflt, &s);
	if (err)
		return err;
	if (s->capture) {
		s->capture_broken = 1;
		return ERR_CAPTURE_UNSUPPORTED;
	}
	if (stream_end(s) && now_ns() < stream_end(s))
		return ERR_NOT_READY;
	if (unlikely(s->n_host))
		run_host_calls(s);
	return OK;
}
TWIN(cuStreamQuery, _ptsz, (void *s), s)

CU(cuStreamCreateWithPriority)(void **out, u32 flags, int prio)
{
	struct stream *s;

	ENTER;
	(void)prio;
	if (!out || flags & ~STREAM_NON_BLOCKING)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	lock(&g.lock);
	s = (void *)object_new(KIND_STREAM);
	if (s) {
		s->ctx = t->ctx;
		s->flags = flags;
	}
	unlock(&g.lock);
	*out = s;
	return s ? OK : ERR_OUT_OF_MEMORY;
}

CU(cuStreamCreate)(void **out, u32 flags)
{
	return impl_cuStreamCreateWithPriority(out, flags, 0);
}

/* As in CUDA the work goes on; only the handle dies. */
CU(cuStreamDestroy_v2)(void *handle)
{
	struct stream *s;

	ENTER;
	s = object_get(handle, KIND_STREAM);
	if (!s)
		return ERR_INVALID_HANDLE;
	burn(g.cfg.call_ns);
	if (s->n_host) {
		wait_until(stream_end(s), sched_of(t->ctx));
		run_host_calls(s);
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
