package session

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tick"
	"ingero/internal/xid"
)

// FaultOptions configures where GPU faults are read. The zero value suits most uses.
type FaultOptions struct {
	// Only is the one way to read faults; 0: all ways.
	Only tick.XidVia
	// History also delivers the faults that the kernel log still holds.
	History bool
	// Loaded reports whether the driver is loaded. If it is not, OpenFaults succeeds even if no way
	// can be opened yet. nil: it is loaded.
	Loaded  func() bool
	LogPath string       // the kernel log; "": xid.LogPath
	Log     *slog.Logger // nil: no logging
	// Clock converts kernel time into wall-clock time; the zero value is replaced on opening.
	Clock decode.Clock
	// Hurry is called from any goroutine when a fault has arrived; nil: not called.
	Hurry func()
}

const (
	// maxFaults bounds the faults that wait for Drain. Faults beyond it are dropped and counted.
	maxFaults = 1 << 14
	// lookAgain is the interval of checks for a driver that was loaded later.
	lookAgain = 10 * time.Second
)

// Faults waits for GPU faults, on the tracepoints of the NVIDIA driver and in the kernel log, since
// drivers before 575 have no tracepoint. A fault that arrives both ways is reported once. Methods
// are safe for concurrent use.
type Faults struct {
	o     FaultOptions
	stop  context.CancelFunc
	work  sync.WaitGroup
	kmsg  *xid.Log
	once  sync.Once
	ended error

	mu      sync.Mutex
	xids    *probes.Xids
	errs    map[tick.XidVia]error // error of each way that is not open
	early   bool                  // the tracepoint is missing since the driver is not loaded
	made    xid.Assembly          // joins what was read
	waiting []tick.Xid
	full    uint64
	timer   *time.Timer // runs while a fault waits for its other messages; nil: stopped
}

// OpenFaults starts waiting for faults. It fails if no way can be opened, unless the driver is not
// loaded yet. If one of two can, Err returns the error of the other. While the tracepoint is missing,
// Faults checks again, since the driver may be loaded later.
func OpenFaults(ctx context.Context, o FaultOptions) (*Faults, error) {
	if o.LogPath == "" {
		o.LogPath = xid.LogPath
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Hurry == nil {
		o.Hurry = func() {}
	}
	if o.Clock == (decode.Clock{}) {
		var err error
		if o.Clock, err = decode.Now(); err != nil {
			return nil, err
		}
	}
	f := &Faults{o: o, errs: map[tick.XidVia]error{}}
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	if o.Only != tick.ViaKernelLog {
		f.attach()
	}
	if o.Only != tick.ViaTracepoint {
		f.openLog()
	}
	if f.xids == nil && f.kmsg == nil && !f.early {
		f.stop()
		return nil, f.noWay()
	}
	if f.kmsg != nil {
		f.work.Go(f.readLog)
	}
	if o.Only != tick.ViaKernelLog {
		f.work.Go(func() { f.readTracepoints(ctx) })
	}
	return f, nil
}

// noWay returns why no way is open. mu is held.
func (f *Faults) noWay() error {
	return errors.Join(f.errs[tick.ViaTracepoint], f.errs[tick.ViaKernelLog])
}

// attach attaches to the tracepoints, or records the error.
func (f *Faults) attach() *probes.Xids {
	loaded := f.o.Loaded == nil || f.o.Loaded() // checked first: a loaded driver has its tracepoint
	x, err := probes.OpenXids()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.xids, f.errs[tick.ViaTracepoint] = x, err
	f.early = !loaded && errors.Is(err, probes.ErrNoTracepoint)
	f.made.BothSources = f.xids != nil && f.kmsg != nil
	return x
}

func (f *Faults) openLog() {
	kmsg, err := xid.OpenLog(f.o.LogPath, f.o.History, f.o.Clock.Offset)
	if err != nil {
		f.errs[tick.ViaKernelLog] = err
		return
	}
	f.kmsg, f.made.BothSources = kmsg, f.xids != nil
	if f.o.History { // before any new fault
		xs, err := kmsg.Next(nil, false)
		if err != nil {
			f.o.Log.Warn("the kernel log cannot be read", "error", err)
		}
		now := time.Now()
		for i := range xs {
			f.made.Add(&xs[i], now)
		}
		f.keep(f.made.Flush(nil))
		f.o.Hurry()
	}
}

// take joins the faults that were read, and keeps the complete ones.
func (f *Faults) take(xs []tick.Xid) {
	if len(xs) == 0 {
		return
	}
	f.mu.Lock()
	now := time.Now()
	for i := range xs {
		f.made.Add(&xs[i], now)
	}
	f.keep(f.made.Take(nil, now))
	f.wait(now)
	f.mu.Unlock()
	f.o.Hurry()
}

// keep keeps faults until Drain. mu is held.
func (f *Faults) keep(xs []tick.Xid) {
	n := min(len(xs), maxFaults-len(f.waiting))
	f.waiting = append(f.waiting, xs[:n]...)
	f.full += uint64(len(xs) - n)
}

// wait schedules release for faults that are incomplete. mu is held.
func (f *Faults) wait(now time.Time) {
	if d, waits := f.made.Wait(now); waits && f.timer == nil {
		f.timer = time.AfterFunc(d, f.release)
	}
}

// release keeps the faults that have waited long enough.
func (f *Faults) release() {
	f.mu.Lock()
	now := time.Now()
	f.timer = nil
	f.keep(f.made.Take(nil, now))
	f.wait(now)
	f.mu.Unlock()
	f.o.Hurry()
}

func (f *Faults) readLog() {
	for {
		xs, err := f.kmsg.Next(nil, true)
		f.take(xs)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				f.o.Log.Warn("the kernel log is no longer read", "error", err)
			}
			return
		}
	}
}

