package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"ingero/internal/explain"
	"ingero/internal/lock"
	"ingero/internal/proc"
	"ingero/internal/service"
	"ingero/internal/session"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// tracing is a live trace of this machine, for any command.
type tracing struct {
	log     *slog.Logger
	lock    *lock.Lock
	source  *session.Live
	quiet   session.Deadband
	hidden  *chainFilter         // nil: nothing is hidden
	rec     *recording           // nil: not recorded
	manager service.Manager      // service manager that started this process
	exports func() []wire.Export // states of the exports; nil: no exports
	alive   func()               // called while the trace waits for an output; nil: not called
	forced  []int                // steps of govern.Steps that are always shed
}

// open takes the lock and attaches the probes. Once it returns, no call of the processes is
// missed. The caller must call run or close.
func (e *Env) open(ctx context.Context, db string, o session.LiveOptions) (*tracing, error) {
	// Check this before the lock, which would mistake this process for another in a PID namespace.
	if host, err := (proc.FS{}).HostPIDs(); err == nil && !host {
		return nil, session.ErrPIDNamespace
	}
	t := &tracing{log: o.Log, forced: e.forced}
	var err error
	t.lock, err = e.Lock.Acquire(wire.Holder{Since: time.Now(), Command: shown(o.Cmdline, append([]string{"ingero"}, e.Args...)), DB: db})
	if err != nil {
		return nil, err
	}
	if old := t.lock.Stale; old != nil {
		t.log.Info("the last trace was killed; taking over its lock", "pid", old.PID, "since", old.Since)
	}
	if err := t.lock.Publish(wire.TraceState{Updated: time.Now()}); err != nil { // ingero status can read a state from now on
		t.log.Warn("cannot publish the trace's state: ingero status will be incomplete", "error", err)
	}
	if o.Labels.Path == labelAuto {
		o.Labels.Path = filepath.Join(t.lock.Dir(), labelSocket)
	}
	if t.source, err = session.OpenLive(ctx, o); err != nil {
		return nil, errors.Join(err, t.lock.Release())
	}
	return t, nil
}

// close ends a trace that was opened but not run.
func (t *tracing) close() error { return errors.Join(t.source.Close(), t.lock.Release()) }

// run traces until ctx ends or all processes have ended. It closes everything and returns the
// session's error.
func (t *tracing) run(ctx context.Context, rec *recording, sinks ...tick.Sink) error {
	if m := spareMemory(); m != nil {
		sinks = append(sinks, m)
	}
	p := &publisher{lock: t.lock, log: t.log, exports: t.exports, manager: t.manager}
	if rec != nil {
		p.database = rec.state
		sinks = append(sinks, rec)
	}
	sinks = append(sinks, p)
	if err := t.manager.Ready("tracing"); err != nil {
		t.log.Warn("cannot notify the service manager that the trace is ready", "error", err)
	}
	stopping := context.AfterFunc(ctx, func() { _ = t.manager.Stopping() }) // the manager notices the end without it
	c := session.Config{Source: t.source, Sinks: sinks, Quiet: t.quiet, Log: t.log, Forced: t.forced}
	if t.hidden != nil {
		c.Hide = t.hidden.hide
	}
	if c.Alive = t.alive; t.manager.Watchdog() > 0 {
		c.Alive = func() {
			_ = t.manager.Alive("waiting for a slow output, such as the disk of the database")
			if t.alive != nil {
				t.alive()
			}
		}
	}
	err := session.Run(ctx, c)
	stopping()
	return errors.Join(err, t.lock.Release())
}

// summary describes in one line what a trace has seen.
func summary(t *tick.Tick) string {
	var calls, failed uint64
	for i := range t.Ops {
		calls += t.Ops[i].Sum.Calls
		failed += t.Ops[i].Sum.Errors
	}
	noun := "processes"
	if len(t.Processes) == 1 {
		noun = "process"
	}
	s := fmt.Sprintf("%s calls of %d %s in %s", explain.Count(calls), len(t.Processes), noun, explain.Duration(int64(t.Time.Sub(t.Started))))
	if failed > 0 {
		s += ", " + explain.Count(failed) + " failed"
	}
	return s + ", " + explain.Count(explain.Lost(t.Drops)) + " lost"
}
