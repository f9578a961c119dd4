package otlp

import (
	"ingero/pkg/events"
)

// Limits of the calls that wait for their outer call to return.
const (
	maxInner   = 64   // per thread
	maxWaiting = 4096 // threads
)

// trees nests calls. A call inside another comes before it.
type trees struct {
	waiting map[uint32]*inner // by thread
	free    []*inner
}

// inner are a thread's calls inside one that has not returned.
type inner struct {
	pid   uint32
	calls []events.Call // in the order of their returns
}

// add adds a call. It calls tree with each outermost call and its inner calls, which are valid
// until tree returns. A call whose outer call has no record comes alone.
func (t *trees) add(c *events.Call, tree func(outer *events.Call, inside []events.Call)) {
	w := t.waiting[c.TID]
	if w != nil && w.pid != c.PID { // another thread with the same tid
		t.alone(w, len(w.calls), tree)
	}
	if c.Flags&events.CallNested != 0 {
		if w == nil {
			if w = t.room(c.TID); w == nil {
				tree(c, nil)
				return
			}
		}
		if len(w.calls) == maxInner {
			t.alone(w, 1, tree)
		}
		w.pid = c.PID
		w.calls = append(w.calls, *c)
		return
	}
	if w == nil || len(w.calls) == 0 {
		tree(c, nil)
		return
	}
	lost := 0 // for an outer call without a record
	for lost < len(w.calls) && w.calls[lost].Start < c.Start {
		lost++
	}
	t.alone(w, lost, tree)
	tree(c, w.calls)
	w.calls = w.calls[:0]
}

// alone passes on the first calls of a thread, each by itself.
func (t *trees) alone(w *inner, n int, tree func(*events.Call, []events.Call)) {
	for i := range w.calls[:n] {
		tree(&w.calls[i], nil)
	}
	w.calls = w.calls[:copy(w.calls, w.calls[n:])]
}

// room returns a thread's entry, nil if there are too many.
func (t *trees) room(tid uint32) *inner {
	if t.waiting == nil {
		t.waiting = map[uint32]*inner{}
	}
	if len(t.waiting) >= maxWaiting {
		return nil
	}
	w := &inner{}
	if n := len(t.free); n > 0 {
		w, t.free = t.free[n-1], t.free[:n-1]
	}
	t.waiting[tid] = w
	return w
}

// tidy forgets threads without waiting calls; at the end it passes on the waiting ones.
func (t *trees) tidy(final bool, tree func(*events.Call, []events.Call)) {
	for tid, w := range t.waiting {
		if final {
			t.alone(w, len(w.calls), tree)
		}
		if len(w.calls) == 0 {
			delete(t.waiting, tid)
			if len(t.free) < maxInner {
				t.free = append(t.free, w)
			}
		}
	}
}

// parentOf returns the index of inside[i]'s parent, -1: the outer call.
func parentOf(inside []events.Call, i int) int {
	c := &inside[i]
	for j := i + 1; j < len(inside); j++ {
		if p := &inside[j]; p.Op == c.Parent && p.Start <= c.Start && p.End() >= c.End() {
			return j
		}
	}
	return -1
}