func (f *Faults) readTracepoints(ctx context.Context) {
	f.mu.Lock()
	x, err := f.xids, f.errs[tick.ViaTracepoint]
	f.mu.Unlock()
	for x == nil {
		if !errors.Is(err, probes.ErrNoTracepoint) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain):
		}
		x = f.attach()
	}
	done := context.AfterFunc(ctx, func() { _ = x.Close() }) // Close reports its error too
	defer done()
	for {
		r, err := x.Read()
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				f.o.Log.Warn("the driver's tracepoint is no longer read", "error", err)
			}
			return
		}
		t := tick.Xid{Time: f.o.Clock.Wall(r.Mono), Code: r.Code, Switch: r.Switch, Bus: xid.Bus(r.Dev), Via: tick.ViaTracepoint}
		t.SetMessage(r.Msg)
		f.take([]tick.Xid{t})
	}
}

// Drain appends the faults that have arrived since the last call.
func (f *Faults) Drain(dst []tick.Xid) []tick.Xid {
	f.mu.Lock()
	defer f.mu.Unlock()
	dst = append(dst, f.waiting...)
	f.waiting = f.waiting[:0]
	return dst
}

// Ways returns the tracepoints and the log file that faults are read from.
func (f *Faults) Ways() (tracepoints []probes.XidTracepoint, log string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.xids != nil {
		tracepoints = f.xids.Tracepoints()
	}
	if f.kmsg != nil {
		log = f.o.LogPath
	}
	return tracepoints, log
}

// Err returns why a way is not open, nil if it is open.
func (f *Faults) Err(v tick.XidVia) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errs[v]
}

// Drops returns the losses by reason. Lost lines of the log were not necessarily faults.
func (f *Faults) Drops() []tick.Drop {
	f.mu.Lock()
	defer f.mu.Unlock()
	drops := []tick.Drop{{Reason: "faults-full", Count: f.full}}
	if f.xids != nil {
		n, err := f.xids.Lost()
		if err != nil {
			f.o.Log.Warn("the number of lost faults is unknown", "error", err)
		}
		drops = append(drops, tick.Drop{Reason: "faults-lost", Count: n})
	}
	if f.kmsg != nil {
		drops = append(drops, tick.Drop{Reason: "kernel-log-overwritten", Count: f.kmsg.Lost()},
			tick.Drop{Reason: "kernel-log-suppressed", Count: f.kmsg.Suppressed()}, tick.Drop{Reason: "faults-unread", Count: f.kmsg.Unread()})
	}
	return drops
}

// Reports returns what could not be opened, except for a missing driver or, without the tracepoint, a
// missing log. The log alone names processes and MIG instances.
func (f *Faults) Reports() []tick.Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.xids == nil && f.kmsg == nil {
		if f.early {
			return nil
		}
		return []tick.Report{unseen(tick.ViaKernelLog, f.noWay())}
	}
	var out []tick.Report
	for _, v := range []tick.XidVia{tick.ViaTracepoint, tick.ViaKernelLog} {
		kind := "faults-unseen"
		switch err := f.errs[v]; {
		case err == nil || errors.Is(err, probes.ErrNoTracepoint):
			continue
		case v == tick.ViaKernelLog && f.xids != nil:
			kind = "fault-process-unknown"
		case errors.Is(err, fs.ErrNotExist):
			continue
		}
		out = append(out, tick.Report{Kind: kind, Object: v.String(), Why: f.errs[v].Error()})
	}
	return out
}

func unseen(v tick.XidVia, err error) tick.Report {
	return tick.Report{Kind: "faults-unseen", Object: v.String(), Why: err.Error()}
}

// Close stops waiting. It is idempotent.
func (f *Faults) Close() error {
	f.once.Do(func() {
		f.stop()
		if f.kmsg != nil {
			f.ended = f.kmsg.Close()
		}
		f.work.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.keep(f.made.Flush(nil))
		if f.timer != nil {
			f.timer.Stop()
		}
		if f.xids != nil {
			f.ended = errors.Join(f.ended, f.xids.Close())
		}
	})
	return f.ended
}
