/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions: functions of the program, called in stream order. */
#include "gpu.h"

/* Takes the stream's next function that is due. */
static int next_call(struct stream *s, struct host_call *c)
{
	int due;

	lock(&g.lock);
	due = s->n_host && when_known(&s->host[0].at) && s->host[0].at.at <= now_ns();
	if (due) {
		*c = s->host[0];
		s->n_host--;
		g.host_calls--;
		for (u32 i = 0; i < s->n_host; i++)
			s->host[i] = s->host[i + 1];
	}
	unlock(&g.lock);
	return due;
}

/* Runs the functions that are due, without the lock held. */
void run_host_calls(struct stream *s)
{
	struct host_call c;

	while (s->n_host && next_call(s, &c))
		c.fn(c.data);
}

static int add_host_call(struct stream *s, host_fn fn, void *data)
{
	int err = OK;

	lock(&g.lock);
	if (s->n_host == s->host_cap) {
		u32 cap = s->host_cap ? 4 * s->host_cap : 256;
		struct host_call *more = mmap(NULL, cap * sizeof(*more), PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (more == MAP_FAILED) {
			err = ERR_OUT_OF_MEMORY;
		} else {
			if (s->host) {
				memcpy(more, s->host, s->n_host * sizeof(*more));
				munmap(s->host, s->host_cap * sizeof(*more));
			}
			s->host = more;
			s->host_cap = cap;
		}
	}
	if (!err) {
		s->host[s->n_host++] = (struct host_call){ fn, data, stream_end(s) };
		g.host_calls++;
	}
	unlock(&g.lock);
	return err;
}

/* There is no driver thread: once the work before it is done, the function runs in the
 * thread that next waits for the stream or queries it. */
static int cuLaunchHostFunc_on(void *dflt, void *handle, host_fn fn, void *data)
{
	struct stream *s;

	ENTER_AS("cuLaunchHostFunc");
	err = stream_find(t, handle, dflt, &s);
	if (err)
		return err;
	if (!fn)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	if (s->capture)
		return stream_submit(s, 0, 0, NULL);
	return add_host_call(s, fn, data);
}
TWIN(cuLaunchHostFunc, _ptsz, (void *s, host_fn fn, void *data), s, fn, data)

/* The older form. The callback runs at once, after the work before it: it needs the
 * stream's handle, and a queue of both kinds would serve no other purpose. */
static int cuStreamAddCallback_on(void *dflt, void *handle, void (*cb)(void *, int, void *),
				  void *data, u32 flags)
{
	struct stream *s;

	ENTER_AS("cuStreamAddCallback");
	err = stream_find(t, handle, dflt, &s);
	if (err)
		return err;
	if (!cb || flags)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	err = stream_wait(s, sched_of(t->ctx));
	if (err)
		return err;
	cb(handle, OK, data);
	return OK;
}
TWIN(cuStreamAddCallback, _ptsz, (void *s, void (*cb)(void *, int, void *), void *data, u32 flags),
     s, cb, data, flags)
