package otlp

import (
	"ingero/pkg/events"
)

// Limits of the calls that wait for the call around them to return.
const (
	maxInner   = 64   // of one thread
	maxWaiting = 4096 // threads
)

// trees puts calls into those around them. A call inside another comes before it.
type trees struct {
	waiting map[uint32]*inner // by thread
	spare   []*inner
}

// inner are the calls of a thread that are inside one that has not returned.
type inner struct {
	pid   uint32
	calls []events.Call // in the order in which they returned
}

// add takes a call in. It calls tree with each call that is in no other, and the calls in
// it; they are valid until it returns. A call whose outer one has no record comes alone.
func (t *trees) add(c *events.Call, tree func(outer *events.Call, inside []events.Call)) {
	w := t.waiting[c.TID]
	if w != nil && w.pid != c.PID { // another thread of that number
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
	lost := 0 // of a call whose record did not come
	for lost < len(w.calls) && w.calls[lost].Start < c.Start {
		lost++
	}
	t.alone(w, lost, tree)
	tree(c, w.calls)
	w.calls = w.calls[:0]
}

// alone hands over the first calls of a thread, each by itself.
func (t *trees) alone(w *inner, n int, tree func(*events.Call, []events.Call)) {
	for i := range w.calls[:n] {
		tree(&w.calls[i], nil)
	}
	w.calls = w.calls[:copy(w.calls, w.calls[n:])]
}

// room returns a place for a thread, nil where there are too many.
func (t *trees) room(tid uint32) *inner {
	if t.waiting == nil {
		t.waiting = map[uint32]*inner{}
	}
	if len(t.waiting) >= maxWaiting {
		return nil
	}
	w := &inner{}
	if n := len(t.spare); n > 0 {
		w, t.spare = t.spare[n-1], t.spare[:n-1]
	}
	t.waiting[tid] = w
	return w
}

// tidy forgets threads that nothing waits for; at the end it hands over what does.
func (t *trees) tidy(final bool, tree func(*events.Call, []events.Call)) {
	for tid, w := range t.waiting {
		if final {
			t.alone(w, len(w.calls), tree)
		}
		if len(w.calls) == 0 {
			delete(t.waiting, tid)
			if len(t.spare) < maxInner {
				t.spare = append(t.spare, w)
			}
		}
	}
}

// parentOf returns the place of the call that is directly around inside[i], -1: the outer
// one.
func parentOf(inside []events.Call, i int) int {
	c := &inside[i]
	for j := i + 1; j < len(inside); j++ {
		if p := &inside[j]; p.Op == c.Parent && p.Start <= c.Start && p.End() >= c.End() {
			return j
		}
	}
	return -1
}
