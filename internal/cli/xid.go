package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/gpu"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/tick"
	"ingero/internal/xid"
)

// xidOptions are the flags of xid.
type xidOptions struct {
	list, json bool
	since      time.Duration // 0: from now on; with list: all
	only       tick.XidVia
}

// xidSources maps the values of --source.
var xidSources = map[string]tick.XidVia{"auto": 0, "tracepoint": tick.ViaTracepoint, "log": tick.ViaKernelLog}

func xidCommand(e *Env) *cobra.Command {
	o := xidOptions{}
	since, source := "", "auto"
	c := &cobra.Command{
		Use:   "xid",
		Short: "Wait for GPU faults (XIDs) and explain each one",
		Long: `xid waits for faults that the NVIDIA driver reports: XIDs of GPUs and SXIDs of NVSwitches.
For each fault, it prints the meaning, what to do, the affected process, and which fault of
a burst was the first; the others are consequences.

xid reads the tracepoint nvidia:nvidia_dev_xid, which requires driver 575, and the kernel
log, which older drivers also use. It shows a fault from both sources once. It counts lost
faults and reports them on standard error.

A trace records faults by itself, with the last calls of each affected process: ingero
query --show xids. xid does not need a running trace.`,
		Example: `  sudo ingero xid                    until Ctrl-C
  sudo ingero xid --list --since 1d  the faults of the last day in the kernel log
  sudo ingero xid --json > xids.jsonl`,
		Args: noArguments,
	}
	f := c.Flags()
	f.BoolVar(&o.list, "list", false, "list the faults in the kernel log, and exit")
	f.StringVar(&since, "since", "", "include faults in the kernel log from this long ago: 1h, 2d")
	f.StringVar(&source, "source", source, "source of faults: auto, tracepoint or log")
	f.BoolVar(&o.json, "json", false, "print JSON lines")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var ok bool
		if o.only, ok = xidSources[source]; !ok {
			return usage("ingero xid --source log", "--source cannot be %q: it must be auto, tracepoint or log", source)
		}
		if o.only == tick.ViaTracepoint && (o.list || since != "") {
			return usage("omit --source", "--list and --since read the kernel log; they cannot be combined with --source tracepoint")
		}
		if since != "" {
			var err error
			if o.since, err = config.ParseDuration(since); err != nil || o.since <= 0 {
				return usage("ingero xid --since 1h", "--since cannot be %q: it must be a duration", since)
			}
		}
		if o.list {
			o.only = tick.ViaKernelLog
		}
		return e.xid(c.Context(), &o)
	}
	return c
}

