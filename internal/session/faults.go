package session

import (
	"context"
	"errors"
	"fmt"
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

// FaultOptions say where faults of GPUs are looked for. The zero value is right for
// most uses.
type FaultOptions struct {
	// Only is the one way by which they are read; 0: all that there are.
	Only tick.XidVia
	// History delivers what the kernel's log still has, too.
	History bool
	LogPath string       // of the kernel's log; "": xid.LogPath
	Log     *slog.Logger // nil: none
	// Clock turns the kernel's time into that of the session; the zero value is made
	// when it is opened.
	Clock decode.Clock
	// Hurry is called when a fault has come; nil: nobody. From any goroutine.
	Hurry func()
}

const (
	// maxFaults bounds the faults that wait to be taken. When they are more, they are
	// counted and left out.
	maxFaults = 1 << 14
	// lookAgain is how often it is looked whether the driver has been loaded.
	lookAgain = 10 * time.Second
)

// Faults waits for faults of GPUs: by the tracepoints of the NVIDIA driver, and in the
// kernel's log, for drivers before 575 have no tracepoint. One that comes by both is
// told once. Methods may be called from any goroutine.
type Faults struct {
	o     FaultOptions
	stop  context.CancelFunc
	work  sync.WaitGroup
	kmsg  *xid.Log
	once  sync.Once
	ended error

	mu      sync.Mutex
	xids    *probes.Xids
	why     map[tick.XidVia]error // why a way is not open
	made    xid.Assembly          // of what was read
	waiting []tick.Xid
	full    uint64
	timer   *time.Timer // runs while one waits for what else is said of it; nil: it does not
}

// OpenFaults begins to wait. The error says why there is no way to learn of faults;
// where there is one, Why says what is wrong with the other. It looks for the
// tracepoint again while it is not there, for the driver may be loaded later.
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
	f := &Faults{o: o, why: map[tick.XidVia]error{}}
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	if o.Only != tick.ViaKernelLog {
		f.attach()
	}
	if o.Only != tick.ViaTracepoint {
		f.openLog()
	}
	if f.xids == nil && f.kmsg == nil {
		f.stop()
		return nil, errors.Join(f.why[tick.ViaTracepoint], f.why[tick.ViaKernelLog])
	}
	if f.kmsg != nil {
		f.work.Go(f.readLog)
	}
	if o.Only != tick.ViaKernelLog {
		f.work.Go(func() { f.readTracepoints(ctx) })
	}
	return f, nil
}

// attach attaches to the tracepoints, or notes why that cannot be.
func (f *Faults) attach() *probes.Xids {
	x, err := probes.OpenXids()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.xids, f.why[tick.ViaTracepoint] = x, err
	f.made.Both = f.xids != nil && f.kmsg != nil
	return x
}

func (f *Faults) openLog() {
	kmsg, err := xid.OpenLog(f.o.LogPath, f.o.History, f.o.Clock.Offset)
	if err != nil {
		f.why[tick.ViaKernelLog] = err
		return
	}
	f.kmsg, f.made.Both = kmsg, f.xids != nil
	if f.o.History { // before any that comes now
		xs, err := kmsg.Next(nil, false)
		if err != nil {
			f.o.Log.Warn("the kernel's log cannot be read", "error", err)
		}
		now := time.Now()
		for i := range xs {
			f.made.Add(&xs[i], now)
		}
		f.keep(f.made.Flush(nil))
		f.o.Hurry()
	}
}

// take puts together what was read, and keeps the faults that are complete.
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

// keep keeps faults until they are drained. mu is held.
func (f *Faults) keep(xs []tick.Xid) {
	n := min(len(xs), maxFaults-len(f.waiting))
	f.waiting = append(f.waiting, xs[:n]...)
	f.full += uint64(len(xs) - n)
}

// wait has those kept that wait, once their time has come. mu is held.
func (f *Faults) wait(now time.Time) {
	if d, waits := f.made.Wait(now); waits && f.timer == nil {
		f.timer = time.AfterFunc(d, f.release)
	}
}

// release keeps those that have waited long enough.
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
				f.o.Log.Warn("the kernel's log is not read any more", "error", err)
			}
			return
		}
	}
}

func (f *Faults) readTracepoints(ctx context.Context) {
	f.mu.Lock()
	x, err := f.xids, f.why[tick.ViaTracepoint]
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
	done := context.AfterFunc(ctx, func() { _ = x.Close() }) // its error is Close's, too
	defer done()
	for {
		r, err := x.Read()
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				f.o.Log.Warn("the tracepoint of the driver is not read any more", "error", err)
			}
			return
		}
		t := tick.Xid{Time: f.o.Clock.Wall(r.Mono), Code: r.Code, Switch: r.Switch, Bus: xid.Bus(r.Dev), Via: tick.ViaTracepoint}
		t.Say(r.Msg)
		f.take([]tick.Xid{t})
	}
}

// Drain appends the faults that have come since it was called last.
func (f *Faults) Drain(dst []tick.Xid) []tick.Xid {
	f.mu.Lock()
	defer f.mu.Unlock()
	dst = append(dst, f.waiting...)
	f.waiting = f.waiting[:0]
	return dst
}

// Ways returns by what names of tracepoints and files faults are read.
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

// Why returns why a way is not open, nil when it is.
func (f *Faults) Why(v tick.XidVia) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why[v]
}

// Drops returns what was lost, by reason. Lines of the log that were lost need not
// have been faults.
func (f *Faults) Drops() []tick.Drop {
	f.mu.Lock()
	defer f.mu.Unlock()
	drops := []tick.Drop{{Reason: "faults-full", Count: f.full}}
	if f.xids != nil {
		n, err := f.xids.Lost()
		if err != nil {
			f.o.Log.Warn("how many faults were lost is not known", "error", err)
		}
		drops = append(drops, tick.Drop{Reason: "faults-lost", Count: n})
	}
	if f.kmsg != nil {
		drops = append(drops, tick.Drop{Reason: "kernel-log-overwritten", Count: f.kmsg.Lost()},
			tick.Drop{Reason: "kernel-log-suppressed", Count: f.kmsg.Suppressed()}, tick.Drop{Reason: "faults-unread", Count: f.kmsg.Unread()})
	}
	return drops
}

// Reports says what could not be opened, but for a driver that is not there.
func (f *Faults) Reports() []tick.Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []tick.Report
	for _, v := range []tick.XidVia{tick.ViaTracepoint, tick.ViaKernelLog} {
		if err := f.why[v]; err != nil && !errors.Is(err, probes.ErrNoTracepoint) && !errors.Is(err, fs.ErrNotExist) {
			out = append(out, tick.Report{Kind: "faults-unseen", Object: v.String(), Why: fmt.Sprint(err)})
		}
	}
	return out
}

// Close ends the waiting. It is idempotent.
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
