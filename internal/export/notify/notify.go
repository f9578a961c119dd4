package notify

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"ingero/internal/tick"
)

// Options configure the receiver and the sender. Zero fields get Defaults.
type Options struct {
	URL    string // http or https
	Secret string // signs messages: whsec_ and base64, or any text; empty: unsigned
	// Body returns a message's JSON, from times by the wall clock. Tick's goroutine calls it, and it must
	// keep nothing.
	Body   func(*tick.Episode, *tick.Tick) ([]byte, error)
	Client *http.Client // nil: a new one
	Log    *slog.Logger // nil: none

	Queue   int           // maximum queued messages
	Bytes   int           // maximum bytes in the queue
	Repeat  time.Duration // period in which a cause is reported again only if more severe
	Backoff time.Duration // before the second try; it doubles with each
	Most    time.Duration // maximum time between two tries
	Age     time.Duration // age at which a message is dropped
	Timeout time.Duration // of one try
	Grace   time.Duration // how long Close waits for the rest
}

// Defaults replace the zero fields of [Options].
var Defaults = Options{Queue: 256, Bytes: 4 << 20, Repeat: 10 * time.Minute, Backoff: time.Second, Most: 5 * time.Minute, Age: time.Hour,
	Timeout: 10 * time.Second, Grace: 5 * time.Second}

// State is the progress of sending.
type State struct {
	To      string            // scheme and host
	Sent    uint64            // accepted messages
	Waiting int               // in the queue
	Lost    map[string]uint64 // undelivered messages, by reason
	Repeats uint64            // recurring causes that were not reported
	Problem string            // of the last try; empty: none
}

// Sink is a [tick.Sink] that reports episodes.
type Sink struct {
	tick.TicksOnly
	o      Options
	key    []byte
	to     string
	stop   context.CancelFunc // drops the rest
	done   chan struct{}
	came   chan struct{} // has a value when the queue changed
	quit   chan struct{} // closed: the rest is tried at once
	closed sync.Once

	mu       sync.Mutex
	queue    []*message
	bytes    int
	ending   bool
	state    State
	episodes map[string]*reported
	chains   map[string]*reported // by chain id
}

// reported is what was reported of an episode or a chain.
type reported struct {
	at       time.Time
	severity tick.Severity
	mute     bool // the episode repeats a recently reported chain
}

// message is a queued message.
type message struct {
	id      string // the same in all tries
	episode string
	kind    tick.EpisodeKind
	made    time.Time
	body    []byte
}

// maxReported bounds the remembered episodes and chains.
const maxReported = 4096

// New checks the options and starts the sender, which Close ends. It opens no connection.
func New(o Options) (*Sink, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil: // the error contains the address, which may be secret
		return nil, errors.New("the URL of the webhook is invalid")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the URL of the webhook must begin with https:// or http:// and have a host")
	}
	fill(&o)
	s := &Sink{o: o, to: u.Scheme + "://" + u.Host, done: make(chan struct{}), came: make(chan struct{}, 1), quit: make(chan struct{}),
		episodes: map[string]*reported{}, chains: map[string]*reported{}}
	if s.key, err = key(o.Secret); err != nil {
		return nil, err
	}
	s.state = State{To: s.to, Lost: map[string]uint64{}}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.run(ctx)
	return s, nil
}

func fill(o *Options) {
	for _, n := range []struct{ to, from *time.Duration }{
		{&o.Repeat, &Defaults.Repeat}, {&o.Backoff, &Defaults.Backoff}, {&o.Most, &Defaults.Most}, {&o.Age, &Defaults.Age},
		{&o.Timeout, &Defaults.Timeout}, {&o.Grace, &Defaults.Grace}} {
		if *n.to == 0 {
			*n.to = *n.from
		}
	}
	if o.Queue == 0 {
		o.Queue = Defaults.Queue
	}
	if o.Bytes == 0 {
		o.Bytes = Defaults.Bytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConns, t.MaxConnsPerHost = 1, 1
		t.ForceAttemptHTTP2, t.TLSClientConfig = false, nil // a request that fails closes its connection; HTTP/2 would keep it
		o.Client = &http.Client{Transport: t}
	}
	client := *o.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.Client = &client
}

// key returns the signing key.
func key(secret string) ([]byte, error) {
	if rest, ok := strings.CutPrefix(secret, "whsec_"); ok {
		b, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return nil, errors.New("the secret of the webhook begins with whsec_ but is not base64")
		}
		return b, nil
	}
	return []byte(secret), nil
}

