package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"ingero/internal/guard"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// updatesPath is the path of the event stream.
const updatesPath = "/api/v1/updates"

// Limits of listening.
const (
	mostListeners = 32
	mostUnsent    = 64 // messages to a client that does not read; beyond that it must start over
	lookEvery     = time.Second
	beatEvery     = 15 * time.Second
	sendTime      = 10 * time.Second // for one message
	quietTime     = 30 * time.Second // a cause without additions for this long has ended
)

// message is an event of the stream.
type message struct {
	event string
	data  []byte // JSON
}

// updates tells clients what is new in the database. One goroutine polls while clients listen; it
// uses no question's slot.
type updates struct {
	s     *server
	every time.Duration // lookEvery, except in tests

	mu        sync.Mutex
	listeners map[chan message]bool
	stop      context.CancelFunc // nil: not polling
	begun     chan struct{}      // closed after the first poll
	running   sync.WaitGroup
}

// serve streams to one client until it disconnects, or the server ends.
func (u *updates) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		guard.Refuse(w, http.StatusMethodNotAllowed, updatesPath+" supports only GET", "")
		return
	}
	if r.URL.RawQuery != "" {
		guard.Refuse(w, http.StatusBadRequest, updatesPath+" has no parameters", "")
		return
	}
	in, begun, ok := u.join()
	if !ok {
		guard.Refuse(w, http.StatusServiceUnavailable, "too many clients listen to updates", "poll /api/v1/overview instead")
		return
	}
	defer u.leave(in)
	out := stream{w: w, c: http.NewResponseController(w)}
	_ = out.c.SetReadDeadline(time.Time{}) // one request, then a long stream
	w.Header().Set("Content-Type", "text/event-stream")
	select {
	case <-begun: // anything written after the hello is news
	case <-u.s.Done:
	case <-r.Context().Done():
		return
	}
	hello := u.state()
	hello.Node, hello.Version = u.s.Node, u.s.Version
	if !out.send(messageOf("hello", hello)) {
		return
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case m := <-in:
			if !out.send(m) {
				return
			}
		case <-beat.C:
			if !out.write(": still here\n\n") {
				return
			}
		case <-u.s.Done:
			out.send(message{"end", []byte("{}")})
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream writes events.
type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (s *stream) send(m message) bool {
	return s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", m.event, m.data))
}

// write reports whether the client accepted the text.
func (s *stream) write(text string) bool {
	_ = s.c.SetWriteDeadline(time.Now().Add(sendTime)) // supported by every connection
	if _, err := s.w.Write([]byte(text)); err != nil {
		return false
	}
	return s.c.Flush() == nil
}

func messageOf(event string, v any) message {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("{}") // texts and numbers: cannot happen
	}
	return message{event, b}
}

// join adds a listener, unless there are too many. begun is closed once the existing state is
// known.
func (u *updates) join() (in chan message, begun <-chan struct{}, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.listeners) >= mostListeners {
		return nil, nil, false
	}
	in = make(chan message, mostUnsent)
	if u.listeners == nil {
		u.listeners = map[chan message]bool{}
	}
	u.listeners[in] = true
	if u.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		u.stop = stop
		begun := make(chan struct{})
		u.begun = begun
		u.running.Go(func() { u.look(ctx, begun) })
	}
	return in, u.begun, true
}

// leave removes a listener; the last one ends the polling.
func (u *updates) leave(in chan message) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.listeners, in)
	if len(u.listeners) == 0 && u.stop != nil {
		u.stop()
		u.stop = nil
	}
}

// end waits for the polling goroutine, once nobody listens.
func (u *updates) end() { u.running.Wait() }

// broadcast sends a message to all. A client with too many unread messages misses it; later
// messages supersede it.
func (u *updates) broadcast(m message) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for in := range u.listeners {
		select {
		case in <- m:
		default:
		}
	}
}

// state returns how far the database goes now, zero if there is none.
func (u *updates) state() (d wire.Progress) {
	_ = u.read(context.Background(), func(ctx context.Context, db *query.Reader) error {
		s, err := db.Session(ctx, "")
		if err == nil {
			d = dataOf(&s)
		}
		return err
	})
	return d
}

