package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"ingero/internal/decode"
	"ingero/internal/gpu"
	"ingero/internal/label"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/redact"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// LiveOptions configures what to trace and how. Select is required.
type LiveOptions struct {
	Select proc.Selector
	Names  proc.Names
	Probes probes.Options
	// Gated is a process that was started for this session and is stopped: its owner resumes it
	// once OpenLive has returned. It is stopped briefly whenever it maps a CUDA library, so that no
	// call is missed.
	Gated uint32
	// Alone excludes children, and probes the selected processes only.
	Alone bool
	// Raw keeps the cost of the probes in the durations.
	Raw bool
	// Place restricts the selected processes to a place; the zero value: anywhere.
	Place where.Selector
	// Pods serves Place and the names of pods; nil: unknown.
	Pods Pods
	// Inference reads the metrics of inference servers; nil: none.
	Inference Inference
	// Cmdline is the part of command lines to keep.
	Cmdline redact.Mode
	// PyFromUser walks Python stacks from user space instead of the kernel.
	PyFromUser bool
	// PyProbe lets the agent run copies of interpreters whose offsets are unknown.
	PyProbe bool
	// GPUs locates the driver and nvidia-smi; the zero value: this machine's.
	GPUs gpu.Machine
	// MaxOverhead bounds the cost of tracing, as a share of the time of the traced processes. Above
	// it, features are shed: see [govern.Steps]. 0: no bound.
	MaxOverhead float64
	// Requests selects the processes whose HTTP requests are measured.
	Requests RequestsOf
	// Labels is the socket for labels; without a path there is none.
	Labels label.Options
	// RawTape receives the raw records, before decoding; nil: no tape. [Play] plays it.
	RawTape *RawTape
	Notify  func(Notice) // nil: none; called from any goroutine, must not block
	Log     *slog.Logger // nil: no logging
}

// Live is the source on the running kernel. It follows the selected processes and their children,
// and attaches to every CUDA library that they map, now or later. The package comment lists its
// owners; Live opens, polls and closes them in order. Poll, Totals, Stop and Close are for one
// goroutine.
type Live struct {
	opts   *LiveOptions
	tracer *probes.Tracer // nil when playing a tape
	raw    tapeIO         // the raw tape; nil: none
	report *reporter

	targets *targets         // the traced processes
	enrol   *enroller        // decides which processes are traced
	libs    *libraries       // libraries and their probes
	shed    *shedder         // features shed
	lives   *lives           // forks, execs, exits, gates
	rings   *reader          // calls, waits, counts
	resolve *resolver        // names of frames and of lock holders
	inside  *linkedLibraries // libraries linked into programs
	host    *hostWatch
	gpus    *gpus
	serve   *requests          // requests to servers
	labels  *labels            // what programs say about themselves
	others  *untracedProcesses // untraced processes
	clock   *clockWatch        // steps of the wall clock
	metrics sync.WaitGroup     // the reader of inference servers' metrics

	cancel  context.CancelFunc
	stop    func() error // stops the session; idempotent
	stopped bool
}

