package otlp

import (
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"ingero/internal/testkit"
)

// parcel is a load with a number of items and bytes.
func parcel(items, bytes int) load { return ready{m: oneSpan(), n: items, size: bytes} }

func startSender(t *testing.T, to Target, clock Clock, most int) *sender {
	t.Helper()
	return startWith(t, to, Options{Clock: clock, QueueBytes: most})
}

func startWith(t *testing.T, to Target, o Options) *sender {
	t.Helper()
	o.complete()
	s := newSender(to, Traces, &o)
	t.Cleanup(func() {
		if !s.ending() {
			s.end()
		}
		s.stop()
		<-s.done
	})
	return s
}

// lost waits until n items are lost for a reason.
func lost(t *testing.T, s *sender, why string, n uint64) {
	t.Helper()
	testkit.Eventually(t, why, func() bool { return s.state().Lost[why] >= n })
	if got := s.state().Lost; len(got) != 1 || got[why] != n {
		t.Errorf("lost %v, want %d %s", got, n, why)
	}
}

// An unreachable receiver is retried with growing backoff, and gets each item once when it is back.
func TestRetry(t *testing.T) {
	testkit.LeakCheck(t)
	var up atomic.Bool
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	clock := newFakeClock()
	s := startSender(t, target(t, r.URL, HTTPProtobuf, Traces), clock, 1<<20)
	s.enqueue(parcel(3, 100))
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		testkit.Eventually(t, "a pause", func() bool { return len(clock.waiting()) == 1 })
		if got := clock.waiting()[0]; got < want*8/10 || got > want*12/10 {
			t.Errorf("pause %d is %s, want about %s", i+1, got, want)
		}
		if s.state().Problem == "" {
			t.Error("it does not report that nothing is delivered")
		}
		clock.advance(2 * want)
	}
	testkit.Eventually(t, "one more pause", func() bool { return len(clock.waiting()) == 1 })
	up.Store(true)
	clock.advance(time.Minute)
	testkit.Eventually(t, "the delivery", func() bool { return s.state().Items == 3 && s.state().Problem == "" })
	if st := s.state(); len(st.Lost) != 0 {
		t.Errorf("after delivery: %+v", st)
	}
	if n := r.count(); n != 9 {
		t.Errorf("%d requests, want 9", n)
	}
}

// A receiver may request a delay before the retry. If the delay is too long, the last try is earlier.
func TestRetryAfter(t *testing.T) {
	for after, want := range map[string]time.Duration{"77": 77 * time.Second, "300": giveUpAfter - time.Second, "3600": giveUpAfter - time.Second} {
		t.Run(after, func(t *testing.T) {
			clock := newFakeClock()
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				clock.advance(time.Second)
				w.Header().Set("Retry-After", after)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			s := startSender(t, target(t, r.URL, HTTPProtobuf, Traces), clock, 1<<20)
			s.enqueue(parcel(1, 100))
			testkit.Eventually(t, "a pause", func() bool { return len(clock.waiting()) == 1 || len(s.state().Lost) > 0 })
			if got, lost := clock.waiting(), s.state().Lost; len(got) != 1 || got[0] != want || len(lost) > 0 {
				t.Errorf("it waits %s and lost %v, want %s", got, lost, want)
			}
		})
	}
}

// Undeliverable items are dropped after a while, and counted.
func TestGiveUp(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := "http://" + gone.Addr().String()
	if err := gone.Close(); err != nil { // nothing listens there now
		t.Fatal(err)
	}
	clock := newFakeClock()
	s := startSender(t, target(t, at, HTTPProtobuf, Traces), clock, 1<<20)
	s.enqueue(parcel(5, 100))
	for s.state().Lost[lostGiveUp] == 0 {
		testkit.Eventually(t, "a pause, or the end", func() bool { return len(clock.waiting()) == 1 || s.state().Lost[lostGiveUp] > 0 })
		clock.advance(40 * time.Second)
	}
	lost(t, s, lostGiveUp, 5)
}