func dataOf(x *query.Session) wire.Progress {
	return wire.Progress{Recording: x.State == "running", Session: x.ID, To: wire.Millis(x.Updated.UnixNano()), Records: x.Records}
}

// read opens the database for one poll.
func (u *updates) read(ctx context.Context, look func(context.Context, *query.Reader) error) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	db, release, err := u.s.open.reader()
	if err != nil {
		return err
	}
	defer release()
	return look(ctx, db)
}

// look polls for news until the context ends, and closes begun after the first poll.
func (u *updates) look(ctx context.Context, begun chan<- struct{}) {
	w := watched{}
	every := time.NewTicker(u.every)
	defer every.Stop()
	for first := true; ; first = false {
		var err error
		if at := u.stamp(); at != w.at || w.data.Recording { // somebody has written, or a killed recorder no longer does
			err = u.read(ctx, func(ctx context.Context, db *query.Reader) error { return u.news(ctx, db, &w) })
			if err == nil {
				w.at = at
			} else if ctx.Err() == nil {
				u.s.Log.Debug("updates: the database cannot be read", "error", err)
			}
		}
		// From now on everything new is reported. If the database cannot be read, its state is
		// still unknown.
		w.begun = w.begun || err == nil || errors.Is(err, query.ErrNoDatabase) || errors.Is(err, query.ErrNoSession)
		if first {
			close(begun)
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// stamp changes when the database is written to, and also when a writer has ended.
func (u *updates) stamp() (at stamp) {
	path := u.s.Path()
	for i, suffix := range [...]string{"", "-wal"} {
		if s, err := os.Stat(path + suffix); err == nil {
			at[i] = fileStamp{s.Size(), s.ModTime()}
		}
	}
	return at
}

type stamp [2]fileStamp

type fileStamp struct {
	bytes int64
	time  time.Time
}

// watched is what was reported.
type watched struct {
	at     stamp
	begun  bool // new data is reported
	data   wire.Progress
	to     time.Time // of data
	chains map[string]seenChain
}

type seenChain struct {
	to    int64
	lost  time.Duration
	ended bool
}

// news reports what has changed since the last poll; the first poll only records it.
func (u *updates) news(ctx context.Context, db *query.Reader, w *watched) error {
	s, err := db.Session(ctx, "")
	if err != nil {
		return err
	}
	d := dataOf(&s)
	f := query.Filter{Session: s.ID}
	if w.begun && d.Session == w.data.Session { // earlier chains no longer change
		f.From = w.to.Add(-tick.ChainStays)
	}
	chains, err := db.Chains(ctx, f)
	if err != nil {
		return err
	}
	changed := w.begun && d != w.data
	if d.Session != w.data.Session {
		w.chains = map[string]seenChain{}
	}
	w.data, w.to = d, s.Updated
	comms := map[uint32]string{}
	for i := range chains {
		c := &chains[i]
		was, known := w.chains[c.ID]
		now := seenChain{c.To.UnixNano(), c.Lost, c.Severity == 0 || !d.Recording || s.Updated.Sub(c.To) > quietTime}
		w.chains[c.ID] = now
		if !w.begun || known && now == was {
			continue
		}
		if len(comms) == 0 {
			all, err := db.Processes(ctx, s.ID)
			if err != nil {
				return err
			}
			for j := range all {
				comms[all[j].PID] = all[j].Comm
			}
		}
		change := "changed"
		switch {
		case !known:
			change = "appeared"
		case now.ended && !was.ended:
			change = "ended"
		}
		u.broadcast(messageOf("chain", changeOf(c, change, comms[c.PID])))
	}
	if changed {
		u.broadcast(messageOf("data", d))
	}
	return nil
}

func changeOf(c *tick.Chain, change, comm string) wire.ChainChange {
	return wire.ChainChange{ID: c.ID, Change: change, Severity: c.Severity.String(), Rule: c.Rule, PID: c.PID, Comm: comm, Op: c.Op.String(), LostNS: int64(c.Lost),
		From: wire.Millis(c.From.UnixNano()), To: wire.Millis(c.To.UnixNano())}
}
