package session

import (
	"context"

	"ingero/internal/decode"
	"ingero/internal/gpu"
	"ingero/internal/proc"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// gpus tracks the GPUs of this machine: their device files, states and faults. Its methods are for
// the polling goroutine.
type gpus struct {
	fs     proc.FS
	raw    tapeIO
	report *reporter
	majors devices
	finds  int     // calls of find
	faults *Faults // nil: faults cannot be read
	states *gpu.Poll
	whys   reasonSet // reasons why states are unknown
}

// start starts waiting for faults, which call hurry, and polling the GPUs.
func (g *gpus) start(ctx context.Context, machine gpu.Machine, clock decode.Clock, hurry func()) {
	var err error
	if g.faults, err = OpenFaults(ctx, FaultOptions{Loaded: machine.Loaded, Log: g.report.log, Clock: clock, Hurry: hurry}); err != nil {
		g.report.log.Debug("faults of GPUs are not seen", "error", err)
		if machine.Loaded() {
			g.report.add(unseen(tick.ViaKernelLog, err))
		}
	}
	g.states = machine.Poll(pollBy(clock))
}

// pollBy returns options for states with times by the session's clock, as those of calls.
func pollBy(clock decode.Clock) gpu.PollOptions {
	return gpu.PollOptions{Now: kernelClock{clock}.Now}
}

// close stops both. Faults that have arrived can still be taken.
func (g *gpus) close() error {
	if g.states != nil {
		g.states.Close()
	}
	if g.faults == nil {
		return nil
	}
	return g.faults.Close()
}

// find looks up the major numbers of the driver's devices: in every call until there are some, then
// in every tenth, since a module such as nvidia-uvm may be loaded later.
func (g *gpus) find() {
	if g.finds++; len(g.majors) > 0 && g.finds%10 != 0 {
		return
	}
	fill(g.raw, tape.Majors, &g.majors, func() {
		majors, err := g.fs.CharMajors(gpuDriver)
		if err != nil {
			g.report.log.Debug("the GPU driver's devices are not known", "error", err)
			return
		}
		g.majors = majors
	})
}

// waits marks device waits on a GPU as GPU waits.
func (g *gpus) waits(waits []events.Wait) { g.majors.waits(waits) }

// thread marks a thread's device wait on a GPU as a GPU wait.
func (g *gpus) thread(t *tick.Thread) { g.majors.thread(t) }

// tick fills the GPU states, and the drops and reports of faults and states.
func (g *gpus) tick(t *tick.Tick) {
	if g.faults != nil {
		t.Drops = append(t.Drops, g.faults.Drops()...)
		t.Reports = append(t.Reports, g.faults.Reports()...)
	}
	t.GPUs = g.states.States()
	if err := g.states.Err(); err != nil {
		t.Reports = append(t.Reports, tick.Report{Kind: "gpu-state-unknown", Object: "GPU state", Why: g.whys.add(err.Error())})
	}
}

// takeFaults appends the faults that have arrived since the last call.
func (g *gpus) takeFaults(dst []tick.Xid) []tick.Xid {
	var news []tick.Xid
	fill(g.raw, tape.Faults, &news, func() {
		if g.faults != nil {
			news = g.faults.Drain(nil)
		}
	})
	return append(dst, news...)
}

// reasonSet is the set of reported reasons. A recording keeps each one forever, and text from
// another program may differ each time.
type reasonSet map[string]bool

// maxReasons bounds the set.
const maxReasons = 16

func (w *reasonSet) add(why string) string {
	if *w == nil {
		*w = reasonSet{}
	}
	if !(*w)[why] && len(*w) >= maxReasons {
		return "each read fails with another error"
	}
	(*w)[why] = true
	return why
}
