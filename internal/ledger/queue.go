package ledger

import "ingero/pkg/events"

// queue finds which waits of a step fell into a time when the GPU had work. CUDA is asynchronous:
// while launches are queued, host delays cost nothing.
//
// The duration of each launch is unknown. If the closing call still had to wait for the GPU, and
// all launches are assumed equal, the time from the first one to the end of the step gives it. A
// wait was free as far as the launches made before it reached. If the GPU was already done at the
// closing call, no wait was free.
type queue struct {
	first    int64 // Unix ns: end of the first launch, 0: none yet
	launches uint32
	list     [maxQueue]delay
	n        int
}

// delay is a wait after the first launch.
type delay struct {
	at, ns   int64 // since the first launch; length
	launches uint32
}

const maxQueue = 32

func (q *queue) reset() { q.first, q.launches, q.n = 0, 0, 0 }

// launch counts n launches; the last returned at end.
func (q *queue) launch(n uint32, end int64) {
	q.launches += n
	if q.first == 0 {
		q.first = end
	}
}

// wait records a wait outside the closing call. Waits before the first launch, and waits beyond
// maxQueue, count as fully lost.
func (q *queue) wait(w *events.Wait) {
	if q.first == 0 || w.Start < q.first || w.Flags&events.WaitPrevious != 0 || q.n == maxQueue {
		return
	}
	q.list[q.n] = delay{w.Start - q.first, w.Duration, q.launches}
	q.n++
}

// behind returns how much of the waits the GPU's queue hid, in a step that ended at end after a
// wait of gpu ns for the GPU.
func (q *queue) behind(end, gpu int64) (ns int64) {
	if q.launches == 0 || gpu < spinReturn || end <= q.first {
		return 0
	}
	each := (end - q.first) / int64(q.launches)
	for _, d := range q.list[:q.n] {
		ns += min(max(int64(d.launches)*each-d.at, 0), d.ns)
	}
	return ns
}