// xid waits for faults, or lists them.
func (e *Env) xid(ctx context.Context, o *xidOptions) error {
	machine := gpu.Machine{}
	if o.only == 0 && !machine.Loaded() {
		return xidProblem(probes.ErrNoTracepoint, gpu.Info{}, false)
	}
	hurry := make(chan struct{}, 1)
	f, err := session.OpenFaults(ctx, session.FaultOptions{Only: o.only, History: o.list || o.since > 0, Log: e.logger(e.debug), Hurry: func() {
		select {
		case hurry <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		info, _ := machine.Read(ctx) // err has the actual problem
		return xidProblem(err, info, machine.Loaded())
	}
	w := &xidWatch{e: e, o: o, f: f, zone: e.zone(false), explained: map[xidKey]bool{}, lost: map[string]uint64{}}
	if o.since > 0 {
		w.from = e.now(false).Add(-o.since).UnixNano()
	}
	if !o.list {
		w.banner()
	}
	err = w.show(ctx)
	for !o.list && err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-hurry:
			err = w.show(ctx)
		}
	}
	if err == nil && o.list && w.shown == 0 && !o.json {
		err = e.printf("The kernel log contains no GPU faults.\n")
	}
	return errors.Join(err, f.Close())
}

// xidWatch prints faults as they arrive.
type xidWatch struct {
	e         *Env
	o         *xidOptions
	f         *session.Faults
	zone      *time.Location
	from      int64
	bursts    xid.Bursts
	explained map[xidKey]bool // explained faults of the current bursts
	lost      map[string]uint64
	shown     int
}

type xidKey struct {
	burst uint64
	code  uint32
}

// maxExplained limits the set of explained faults; when it is full, all faults are explained again.
const maxExplained = 4096

// banner says that xid waits, and on which sources.
func (w *xidWatch) banner() {
	say := func(format string, args ...any) {
		fmt.Fprintf(w.e.Stderr, "%s %s\n", w.e.now(false).Format("2006/01/02 15:04:05"), oneLine(fmt.Sprintf(format, args...)))
	}
	say("Waiting for NVIDIA XID events... (press Ctrl+C to exit)")
	at, log := w.f.Ways()
	for _, t := range at {
		say("Tracepoint: %s", t)
	}
	if log != "" {
		say("Kernel log: %s", log)
	}
	for v, what := range map[tick.XidVia]string{tick.ViaTracepoint: "the tracepoint", tick.ViaKernelLog: "the kernel log"} {
		if err := w.f.Err(v); err != nil {
			say("Without %s: %s", what, err)
		}
	}
}

// show prints the new faults and reports lost ones.
func (w *xidWatch) show(ctx context.Context) error {
	xs := w.f.Drain(nil)
	w.bursts.Group(xs)
	known, lookup := w.processes(ctx, xs)
	for i := range xs {
		x := &xs[i]
		if x.Time < w.from {
			continue
		}
		xid.Victim(x, known, lookup)
		w.shown++
		if err := w.print(x); err != nil {
			return err
		}
	}
	for _, d := range w.f.Drops() {
		if n := d.Count - w.lost[d.Reason]; n > 0 {
			fmt.Fprintf(w.e.Stderr, "ingero: %s %s\n", explain.Count(n), explain.DropWords(d.Reason))
			w.lost[d.Reason] = d.Count
		}
	}
	return nil
}

func (w *xidWatch) print(x *tick.Xid) error {
	if w.o.json {
		line, err := explain.XidJSON(x)
		if err != nil {
			return err
		}
		return w.e.printf("%s\n", line)
	}
	k := xidKey{x.Burst, x.Code}
	detail := !w.explained[k]
	if len(w.explained) >= maxExplained {
		clear(w.explained)
	}
	w.explained[k] = true
	return w.e.printf("%s", explain.XidText(x, detail, w.zone))
}

// processes returns the processes that use CUDA, if a fault names a process, and a function
// that looks up any process.
func (w *xidWatch) processes(ctx context.Context, xs []tick.Xid) (known []tick.Process, look func(uint32) (tick.Process, []string, bool)) {
	host := proc.FS{}
	look = func(pid uint32) (tick.Process, []string, bool) {
		p, err := host.Process(pid)
		if err != nil {
			return tick.Process{}, nil, false
		}
		return tick.Process{PID: p.PID, NSPID: p.NSPID(), Comm: p.Comm, Started: p.Started}, host.ThreadNames(pid), true
	}
	for i := range xs {
		if xs[i].SaidPID == 0 {
			continue
		}
		all, _, err := host.Scan(ctx, proc.Selector{All: true}, proc.Names{})
		if err != nil {
			w.e.logger(w.e.debug).Warn("cannot list processes", "error", err)
		}
		for i := range all {
			p := &all[i]
			known = append(known, tick.Process{PID: p.PID, NSPID: p.NSPID(), Comm: p.Comm, Started: p.Started})
		}
		break
	}
	return known, look
}

// tracepointSince is the first driver branch with the tracepoint.
const tracepointSince = 575

// xidProblem explains why xid cannot wait for faults.
func xidProblem(err error, info gpu.Info, loaded bool) error {
	var major int
	_, _ = fmt.Sscanf(info.Driver.Version, "%d.", &major) // 0 if unknown
	name := probes.XidTracepoints[0].String()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &problem{What: "this user is not permitted to wait for GPU faults", Err: err,
			Do: "run sudo ingero xid, or grant CAP_BPF and CAP_PERFMON for the tracepoint, CAP_SYSLOG for the kernel log"}
	case errors.Is(err, probes.ErrNoBTF):
		return &problem{What: "this kernel has no BTF (/sys/kernel/btf/vmlinux), so ingero cannot read the tracepoint", Err: err,
			Do: "install a kernel with CONFIG_DEBUG_INFO_BTF=y, or read the kernel log: ingero xid --source log"}
	case !errors.Is(err, probes.ErrNoTracepoint):
		return err
	case !loaded:
		return &problem{What: "the NVIDIA driver is not loaded, so there is no tracepoint " + name, Err: err,
			Do: "load the driver: sudo modprobe nvidia (check: lsmod | grep nvidia); or without it: ingero xid --source log, or --list"}
	case major >= tracepointSince:
		return &problem{What: fmt.Sprintf("the tracepoint %s of driver %s is not visible here", name, info.Driver.Version), Err: err,
			Do: "mount tracefs: sudo mount -t tracefs tracefs /sys/kernel/tracing; then check: ls /sys/kernel/tracing/events/nvidia"}
	}
	return &problem{What: fmt.Sprintf("driver %s has no tracepoint %s: it requires driver %d", orElse(info.Driver.Version, "of this machine"), name, tracepointSince), Err: err,
		Do: "read the kernel log: ingero xid --source log"}
}