// String returns the receiver, and whether messages are unencrypted.
func (s *Sink) String() string {
	if strings.HasPrefix(s.to, "http:") {
		return s.to + " (not encrypted)"
	}
	return s.to
}

// Tick implements [tick.Sink].
func (s *Sink) Tick(t *tick.Tick) error {
	wall := t.Wall()
	for i := range t.Episodes {
		e := &t.Episodes[i]
		if !s.wanted(e, t.Time) {
			continue
		}
		body, err := s.o.Body(&wall.Episodes[i], wall)
		if err != nil {
			return fmt.Errorf("encode a message for the webhook: %w", err)
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d %s %d", t.Started.UnixNano(), e.ID, e.Kind, e.Why, t.Seq))
		s.enqueue(&message{id: "msg_" + hex.EncodeToString(sum[:12]), episode: e.ID, kind: e.Kind, made: time.Now(), body: body})
	}
	return nil
}

// wanted reports whether an episode event must be reported.
func (s *Sink) wanted(e *tick.Episode, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Hidden {
		return false
	}
	before := s.chains[e.Chain.ID]
	recent := before != nil && now.Sub(before.at) < s.o.Repeat
	x := s.episodes[e.ID]
	if x == nil {
		if e.Kind != tick.EpisodeBegin && e.Kind != tick.EpisodeUpdate { // it was hidden until now
			return false
		}
		x = &reported{severity: e.Severity}
		x.mute = recent && e.Severity <= before.severity
		forget(s.episodes, s.o.Repeat, now)
		forget(s.chains, s.o.Repeat, now)
		s.episodes[e.ID] = x
		if x.mute {
			s.state.Repeats++
		} else {
			s.chains[e.Chain.ID] = &reported{at: now, severity: e.Severity}
		}
		x.at = now
		return !x.mute
	}
	x.at = now
	switch {
	case e.Kind == tick.EpisodeEnd || e.Kind == tick.EpisodeRevised:
		delete(s.episodes, e.ID)
		return !x.mute
	case e.Severity > x.severity, x.mute && !recent:
		x.severity, x.mute = e.Severity, false
		s.chains[e.Chain.ID] = &reported{at: now, severity: e.Severity}
		return true
	}
	return !x.mute && e.Why == tick.ReasonCulprit
}

// forget makes room: it removes old entries, and all if that is not enough.
func forget(m map[string]*reported, age time.Duration, now time.Time) {
	if len(m) < maxReported {
		return
	}
	for k, x := range m {
		if now.Sub(x.at) > age {
			delete(m, k)
		}
	}
	if len(m) >= maxReported {
		clear(m)
	}
}

// enqueue queues a message. A later update replaces a queued one.
func (s *Sink) enqueue(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || len(m.body) > s.o.Bytes {
		s.state.Lost["queue-full"]++
		return
	}
	for i, old := range s.queue {
		if i > 0 && old.episode == m.episode && old.kind == tick.EpisodeUpdate && m.kind != tick.EpisodeBegin {
			s.drop(i) // the first may be in transit
			break
		}
	}
	for len(s.queue) >= s.o.Queue || s.bytes+len(m.body) > s.o.Bytes {
		s.drop(0)
		s.state.Lost["queue-full"]++
	}
	s.queue, s.bytes = append(s.queue, m), s.bytes+len(m.body)
	select {
	case s.came <- struct{}{}:
	default:
	}
}

// drop removes a message from the queue. The caller must hold mu.
func (s *Sink) drop(i int) {
	s.bytes -= len(s.queue[i].body)
	s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
}

// State returns the progress. It is safe for concurrent use.
func (s *Sink) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.state
	x.Waiting, x.Lost = len(s.queue), map[string]uint64{}
	for why, n := range s.state.Lost {
		x.Lost[why] = n
	}
	return x
}

// Close tries the rest at once, also a message that waits for a retry, for at most Grace. It drops and
// counts what remains, and ends the sender.
func (s *Sink) Close() error {
	s.closed.Do(func() {
		s.mu.Lock()
		s.ending = true
		s.mu.Unlock()
		close(s.quit)
		late := time.NewTimer(s.o.Grace)
		defer late.Stop()
		select {
		case <-s.done:
		case <-late.C:
		}
		s.stop()
		<-s.done
		s.o.Client.CloseIdleConnections()
	})
	return nil
}