// OpenLive loads the programs, finds the selected processes and attaches. Calls made after it
// returns are seen. On error nothing stays open.
func OpenLive(ctx context.Context, o LiveOptions) (*Live, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Notify == nil {
		o.Notify = func(Notice) {}
	}
	o.Probes.Gate = o.Gated != 0
	o.Probes.EachStack = o.PyFromUser // the kernel cannot compare Python stacks
	clock, err := decode.Now()
	if err != nil {
		return nil, err
	}
	tracer, err := probes.Open(o.Probes)
	if err != nil {
		return nil, err
	}
	var kernel kernel = tracer
	var raw tapeIO
	if o.RawTape != nil {
		r, err := newRecorder(tracer, &o, clock)
		if err != nil {
			return nil, errors.Join(err, tracer.Close())
		}
		kernel, raw = r, r
	}
	l := newLive(&o, tracer, kernel, raw, clock)
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := l.start(ctx, clock); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// newLive joins the owners. kernel is the tracer, a recorder in front of it, or a tape's.
func newLive(o *LiveOptions, tracer *probes.Tracer, kernel kernel, raw tapeIO, clock decode.Clock) *Live {
	report := &reporter{log: o.Log, notify: o.Notify}
	finder := &proc.Finder{}
	l := &Live{opts: o, tracer: tracer, raw: raw, report: report}
	l.stop = sync.OnceValue(l.end)
	l.targets = newTargets(clock, report, o)
	l.libs = newLibraries(clock, tracer, finder, report, o)
	l.libs.mapped = l.targets.mapped
	l.enrol = newEnroller(o, tracer, clock, report, l.targets, l.libs)
	l.inside = newInside(o.Names, finder, report, l.enrol.attachInside)
	l.resolve = newResolver(raw, clock)
	l.enrol.enrolled = func(p *proc.Process, since time.Time) {
		l.inside.mark(p, since)
		l.resolve.traced(p.PID)
	}
	l.enrol.gone = l.resolve.ended
	l.rings = newReader(kernel, raw, clock)
	l.lives = newLives(kernel, raw, clock, o.Log, l.lived, newGates(o.Log, l.openGate))
	l.shed = &shedder{opts: o, tracer: tracer, report: report, targets: l.targets, libs: l.libs,
		python: l.resolve.python, failed: l.rings.failedLaunches}
	l.host = newHostWatch(kernel, raw, newGPUUsers(processFS(clock), o.GPUs), l.targets.now, l.targets.cgroup)
	l.gpus = &gpus{raw: raw, report: report}
	l.serve = newRequests(o.Requests, clock, report)
	l.labels = &labels{raw: raw, report: report}
	l.clock = newClockWatch(clock, report)
	l.others = &untracedProcesses{fs: processFS(clock), known: map[uint32]*untracedProcess{}, request: l.targets.requestOther, pods: o.Pods}
	return l
}

// ErrPIDNamespace reports that the PIDs in this /proc differ from those in the kernel's programs.
var ErrPIDNamespace = errors.New("ingero runs in its own PID namespace")

func (l *Live) start(ctx context.Context, clock decode.Clock) error {
	own, err := l.tracer.OwnPID()
	if err != nil {
		return err
	}
	if self := os.Getpid(); own != uint32(self) {
		return fmt.Errorf("%w: its PID is %d here and %d on the host; start the container in the host's PID namespace (docker run --pid=host, hostPID: true)",
			ErrPIDNamespace, self, own)
	}
	l.gpus.find()
	l.gpus.start(ctx, l.opts.GPUs, clock, l.rings.pollNow)
	l.labels.start(l.opts.Labels, clock)
	if !l.opts.Raw {
		l.calibrate(ctx)
	}
	// Watch before the scan, so that no mapping between the two is missed.
	if err = l.enrol.watch(); err != nil {
		return err
	}
	l.targets.start(l.opts.Cmdline)
	l.enrol.watchPods(ctx)
	if o := l.opts.Inference; o != nil {
		l.metrics.Go(func() { o.Run(ctx) })
	}
	l.resolve.start(ctx, l.opts, l.tracer, l.report)
	l.lives.start(ctx, l.tracer.WaitLives, l.rings.pollNow)
	l.rings.start(l.tracer.WaitPressure, l.report.log)
	if err := l.enrol.first(ctx); err != nil {
		return err
	}
	l.inside.look()
	l.enrol.start(ctx)
	l.inside.start(ctx)
	l.libs.start(ctx)
	l.host.start()
	return nil
}

// calibrate measures the cost of probes and whether they harm processes. If it fails, tracing
// continues: durations then include the probes and the overhead is not bounded, which is reported.
func (l *Live) calibrate(ctx context.Context) {
	c, err := l.tracer.Calibrate(ctx)
	if err != nil {
		l.report.add(tick.Report{Kind: "not-calibrated", Object: "probes",
			Why: fmt.Sprintf("durations include the cost of the probes, and the overhead is not bounded, because that cost could not be measured: %v", err)})
	} else {
		l.report.log.Debug("calibrated", "costs", c.Costs, "seccomp_harm", c.SeccompHarm, "unlink", c.Unlink)
		l.shed.costs, l.shed.again, l.libs.unlink = c.Costs, time.Duration(c.Again), c.Unlink
	}
	if l.enrol.harm = c.SeccompHarm; c.SeccompHarm && l.tracer.Mode() != probes.ModeSession {
		l.report.add(tick.Report{Kind: "entry-only", Object: "all processes",
			Why: "on this kernel a return probe may kill processes that have a seccomp filter, and probes cannot exclude single processes"})
		if err := l.tracer.WatchNoReturns(); err != nil {
			l.report.add(tick.Report{Kind: "not-attached", Object: "all processes", Why: err.Error()})
		}
	}
}

// openGate attaches to all libraries that a process at its gate maps.
func (l *Live) openGate(pid uint32) error {
	err := l.enrol.enrolPID(pid)
	l.inside.look()
	l.resolve.ready(pid)
	return err
}

// lived passes an event to the owners it concerns, and reports whether its process is traced.
// Untraced ones are the calibration's.
func (l *Live) lived(e *tick.ProcEvent) bool {
	if e.Kind == tick.ProcOOM {
		l.targets.killed(e.PID)
		return true
	}
	if !l.targets.known(e.PID) {
		return false
	}
	switch e.Kind {
	case tick.ProcForked:
		l.resolve.forked(e.PID, e.Peer, e.Time)
		l.targets.forked(e)
		l.libs.forked(e.PID, e.Peer)
	case tick.ProcExeced:
		l.resolve.execed(e.PID, time.Unix(0, e.Time))
		l.libs.execed(e.PID, time.Unix(0, e.Time))
		l.targets.execed(e)
	case tick.ProcExited:
		l.resolve.ended(e.PID)
		l.targets.ended(e.PID, time.Unix(0, e.Time))
		l.libs.removeUsers(e.PID)
	}
	return true
}

// Poll implements [Source].
func (l *Live) Poll(b *tick.Batch) (more bool, err error) {
	if err := beginSection(l.raw, tape.Poll, time.Time{}); err != nil {
		return false, err
	}
	l.enrol.look()
	l.resolve.check()
	l.labels.poll(b)
	waits := len(b.Waits)
	more = l.rings.read(b)
	fresh := b.Waits[waits:]
	l.resolve.waits(fresh)
	l.lives.drain()
	l.gpus.waits(fresh)
	if !playing(l.raw) {
		l.others.note(fresh, l.targets.known)
	}
	over := l.lives.deliver(b, l.over)
	if more {
		return true, nil
	}
	if l.stopped {
		l.lives.rest(b)
	}
	if over {
		return false, io.EOF
	}
	return false, nil
}

// over reports whether all processes that the session waits for have ended.
func (l *Live) over() bool {
	return len(l.opts.Select.PIDs) > 0 && l.targets.over(l.targets.clock.Now())
}

// Totals implements [Source].
func (l *Live) Totals(t *tick.Tick) error {
	if err := beginSection(l.raw, tape.Tick, t.Time); err != nil {
		return err
	}
	if err := l.rings.counts(t); err != nil {
		return err
	}
	if l.rings.any() {
		l.gpus.find()
	}
	if err := l.rings.threads(t, l.gpus.thread); err != nil {
		return err
	}
	if !playing(l.raw) {
		l.wakers(t.Threads)
	}
	if err := errors.Join(l.rings.drops(t, l.lives.lost()), l.host.tick(t, l.stopped)); err != nil {
		return err
	}
	if !playing(l.raw) {
		l.others.did(t.HostSums, t.Time.UnixNano(), l.targets.known)
	}
	processes := l.fillTick(t)
	if !l.stopped {
		l.libs.prune(t.Time)
	}
	done := l.targets.counted(processes)
	called, err := l.rings.release(done)
	l.rings.forget(l.targets.retire(done, called))
	return err
}

// wakers requests stacks of enrolled threads in traced processes.
func (l *Live) wakers(threads []tick.Thread) {
	for i := range threads {
		if x := &threads[i]; x.Enrolled && !x.Ended && l.targets.lives(x.PID) {
			l.resolve.waker(x.PID)
		}
	}
}

// fillTick fills a tick with the facts of user space, and returns the processes.
func (l *Live) fillTick(t *tick.Tick) []tick.Process {
	var x tables
	fill(l.raw, tape.Tables, &x, func() {
		for _, pid := range l.targets.checkAlive(t.Time) {
			l.resolve.ended(pid)
			l.libs.removeUsers(pid)
			if err := l.tracer.Untrace(pid); err != nil { // it may have ended as it was enrolled
				l.report.log.Warn("stop tracing an ended process", "pid", pid, "error", err)
			}
		}
		ahead := l.clock.tick(t.Time, l.stopped)
		answers, left, pods := l.targets.locate()
		l.others.locate(answers)
		part := tick.Tick{Reports: l.report.all(), Drops: []tick.Drop{{Reason: "programs-not-read", Count: left}}}
		l.gpus.tick(&part)
		part.Drops = append(append(part.Drops, l.labels.drops()...), l.resolve.drops()...)
		processes := l.targets.list()
		others := l.others.with(processes, t.Time.UnixNano())
		l.serve.tick(&part, processes, others, l.stopped)
		x = tables{processes, others, l.libs.list(), l.tracer.HostProbes(), part.Reports, part.Drops, part.GPUs, part.Requests, pods, nil, ahead}
		if o := l.opts.Inference; o != nil {
			o.See(x.Processes, x.Others)
			x.Inference = o.Take()
		}
	})
	if playing(l.raw) {
		l.targets.adopt(x.Processes)
	}
	t.Processes = append(t.Processes, x.Processes...)
	t.Others = append(t.Others, x.Others...)
	t.Libraries, t.HostProbes = append(t.Libraries, x.Libraries...), x.HostProbes
	t.Reports = append(t.Reports, x.Reports...)
	t.Drops = append(t.Drops, x.Drops...)
	t.GPUs, t.Requests, t.Pods, t.Inference, t.Ahead = x.GPUs, x.Requests, x.Pods, x.Inference, x.Ahead
	return x.Processes
}

// Stop implements [Source]: it detaches all probes.
func (l *Live) Stop() error { return l.stop() }

// end stops the goroutines that could attach probes, then detaches all probes.
func (l *Live) end() error {
	l.cancel()
	l.stopped = true
	l.shed.stop()
	errs := []error{beginSection(l.raw, tape.Stop, time.Time{}), l.enrol.stop(), l.tracer.StopLives(), l.gpus.close(), l.serve.detach(), l.labels.close()}
	l.enrol.wait()
	l.inside.wait()
	l.resolve.wait()
	l.metrics.Wait()
	l.rings.wait()
	l.lives.close()
	errs = append(errs, l.libs.close(), l.shed.close())
	l.targets.close()
	return errors.Join(errs...)
}

// Close implements [Source].
func (l *Live) Close() error {
	err := errors.Join(l.Stop(), l.resolve.close(), l.serve.close())
	if l.raw != nil {
		err = errors.Join(err, l.raw.close())
		l.raw = nil
	}
	return errors.Join(err, l.tracer.Close())
}
