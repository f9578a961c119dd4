package otlp

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"ingero/internal/backoff"
)

// Reasons for lost items, in metrics and in status.
const (
	lostQueue       = "queue-full"  // dropped for newer items
	lostGiveUp      = "unreachable" // temporary failures for too long
	lostRoute       = "no-route"    // no route to the receiver, for too long
	lostDNS         = "dns"         // the receiver's name was not resolved, for too long
	lostTLS         = "tls"         // TLS with the receiver failed
	lostCertificate = "certificate" // a certificate was not accepted, the receiver's or ingero's
	lostRefused     = "refused"     // the receiver refused the request
	lostLarge       = "too-large"   // the receiver refused the request for its size
	lostRejected    = "rejected"    // the receiver accepted the request and rejected items
	lostEnd         = "trace-ended" // queued when the trace ended
	lostTooMany     = "too-many"    // too many failed calls or log records
)

// Times between tries: they double from the first to the longest, plus or minus a fifth.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
	giveUpAfter  = 5 * time.Minute
)

// maxSplits bounds how often a load is split, and so its requests to twice as many.
const maxSplits = 32

// Sent is the state of a signal's items: spans, data points or log records.
type Sent struct {
	Signal Signal
	To     string // the receiver, without secrets
	Items  uint64 // accepted items
	Lost   map[string]uint64
	// Problem is why items are not delivered now; empty: no problem.
	Problem string
}

// sender sends one signal's loads, from one goroutine.
type sender struct {
	*client
	queue *queue
	clock Clock
	log   *slog.Logger
	done  chan struct{}
	ctx   context.Context // ends when the time for the rest is over
	stop  context.CancelFunc
	quit  chan struct{} // closed: the rest is tried once

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

// enqueue queues a load. It does not block.
func (s *sender) enqueue(l load) { s.lose(lostQueue, s.queue.push(l)) }

func (s *sender) lose(why string, items int) {
	if items > 0 {
		s.mu.Lock()
		s.sent.Lost[why] += uint64(items)
		s.mu.Unlock()
	}
}

// state returns the items' state so far.
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

// deliver sends one load. If the receiver finds it too large, deliver sends its halves, and theirs. The
// load's problem is the last loss of any part, whatever parts were accepted after it.
func (s *sender) deliver(l load) {
	began, splits := s.clock.Now(), 0
	var lost error
	for parts := []load{l}; len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		a := s.try(part, began)
		var halves []load
		if a.large && splits < maxSplits {
			halves = part.halves()
		}
		switch {
		case len(halves) > 0:
			s.log.Debug("otlp: will split", "signal", s.signal.String(), "items", part.items(), "error", a.err)
			splits, parts = splits+1, append(halves, parts...)
		case a.large:
			s.failed(part, lostLarge, a)
			lost = a.err
		case a.retry: // gave up: the receiver is unreachable for the other parts too
			for _, other := range parts {
				s.failed(other, a.why, a)
			}
			lost, parts = a.err, nil
		case a.err != nil:
			lost = a.err
		}
	}
	switch {
	case lost != nil:
		s.trouble(lost) // a retry may have replaced it
	case s.ctx.Err() == nil:
		s.recovered()
	}
}

// try sends one load, with retries until giveUpAfter after began. Its answer has an error if items were
// lost, or if the load is too large: that is not counted. The answer has retry set if try gave up.
func (s *sender) try(l load, began time.Time) answer {
	if s.ctx.Err() != nil {
		s.lose(lostEnd, l.items())
		return answer{}
	}
	body, err := s.encode(l.message())
	if err != nil {
		a := answer{err: err}
		s.failed(l, lostRefused, a)
		return a
	}
	delays := backoff.Delays{First: firstPause, Most: longestPause}
	for {
		at := s.clock.Now()
		a := s.send(s.ctx, body)
		if a.err == nil {
			a.err = s.delivered(l, a, len(body), s.clock.Now().Sub(at))
			return a
		}
		left := giveUpAfter - s.clock.Now().Sub(began)
		switch wait := max(delays.Next(), min(a.after, left)); { // after a longer Retry-After, one last try
		case a.large:
			return a
		case !a.retry:
			s.failed(l, cmp.Or(a.why, lostRefused), a)
			return a
		case s.ending():
			s.failed(l, lostEnd, a)
			a.retry = false
			return a
		case wait > left:
			a.why = cmp.Or(a.why, lostGiveUp)
			s.failed(l, a.why, a)
			return a
		default:
			s.trouble(a.err)
			s.log.Debug("otlp: will retry", "signal", s.signal.String(), "in", wait, "error", a.err)
			select {
			case <-s.clock.After(wait):
			case <-s.quit:
			}
		}
	}
}

// ending reports whether there is no time for a retry.
func (s *sender) ending() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

// delivered counts the items of an accepted request. It returns an error if the receiver rejected some.
func (s *sender) delivered(l load, a answer, size int, took time.Duration) error {
	rejected := min(int(a.rejected), l.items())
	s.mu.Lock()
	s.sent.Items += uint64(l.items() - rejected)
	s.mu.Unlock()
	s.log.Debug("otlp: sent", "signal", s.signal.String(), "items", l.items(), "bytes", size, "took", took)
	if rejected > 0 {
		err := partial{rejected, a.message}
		s.trouble(err)
		s.lose(lostRejected, rejected)
		return err
	}
	if a.message != "" {
		s.log.Debug("otlp: message from the receiver", "signal", s.signal.String(), "text", a.message)
	}
	return nil
}

func (s *sender) failed(l load, why string, a answer) {
	s.trouble(a.err)
	s.lose(why, l.items())
	s.log.Debug("otlp: not delivered", "signal", s.signal.String(), "items", l.items(), "why", why, "error", a.err)
}

// recovered clears the problem, after a load without losses.
func (s *sender) recovered() {
	s.mu.Lock()
	was := s.sent.Problem
	s.sent.Problem = ""
	s.mu.Unlock()
	if was != "" {
		s.log.Info("otlp: delivered again", "signal", s.signal.String())
	}
}

// trouble records an error, and logs it if it is new.
func (s *sender) trouble(err error) {
	text := err.Error()
	s.mu.Lock()
	was := s.sent.Problem
	s.sent.Problem = text
	s.mu.Unlock()
	if was == "" {
		s.log.Warn("otlp: "+s.signal.String()+" cannot be delivered", "to", s.sent.To, "error", text)
	}
}

// partial is a partial success.
type partial struct {
	rejected int
	message  string
}

func (p partial) Error() string {
	if p.message == "" {
		return "the receiver rejected some items"
	}
	return "the receiver rejected some items: " + p.message
}

// end marks the end: the rest is tried once.
func (s *sender) end() {
	s.queue.close()
	close(s.quit)
}

// finish waits until the rest was tried, or limit is closed.
func (s *sender) finish(limit <-chan struct{}) {
	select {
	case <-s.done:
	case <-limit:
	}
	s.stop()
	<-s.done
}
