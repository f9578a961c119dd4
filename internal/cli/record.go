package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/proc"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// recording is the sink that writes the database. If recording fails, it reports that at once
// and the trace continues. It also reports when recording resumes after a full disk. With
// --record=false, the recording is nil.
type recording struct {
	db     *store.DB
	only   *ownProcesses // processes that the recording may name; nil: all
	failed func(line string)
	paused bool // reported that recording has stopped
	closed error
}

// record opens the database for a trace, by the trace's clock. It returns nil if recording is disabled. It
// calls failed with a message when recording stops before the trace ends.
func (e *Env) record(t *tracing, c *config.Config, mode, target string, failed func(string)) (*recording, error) {
	if !c.Trace.Record {
		return nil, nil
	}
	kernel := proc.KernelRelease()
	if mode == "demo" { // demo recordings are published: drop the suffix of the build
		kernel, _, _ = strings.Cut(kernel, "-")
	}
	who := e.invoker()
	now, offset := t.source.Clock()
	o := store.Options{Path: c.DB, MaxBytes: c.Trace.MaxDB, MaxAge: c.Trace.MaxAge, Now: now, Session: segment.Session{
		Node: c.Node, Version: e.Build.number(), Kernel: kernel, MonoOffset: offset, Mode: mode, Target: target, PID: os.Getpid(),
	}}
	if who.Sudo {
		o.Owner = &store.Owner{UID: who.UID, GID: who.GID}
	}
	db, err := store.Open(o)
	if err != nil {
		return nil, err
	}
	return &recording{db: db, failed: failed}, nil
}

// Batch implements [tick.Sink].
func (r *recording) Batch(b *tick.Batch) error {
	if r.only != nil {
		b = r.only.batch(b)
	}
	r.reportPause(r.db.Batch(b))
	return nil
}

// Tick implements [tick.Sink].
func (r *recording) Tick(t *tick.Tick) error {
	if r.only != nil {
		t = r.only.tick(t)
	}
	r.reportPause(r.db.Tick(t))
	return nil
}

// Close implements [tick.Sink].
func (r *recording) Close() error { r.closed = r.db.Close(); return nil }

// reportPause reports when recording stops, for good or until there is room, and when it resumes.
func (r *recording) reportPause(err error) {
	problem := r.db.Problem()
	switch {
	case problem != nil && !r.paused:
		r.paused = true
		r.failed("ingero: recording has stopped: " + problemOf(problem).What)
		if err == nil {
			r.failed("        the trace continues; recording resumes when there is room")
		} else {
			r.failed("        the trace continues; the recording is kept")
		}
	case problem == nil && r.paused:
		r.paused = false
		r.failed("ingero: recording has resumed")
	}
}

// state returns the recording's state for ingero status.
func (r *recording) state() (int64, error) { return r.db.Size(), r.db.Problem() }

// path returns the database's path, "" for a nil recording.
func (r *recording) path() string {
	if r == nil {
		return ""
	}
	return r.db.Path()
}

// end prints where the closed recording is. It returns an error if the recording is incomplete.
func (r *recording) end(say func(string)) error {
	if r == nil {
		return nil
	}
	if err := errors.Join(r.db.Problem(), r.closed); err != nil {
		p := problemOf(err)
		return &problem{What: "the recording is incomplete: " + p.What, Do: p.Do, Err: err}
	}
	if say != nil {
		say(fmt.Sprintf("Recorded to %s (%s). To see where the time went: ingero explain", r.db.Path(), explain.Bytes(r.db.Size())))
	}
	return nil
}
