/* SPDX-License-Identifier: Apache-2.0 */
/* Events: the time at which the stream's work before them is done. */
#include "gpu.h"

CU(cuEventCreate)(void **out, u32 flags)
{
	struct event *ev;

	ENTER;
	if (!out || flags & ~7u)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	ev = (void *)object_new(KIND_EVENT);
	if (ev)
		ev->flags = flags;
	unlock(&g.lock);
	*out = ev;
	return ev ? OK : ERR_OUT_OF_MEMORY;
}

CU(cuEventDestroy_v2)(void *handle)
{
	struct event *ev;

	ENTER;
	ev = object_get(handle, KIND_EVENT);
	if (!ev)
		return ERR_INVALID_HANDLE;
	lock(&g.lock);
	object_free(&ev->o);
	unlock(&g.lock);
	return OK;
}

CU(cuEventDestroy)(void *handle)
{
	return impl_cuEventDestroy_v2(handle);
}

static int record(const char *op, void *dflt, void *handle, void *stream)
{
	struct event *ev;
	struct stream *s;
	struct when end;

	ENTER_AS(op);
	ev = object_get(handle, KIND_EVENT);
	err = stream_find(t, stream, dflt, &s);
	if (!ev || err)
		return ERR_INVALID_HANDLE;
	memset(&end, 0, sizeof(end));
	if (!s->capture) /* during capture, an event marks a place in the graph and adds no node */
		stream_submit(s, g.cfg.call_ns, 0, &end);
	lock(&g.lock);
	ev->capture = s->capture;
	ev->at = end;
	if (ev->at.at < now_ns())
		ev->at.at = now_ns();
	ev->recorded = 1;
	unlock(&g.lock);
	return OK;
}

static int cuEventRecord_on(void *dflt, void *ev, void *s)
{
	return record("cuEventRecord", dflt, ev, s);
}
TWIN(cuEventRecord, _ptsz, (void *ev, void *s), ev, s)

static int cuEventRecordWithFlags_on(void *dflt, void *ev, void *s, u32 flags)
{
	(void)flags;
	return record("cuEventRecordWithFlags", dflt, ev, s);
}
TWIN(cuEventRecordWithFlags, _ptsz, (void *ev, void *s, u32 flags), ev, s, flags)

CU(cuEventQuery)(void *handle)
{
	struct event *ev;

	ENTER;
	ev = object_get(handle, KIND_EVENT);
	if (!ev)
		return ERR_INVALID_HANDLE;
	if (ev->capture)
		return ERR_CAPTURE_UNSUPPORTED;
	return ev->recorded && !when_past(&ev->at) ? ERR_NOT_READY : OK;
}

CU(cuEventSynchronize)(void *handle)
{
	struct event *ev;

	ENTER;
	ev = object_get(handle, KIND_EVENT);
	if (!ev)
		return ERR_INVALID_HANDLE;
	if (ev->capture)
		return ERR_CAPTURE_UNSUPPORTED;
	wait_when(ev->at, ev->flags & EVENT_BLOCKING_SYNC ? SCHED_BLOCK : sched_of(t->ctx));
	return OK;
}

CU(cuEventElapsedTime)(float *ms, void *from, void *to)
{
	struct event *a, *b;

	ENTER;
	a = object_get(from, KIND_EVENT);
	b = object_get(to, KIND_EVENT);
	if (!a || !b || !a->recorded || !b->recorded || (a->flags | b->flags) & EVENT_NO_TIMING)
		return ERR_INVALID_HANDLE;
	if (!when_past(&a->at) || !when_past(&b->at))
		return ERR_NOT_READY;
	*ms = (float)(s64)(b->at.at - a->at.at) / 1e6f;
	return OK;
}

static int cuStreamWaitEvent_on(void *dflt, void *handle, void *event, u32 flags)
{
	struct event *ev;
	struct stream *s;

	ENTER_AS("cuStreamWaitEvent");
	(void)flags;
	ev = object_get(event, KIND_EVENT);
	err = stream_find(t, handle, dflt, &s);
	if (!ev || err)
		return ERR_INVALID_HANDLE;
	burn(g.cfg.call_ns);
	lock(&g.lock);
	if (ev->capture && !s->capture) { /* the stream joins the capture */
		s->capture = ev->capture;
		s->capture_id = 0;
		s->capture->captures++;
		g.capturing++;
	} else if (!ev->capture) {
		when_join(&s->until, &ev->at);
		if (s == s->ctx->legacy)
			when_join(&s->ctx->legacy_until, &ev->at);
	}
	unlock(&g.lock);
	return OK;
}
TWIN(cuStreamWaitEvent, _ptsz, (void *s, void *ev, u32 flags), s, ev, flags)
