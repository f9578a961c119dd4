package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/store"
	"ingero/internal/tick"
)

// recording is the sink that writes the database. When that fails it tells so at
// once and the trace goes on without it, and it tells when the recording goes on
// after a full disk. The nil recording is that of --record=false.
type recording struct {
	db     *store.DB
	only   *owned // nil: of all; else what others did is told without names
	failed func(line string)
	paused bool // it was told that nothing is kept
	closed error
}

// record opens the database, nil when nothing is to be recorded. failed is told,
// in words, when recording ends before the trace does.
func (e *Env) record(c *config.Config, mode, target string, failed func(string)) (*recording, error) {
	if !c.Trace.Record {
		return nil, nil
	}
	kernel := kernelRelease()
	if mode == "demo" { // for other machines to see: without what its builder calls it
		kernel, _, _ = strings.Cut(kernel, "-")
	}
	who := e.invoker()
	o := store.Options{Path: c.DB, MaxBytes: c.Trace.MaxDB, MaxAge: c.Trace.MaxAge, Session: store.Session{
		Node: c.Node, Version: e.Build.number(), Kernel: kernel, MonoOffset: monoOffset(), Mode: mode, Target: target, PID: os.Getpid(),
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
	r.tell(r.db.Batch(b))
	return nil
}

// Tick implements [tick.Sink].
func (r *recording) Tick(t *tick.Tick) error {
	if r.only != nil {
		t = r.only.tick(t)
	}
	r.tell(r.db.Tick(t))
	return nil
}

// Close implements [tick.Sink].
func (r *recording) Close() error { r.closed = r.db.Close(); return nil }

// tell says when nothing is recorded any more, for good or for now, and when it is
// again.
func (r *recording) tell(err error) {
	problem := r.db.Problem()
	switch {
	case problem != nil && !r.paused:
		r.paused = true
		r.failed("ingero: recording has stopped: " + inWords(problem).What)
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

// state is what status tells of the recording.
func (r *recording) state() (int64, error) { return r.db.Size(), r.db.Problem() }

// path returns the database's path, "" of the nil recording.
func (r *recording) path() string {
	if r == nil {
		return ""
	}
	return r.db.Path()
}

// end says where the recording is, once it is closed, and returns why it is not
// whole.
func (r *recording) end(say func(string)) error {
	if r == nil {
		return nil
	}
	if err := errors.Join(r.db.Problem(), r.closed); err != nil {
		p := inWords(err)
		return &problem{What: "the recording is incomplete: " + p.What, Do: p.Do, Err: err}
	}
	if say != nil {
		say(fmt.Sprintf("Recorded to %s (%s). To see where the time went: ingero explain", r.db.Path(), explain.Bytes(r.db.Size())))
	}
	return nil
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// monoOffset returns Unix time less CLOCK_MONOTONIC in nanoseconds, to within
// the time of a call.
func monoOffset() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Now().UnixNano() - ts.Nano()
}
