package otlp

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Why something was not delivered. The reasons are in metrics and in what status says.
const (
	lostQueue    = "queue-full"  // it waited, and newer came
	lostGiveUp   = "unreachable" // the receiver could not take it for too long
	lostRefused  = "refused"     // the receiver did not want it
	lostRejected = "rejected"    // the receiver took the request and threw it away
	lostEnd      = "trace-ended" // it waited when the trace ended
	lostTooMany  = "too-many"    // more calls failed than become spans, or more was to be logged
)

// Times between tries: they double from the first to the longest, give or take a fifth.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
	giveUpAfter  = 5 * time.Minute
	longestWait  = 5 * time.Minute // that a receiver may ask for
)

// Sent is what became of a signal's items: spans, data points or log records.
type Sent struct {
	Signal Signal
	To     string // the receiver, without what may be secret
	Items  uint64 // that were accepted
	Lost   map[string]uint64
	// Problem is why nothing is delivered now, in words; empty: it is, or nothing was to be.
	Problem string
}

// sender sends the loads of one signal, from one goroutine.
type sender struct {
	*client
	queue *queue
	clock Clock
	log   *slog.Logger
	done  chan struct{}
	ctx   context.Context // ends when what is left has had its time
	stop  context.CancelFunc
	quit  chan struct{} // closed: what is left is tried once

	mu   sync.Mutex
	sent Sent
}

func newSender(t Target, sig Signal, o *Options) *sender {
	s := &sender{client: newClient(t, sig, o.Version, o.Clock.Now), queue: newQueue(o.QueueBytes), clock: o.Clock, log: o.Log,
		done: make(chan struct{}), quit: make(chan struct{})}
	s.sent = Sent{Signal: sig, To: t.URL.Scheme + "://" + t.URL.Host, Lost: map[string]uint64{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	go s.run()
	return s
}

// put hands a load over. It does not wait.
func (s *sender) put(l load) { s.lose(lostQueue, s.queue.put(l)) }

func (s *sender) lose(why string, items int) {
	if items > 0 {
		s.mu.Lock()
		s.sent.Lost[why] += uint64(items)
		s.mu.Unlock()
	}
}

// state returns what became of the items so far.
func (s *sender) state() Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.sent
	out.Lost = make(map[string]uint64, len(s.sent.Lost))
	for why, n := range s.sent.Lost {
		out.Lost[why] = n
	}
	return out
}

// run sends until the queue is closed and empty, or its time is over.
func (s *sender) run() {
	defer close(s.done)
	defer s.client.close()
	for {
		l, closed := s.queue.take()
		switch {
		case l != nil:
			s.deliver(l)
		case closed:
			return
		default:
			<-s.queue.came
		}
	}
}

// deliver sends one load, and tries again while that may help.
func (s *sender) deliver(l load) {
	if s.ctx.Err() != nil {
		s.lose(lostEnd, l.items())
		return
	}
	body, err := s.encode(l.message())
	if err != nil {
		s.failed(l, lostRefused, answer{err: err})
		return
	}
	began, pause := s.clock.Now(), firstPause
	for {
		at := s.clock.Now()
		a := s.send(s.ctx, body)
		if a.err == nil {
			s.delivered(l, a, len(body), s.clock.Now().Sub(at))
			return
		}
		switch wait := max(jitter(pause), min(a.after, longestWait)); {
		case !a.retry:
			s.failed(l, lostRefused, a)
			return
		case s.ending():
			s.failed(l, lostEnd, a)
			return
		case s.clock.Now().Sub(began)+wait > giveUpAfter:
			s.failed(l, lostGiveUp, a)
			return
		default:
			s.trouble(a.err)
			s.log.Debug("otlp: will try again", "signal", s.signal.String(), "in", wait, "error", a.err)
			select {
			case <-s.clock.After(wait):
			case <-s.quit:
			}
		}
		pause = min(2*pause, longestPause)
	}
}

// ending tells whether there is no time to try again.
func (s *sender) ending() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

func (s *sender) delivered(l load, a answer, size int, took time.Duration) {
	rejected := min(int(a.rejected), l.items())
	s.lose(lostRejected, rejected)
	s.mu.Lock()
	s.sent.Items += uint64(l.items() - rejected)
	was := s.sent.Problem
	if rejected == 0 {
		s.sent.Problem = ""
	}
	s.mu.Unlock()
	s.log.Debug("otlp: sent", "signal", s.signal.String(), "items", l.items(), "bytes", size, "took", took)
	switch {
	case rejected > 0:
		s.trouble(partial{rejected, a.told})
	case a.told != "":
		s.log.Debug("otlp: the receiver says", "signal", s.signal.String(), "text", a.told)
	case was != "":
		s.log.Info("otlp: delivered again", "signal", s.signal.String())
	}
}

func (s *sender) failed(l load, why string, a answer) {
	s.lose(why, l.items())
	s.trouble(a.err)
	s.log.Debug("otlp: not delivered", "signal", s.signal.String(), "items", l.items(), "why", why, "error", a.err)
}

// trouble notes what goes wrong, and says it when it is new.
func (s *sender) trouble(err error) {
	text := err.Error()
	s.mu.Lock()
	was := s.sent.Problem
	s.sent.Problem = text
	s.mu.Unlock()
	if was == "" {
		s.log.Warn("otlp: "+s.signal.String()+" are not delivered", "to", s.sent.To, "error", text)
	}
}

// partial is a partial success.
type partial struct {
	rejected int
	told     string
}

func (p partial) Error() string {
	if p.told == "" {
		return "the receiver rejected a part"
	}
	return "the receiver rejected a part: " + p.told
}

// jitter spreads senders that began together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// end says that nothing more comes: what is left is tried once.
func (s *sender) end() {
	s.queue.close()
	close(s.quit)
}

// finish waits until what is left was tried, or limit is closed.
func (s *sender) finish(limit <-chan struct{}) {
	select {
	case <-s.done:
	case <-limit:
	}
	s.stop()
	<-s.done
}
