package store

import (
	"io"
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
)

// replayBatch bounds the calls of one poll, and the waits.
const replayBatch = 8192

// ReplayOptions say how fast to play. The zero value is as fast as the log can
// be read, in recorded time: a session whose clock is the replay ticks as often
// as it would have, and the result is the same each time.
type ReplayOptions struct {
	// Speed is how much faster than it was recorded, 1 for as it was; 0 waits
	// for nothing.
	Speed float64
	// Now and After are the clock to keep to where Speed is not 0; nil is the
	// machine's.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Replay is a source of a session: it delivers what a log holds when it is due.
// It is also the clock to run that session by: its time is that of the
// recording. It is for one goroutine.
type Replay struct {
	ReplayOptions
	log     *Log
	began   time.Time // on Now's clock
	at      time.Time // of the recording; Speed 0
	entry   Entry     // read, not yet delivered in full
	held    bool
	calls   int // delivered of entry
	waits   int
	lives   int
	stopped bool
	over    error // io.EOF or what went wrong

	ops    map[opKey]*tick.Op
	procs  map[uint32]int
	others map[uint32]int
	libs   map[libKey]int
	ended  []tick.Thread  // and in no tick yet
	host   []tick.HostSum // in no tick yet
	gpu    gpuReplay
	last   tick.Tick // Processes, Threads, Libraries, Reports, Drops, Host and Self as of now
}

// NewReplay plays log from where it stands. A log that was cut off ends there.
func NewReplay(log *Log, o ReplayOptions) *Replay {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	return &Replay{ReplayOptions: o, log: log, began: o.Now(), at: log.session.Started,
		ops: map[opKey]*tick.Op{}, procs: map[uint32]int{}, others: map[uint32]int{}, libs: map[libKey]int{}}
}

// Now returns the time of the recording at which the replay is.
func (r *Replay) Now() time.Time {
	if r.Speed == 0 {
		return r.at
	}
	return r.log.session.Started.Add(time.Duration(float64(r.ReplayOptions.Now().Sub(r.began)) * r.Speed))
}

// After delivers once, when d has passed in the recording: with Speed 0 at
// once, and then that much has passed.
func (r *Replay) After(d time.Duration) <-chan time.Time {
	if r.Speed != 0 {
		return r.ReplayOptions.After(time.Duration(float64(d) / r.Speed))
	}
	r.at = r.at.Add(d)
	c := make(chan time.Time, 1)
	c <- r.at
	return c
}

// Poll appends what is due to b. more says that it stopped for want of room.
// At the end of the log it returns [io.EOF].
func (r *Replay) Poll(b *tick.Batch) (more bool, err error) {
	if r.stopped {
		return false, io.EOF
	}
	now := r.Now().UnixNano()
	for r.next() {
		if due, full := r.records(b, now); !due || full {
			return full, nil
		}
		for ; r.lives < len(r.entry.Lives); r.lives++ {
			e := r.entry.Lives[r.lives]
			if e.Time > now {
				return false, nil
			}
			b.Procs = append(b.Procs, e)
		}
		if t := r.entry.Tick; t != nil && t.Time.UnixNano() > now {
			return false, nil
		}
		r.take(b)
		r.held = false
	}
	return false, r.over
}

// records appends the waits and calls of the entry that are due, in the order in
// which they came: so a wait is never behind the call that it was in. due says
// that all were, full that there was no room for one that is.
func (r *Replay) records(b *tick.Batch, now int64) (due, full bool) {
	e := &r.entry
	for r.calls < len(e.Calls) || r.waits < len(e.Waits) {
		if r.waits < len(e.Waits) && (e.After[r.waits] <= r.calls || r.calls == len(e.Calls)) {
			w := &e.Waits[r.waits]
			switch {
			case w.End() > now:
				return false, false
			case len(b.Waits) >= replayBatch:
				return true, true
			}
			b.Waits = append(b.Waits, *w)
			r.waits++
			continue
		}
		c := &e.Calls[r.calls]
		switch {
		case c.End() > now:
			return false, false
		case len(b.Calls) >= replayBatch:
			return true, true
		}
		b.Calls = append(b.Calls, *c)
		r.calls++
	}
	return true, false
}

// next sees to it that there is an entry to deliver.
func (r *Replay) next() bool {
	if r.held {
		return true
	}
	if r.over != nil {
		return false
	}
	if err := r.log.Next(&r.entry); err != nil {
		r.over = err
		return false
	}
	r.held, r.calls, r.waits, r.lives = true, 0, 0, 0
	return true
}

// take makes an entry part of the totals. Threads that have ended come with the
// tick that tells so, which is behind all that they did.
func (r *Replay) take(b *tick.Batch) {
	e, t := &r.entry, &r.last
	switch {
	case e.Tick != nil:
		t.Drops, t.Host, t.Self = e.Tick.Drops, e.Tick.Host, e.Tick.Self
		r.host = append(r.host, e.Tick.HostSums...)
		t.Threads = t.Threads[:0]
		for _, th := range e.Tick.Threads {
			if th.Ended { // the log tells it once, and so must a tick
				r.ended, b.Ended = append(r.ended, th), append(b.Ended, th)
			} else {
				t.Threads = append(t.Threads, th)
			}
		}
		for i := range e.Tick.Ops {
			from := &e.Tick.Ops[i]
			k := opKey{from.PID, from.Op}
			to := r.ops[k]
			if to == nil {
				to = &tick.Op{PID: from.PID, Op: from.Op, Hist: &stats.Hist{}}
				r.ops[k] = to
			}
			to.Sum, to.Thinned = from.Sum, from.Thinned
			*to.Hist = *from.Hist
		}
	case e.Functions != nil:
		b.Functions = append(b.Functions, e.Functions...)
	case e.Stacks != nil:
		b.Stacks = append(b.Stacks, e.Stacks...)
	case e.Process != nil:
		t.Processes = replace(t.Processes, r.procs, e.Process)
	case e.Other != nil:
		t.Others = replace(t.Others, r.others, e.Other)
	case e.Library != nil:
		k := libKey{e.Library.Path, e.Library.BuildID}
		if i, ok := r.libs[k]; ok {
			t.Libraries[i] = *e.Library
			return
		}
		r.libs[k] = len(t.Libraries)
		t.Libraries = append(t.Libraries, *e.Library)
	case e.Report != nil:
		t.Reports = append(t.Reports, *e.Report)
	default:
		r.gpu.take(e)
	}
}

// replace puts a process in the place that at has for its number, or a new one.
func replace(all []tick.Process, at map[uint32]int, p *tick.Process) []tick.Process {
	if i, ok := at[p.PID]; ok {
		all[i] = *p
		return all
	}
	at[p.PID] = len(all)
	return append(all, *p)
}

// Totals fills Ops, Processes, Threads, Libraries, Reports, Drops and the Host and
// Self that were recorded, as of what Poll has delivered. A thread that has ended
// is in one answer.
func (r *Replay) Totals(t *tick.Tick) error {
	for _, o := range r.ops {
		hist := *o.Hist
		t.Ops = append(t.Ops, tick.Op{PID: o.PID, Op: o.Op, Sum: o.Sum, Hist: &hist, Thinned: o.Thinned})
	}
	t.Processes = append(t.Processes, r.last.Processes...)
	t.Others = append(t.Others, r.last.Others...)
	t.Threads = append(append(t.Threads, r.last.Threads...), r.ended...)
	r.ended = r.ended[:0]
	slices.SortFunc(t.Threads, tick.ByThread)
	t.Libraries = append(t.Libraries, r.last.Libraries...)
	t.Reports = append(t.Reports, r.last.Reports...)
	t.Drops = append(t.Drops, r.last.Drops...)
	t.Host, t.Self = r.last.Host, r.last.Self
	t.HostSums, r.host = append(t.HostSums, r.host...), nil
	r.gpu.totals(t)
	return nil
}

// AgentPID returns the process that recorded.
func (r *Replay) AgentPID() uint32 { return uint32(r.log.Session().PID) }

// Recorded says that Host and Self are another time's, and maybe machine's.
func (r *Replay) Recorded() {}

// Stop ends the replay where it is.
func (r *Replay) Stop() error {
	r.stopped = true
	return nil
}

// Close stops the replay. The file below the log is its owner's.
func (r *Replay) Close() error { return r.Stop() }
