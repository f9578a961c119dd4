package ledger

import "ingero/pkg/events"

const (
	// spinReturn is the CPU time, ns, within which a spinning synchronize returns after the GPU is
	// done. After a long wait it takes longer, since its caches are cold: a coldReturn-th of the wait.
	spinReturn = 50_000
	coldReturn = 16
	// wakeReturn is the CPU time, ns, within which a blocking synchronize returns after it is
	// woken. One that uses more has gone on to spin.
	wakeReturn = 200_000
	// together is the largest gap, ns, between two waits that count as one: a wait continues on
	// another CPU, or its state changes.
	together = 20_000
	maxTail  = 8
)

// tail follows the waits of the closing call and keeps those that can matter: the waits since the
// last wake-up, and of these the last unbroken run.
type tail struct {
	woken      int64 // Unix ns: end of the last blocked wait, 0: none
	since      culprits
	run        culprits
	start, end int64    // of run
	stops      culprits // stops of the whole call
	stopped    int64    // of stops, since woken
	any        bool
}

// culprits are waits by culprit.
type culprits struct {
	list []Wait // at most maxTail
	ns   int64  // sum of the waits, for all culprits
}

func (c *culprits) clear() { c.list, c.ns = c.list[:0], 0 }

func (c *culprits) add(x *Wait) { c.list = keepWait(c.list, maxTail, x) }

// join moves o's into c.
func (c *culprits) join(o *culprits) {
	for i := range o.list {
		c.add(&o.list[i])
	}
	c.ns += o.ns
	o.clear()
}

func (t *tail) reset() {
	if !t.any {
		return
	}
	t.woken, t.start, t.end, t.stopped, t.any = 0, 0, 0, 0, false
	t.since.clear()
	t.run.clear()
	t.stops.clear()
}

// add takes in the next wait of the closing call.
func (t *tail) add(w *events.Wait, x *Wait) {
	t.any = true
	again := w.Flags&events.WaitPrevious != 0
	stopped := w.State == events.WaitBlocked && w.Reason == events.ReasonStopped
	switch {
	case stopped:
		if !again {
			t.stopped += w.Duration
			t.stops.ns += w.Duration
		}
		x.Critical = true
		t.stops.add(x)
		return
	case w.State == events.WaitBlocked:
		t.since.clear()
		t.run.clear()
		t.stopped = 0
		t.woken = max(t.woken, w.End())
		return
	}
	if !again {
		if t.run.ns > 0 && w.Start-t.end > together {
			t.since.join(&t.run)
		}
		if t.run.ns == 0 {
			t.start = w.Start
		}
		t.end = max(t.end, w.End())
		t.run.ns += w.Duration
	}
	x.Critical = true
	t.run.add(x)
}

// loss returns what the closing call lost, and adds the responsible waits to the step.
func (t *tail) loss(o *openStep, c *events.Call) Loss {
	end := c.End()
	if !t.any {
		return t.unrecorded(o, c)
	}
	if t.start < c.Start { // of an earlier call that never returned
		t.run.clear()
	}
	var l Loss
	all := min(t.since.ns+t.run.ns, c.Duration)
	switch {
	case t.woken > c.Start && end-t.woken-all-t.stopped <= wakeReturn:
		t.run.join(&t.since)
		t.run.give(o, all)
		l = Loss{Est: all, Min: all, Max: all}
	case t.run.ns > 0 && end-t.end <= max(spinReturn, t.run.ns/coldReturn):
		all = min(t.run.ns, c.Duration)
		t.run.give(o, all)
		l = Loss{Est: all / 2, Max: all}
	}
	// It is unknown whether the GPU finished during a stop, or the call had to wait on.
	if s := min(t.stops.ns, c.Duration-l.Max); s > 0 {
		t.stops.give(o, s)
		l.Est += s / 2
		l.Max += s
	}
	return l
}

// give adds waits to the step, each bounded by all.
func (c *culprits) give(o *openStep, all int64) {
	for i := range c.list {
		c.list[i].NS = min(c.list[i].NS, all)
		o.keep(&c.list[i])
	}
}

// unrecorded returns the loss without wait records from the kernel: somewhere in the call.
func (t *tail) unrecorded(o *openStep, c *events.Call) Loss {
	_, run, thr, _, _ := split(c.Duration, c.OnCPU, c.Runnable, c.Throttled, false)
	if run+thr < 2*spinReturn {
		return Loss{}
	}
	for _, u := range []struct {
		state events.WaitState
		ns    int64
	}{{events.WaitRunnable, run}, {events.WaitThrottled, thr}} {
		if u.ns > 0 {
			o.keep(&Wait{
				NS: u.ns, Count: 1, First: c.Start, Last: c.End(), Op: c.Op, State: u.state,
				Flags: events.WaitOthers, Critical: true, longest: u.ns,
			})
		}
	}
	return Loss{Est: (run + thr) / 2, Max: run + thr}
}