// Refused items are not sent again, and counted; after a partial success, the rejected ones.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		why    string
		lost   uint64
		sent   uint64
	}{
		{"refused", text(400, "", ""), lostRefused, 7, 0},
		{"lies", text(200, "text/html", "welcome"), lostRefused, 7, 0},
		{"a part", text(200, "application/x-protobuf", string(partialAnswer())), lostRejected, 3, 4},
		{"more than there was", text(200, "application/json", `{"partialSuccess":{"rejectedSpans":"99999999999"}}`), lostRejected, 7, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newReceiver(t, tt.answer)
			s := startSender(t, target(t, r.URL, HTTPProtobuf, Traces), newFakeClock(), 1<<20)
			s.enqueue(parcel(7, 100))
			lost(t, s, tt.why, tt.lost)
			if st := s.state(); st.Items != tt.sent || st.Problem == "" {
				t.Errorf("state %+v, want %d sent and a problem", st, tt.sent)
			}
			if n := r.count(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

// A hanging receiver costs a request its timeout and nothing else: senders do not wait, and the end
// takes bounded time.
func TestHangs(t *testing.T) {
	testkit.LeakCheck(t)
	over := make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, q *http.Request) {
		select {
		case <-over:
		case <-q.Context().Done():
		}
	})
	to := target(t, r.URL, HTTPProtobuf, Traces)
	to.Timeout = time.Hour
	clock := newFakeClock()
	s := startSender(t, to, clock, 1000)
	s.enqueue(parcel(1, 400))
	testkit.Eventually(t, "the request", func() bool { return r.count() == 1 })
	for range 100 { // two fit
		s.enqueue(parcel(1, 400))
	}
	lost(t, s, lostQueue, 98)
	limit := make(chan struct{})
	close(limit)
	s.end()
	s.finish(limit)
	close(over)
	if st := s.state(); st.Lost[lostEnd] != 3 || st.Items != 0 {
		t.Errorf("at the end %+v, want 3 lost", st)
	}
}

// A request that takes too long is canceled, and retried later.
func TestTimeout(t *testing.T) {
	r := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	to := target(t, r.URL, HTTPProtobuf, Traces)
	to.Timeout = 20 * time.Millisecond
	clock := newFakeClock()
	s := startSender(t, to, clock, 1000)
	s.enqueue(parcel(1, 400))
	testkit.Eventually(t, "a pause", func() bool { return len(clock.waiting()) == 1 })
	if p := s.state().Problem; p != "no answer in time" {
		t.Errorf("problem %q", p)
	}
}

// The queue for an unreachable receiver is bounded by bytes: the oldest is dropped.
func TestQueueIsBounded(t *testing.T) {
	const most, each, times = 4 << 20, 64 << 10, 20_000
	clock := newFakeClock()
	s := startSender(t, target(t, "http://127.0.0.1:1", HTTPProtobuf, Traces), clock, most)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range times {
		s.enqueue(&filled{data: make([]byte, each)})
	}
	if after := heap(); after > before+2*most {
		t.Errorf("%d MiB for a queue of %d MiB", (after-before)>>20, most>>20)
	}
	s.queue.mu.Lock()
	held, loads := s.queue.size, len(s.queue.loads)
	s.queue.mu.Unlock()
	if held > most || loads > most/each {
		t.Errorf("%d loads of %d bytes wait", loads, held)
	}
	if n := s.state().Lost[lostQueue]; n < times-most/each-1 || n > times-most/each {
		t.Errorf("%d lost, want %d", n, times-most/each)
	}
}

type filled struct{ data []byte }

func (f *filled) message() proto.Message { return oneSpan() }
func (f *filled) items() int             { return 1 }
func (f *filled) halves() []load         { return nil }
func (f *filled) bytes() int             { return len(f.data) }

// The queue keeps its order, and holds a load that is larger than the queue alone.
func TestQueue(t *testing.T) {
	q := newQueue(100)
	for i := 1; i <= 3; i++ {
		if n := q.push(parcel(i, 40)); n != map[int]int{1: 0, 2: 0, 3: 1}[i] {
			t.Errorf("load %d: %d dropped", i, n)
		}
	}
	for _, want := range []int{2, 3} {
		if l, closed := q.take(); closed || l.items() != want {
			t.Errorf("got %v, want %d", l, want)
		}
	}
	for _, c := range []struct{ items, bytes, dropped int }{{9, 101, 0}, {8, 1000, 9}, {1, 40, 8}, {7, 101, 1}} {
		if n := q.push(parcel(c.items, c.bytes)); n != c.dropped {
			t.Errorf("load of %d bytes: %d dropped, want %d", c.bytes, n, c.dropped)
		}
	}
	if l, _ := q.take(); l == nil || l.items() != 7 {
		t.Errorf("got %v, want the load that is larger than the queue", l)
	}
	if l, closed := q.take(); l != nil || closed {
		t.Errorf("got %v, %v of an empty queue", l, closed)
	}
	q.close()
	if n := q.push(parcel(4, 1)); n != 4 {
		t.Errorf("after the end: %d dropped, want 4", n)
	}
	if _, closed := q.take(); !closed {
		t.Error("it is not closed")
	}
}
