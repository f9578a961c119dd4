package otlp

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// load is the content of one request.
type load interface {
	// message makes the message to send, which is valid until the next call. The sender's goroutine
	// calls it.
	message() proto.Message
	items() int // spans, data points or log records
	bytes() int // approximate memory
	// halves returns the load in two parts, or none if it cannot be split. The sender's goroutine calls
	// it.
	halves() []load
}

// ready is a load with its message.
type ready struct {
	m     proto.Message
	n     int
	size  int
	split func() []load // nil: it cannot be split
}

func (r ready) message() proto.Message { return r.m }
func (r ready) items() int             { return r.n }
func (r ready) bytes() int             { return r.size }

func (r ready) halves() []load {
	if r.split == nil {
		return nil
	}
	return r.split()
}

// inHalves returns the loads of the halves of a list, none for a single element.
func inHalves[T any](list []T, of func([]T) load) []load {
	half := len(list) / 2
	if half == 0 {
		return nil
	}
	return []load{of(list[:half]), of(list[half:])}
}

// queue holds loads for a sender. It drops the oldest when there is no room, and holds a load that is
// larger than the queue alone.
type queue struct {
	mu     sync.Mutex
	loads  []load
	size   int // bytes of loads
	most   int
	closed bool
	came   chan struct{} // has a value when something changed
}

func newQueue(most int) *queue { return &queue{most: most, came: make(chan struct{}, 1)} }

// push adds a load and returns how many items were dropped for it. It does not block.
func (q *queue) push(l load) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return l.items()
	}
	for len(q.loads) > 0 && q.size+l.bytes() > q.most {
		dropped += q.loads[0].items()
		q.drop()
	}
	q.loads, q.size = append(q.loads, l), q.size+l.bytes()
	q.wake()
	return dropped
}

// take removes the oldest load, nil if there is none; closed reports whether none will come.
func (q *queue) take() (l load, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.loads) == 0 {
		return nil, q.closed
	}
	l = q.loads[0]
	q.drop()
	return l, false
}

// drop removes the oldest load. The caller must hold mu.
func (q *queue) drop() {
	q.size -= q.loads[0].bytes()
	q.loads[0] = nil // the array lives on for a while
	q.loads = q.loads[1:]
}

// close marks the queue as complete.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.came <- struct{}{}:
	default:
	}
}
