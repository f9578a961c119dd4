package legacy

import (
	"container/heap"

	"ingero/pkg/events"
)

// order reorders calls from their starts to their ends, the order of a trace. It also finds the
// calls inside others of their thread.
type order struct {
	open map[uint32][]frame // by thread: possibly open calls, outermost first
	held ended
}

type frame struct {
	op  events.Op
	end int64
}

// add adds a call, and calls give for each that ended by then.
func (o *order) add(c events.Call, give func(*events.Call)) {
	o.until(c.Start, give)
	key := c.TID
	stack := o.open[key]
	for len(stack) > 0 && (stack[len(stack)-1].end <= c.Start || stack[len(stack)-1].end < c.End()) {
		stack = stack[:len(stack)-1]
	}
	if n := len(stack); n > 0 {
		c.Flags |= events.CallNested
		c.Parent = stack[n-1].op
	}
	o.open[key] = append(stack, frame{c.Op, c.End()})
	heap.Push(&o.held, c)
}

// until gives the calls that ended by a time.
func (o *order) until(at int64, give func(*events.Call)) {
	for len(o.held) > 0 && o.held[0].End() <= at {
		c := heap.Pop(&o.held).(events.Call)
		give(&c)
	}
}

// ended is a heap of calls: earliest end first, and of equal ends the latest start.
type ended []events.Call

func (h ended) Len() int { return len(h) }
func (h ended) Less(i, j int) bool {
	if h[i].End() != h[j].End() {
		return h[i].End() < h[j].End()
	}
	return h[i].Start > h[j].Start
}
func (h ended) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *ended) Push(x any)   { *h = append(*h, x.(events.Call)) }
func (h *ended) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}
