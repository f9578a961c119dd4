package causal

import (
	"fmt"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/internal/xid"
	"ingero/pkg/events"
)

var xidFault = Rule{
	Name: "xid", Needs: NeedXids, Problems: []string{"4", "7"},
	Doc: "The GPU or its driver reported a fault (XID) that hit a process: its calls failed from then on, it exited, or it hung.",
	Find: func(w *Window) (out []Finding) {
		type hit struct {
			burst  uint64
			pid    uint32
			code   uint32
			second int64
		}
		judged, reported := map[hit]bool{}, map[hit]bool{}
		on := map[gpuSecond][]uint32{}
		for i := range w.devices.xids {
			x := &w.devices.xids[i]
			for _, pid := range w.mayHit(x, on) {
				group := hit{burst: x.Burst, pid: pid}
				one := hit{x.Burst, pid, x.Code, x.Time / int64(time.Second)} // a storm has many that are alike
				if reported[group] || judged[one] {
					continue
				}
				judged[one] = true
				if y, ok := w.faultOf(x, pid); ok {
					y.Group, reported[group] = fmt.Sprintf("%d %d", x.Burst, pid), true
					out = append(out, y)
				}
			}
		}
		return out
	},
	Instead: []string{"device-assert", "gpu-slower", "driver-slow", "lock-wait"},
}

// hitWithin is the time after a fault in which it may affect a process.
const hitWithin = 5 * time.Second

// mayHit returns the processes that a fault may have hit: the one that it names or, if it names none,
// those that launched on its GPU. on keeps the latter for other faults in the same second.
func (w *Window) mayHit(x *tick.Xid, on map[gpuSecond][]uint32) []uint32 {
	switch {
	case x.PID != 0:
		return []uint32{x.PID}
	case x.SaidPID != 0 || x.Switch:
		return nil
	}
	key := gpuSecond{x.Bus, x.Time / int64(time.Second)}
	pids, known := on[key]
	if !known {
		pids = w.launchedOn(x.Bus, x.Time)
		on[key] = pids
	}
	return pids
}

// gpuSecond is a GPU, by its address without the function, and a second in Unix time.
type gpuSecond struct {
	bus    string
	second int64
}

// unlikely reports whether a fault that names no process has surely not hit a process whose calls go on:
// the process ended a step after the fault, or ended itself, or the fault needs no action. Processes that
// launch nothing are idle after a fault that is not fatal for the GPU.
func (w *Window) unlikely(x *tick.Xid, b *ProcessHistory, failed uint64) bool {
	if failed == 0 {
		_, steps := w.steps(b.PID)
		if xid.Lookup(x.Code).Severity != "fatal" || b.Ended >= x.Time || slices.ContainsFunc(steps, func(s step) bool { return s.to() > x.Time }) {
			return true
		}
	}
	return xid.NeedsNoAction(x)
}

// faultOf returns the effect of a fault on a process; ok is false if there is none. For a process that
// the fault does not name, failed calls are an effect, and a hang of at least hitWithin.
func (w *Window) faultOf(x *tick.Xid, pid uint32) (y Finding, ok bool) {
	b := w.History(pid)
	if b == nil {
		return y, false
	}
	failed, least := w.failedAfter(b, x.Time), int64(time.Second)
	if x.PID == 0 {
		if w.unlikely(x, b, failed) {
			return y, false
		}
		least = int64(hitWithin)
	}
	kind := "XID"
	if x.Switch {
		kind = "SXID"
	}
	y = Finding{PID: pid, From: x.Time, To: w.Now(), Severity: tick.High, Slow: 1, Steps: 1, Confidence: 0.9,
		Baseline: "the process before the fault",
		Timeline: []tick.Moment{moment(x.Time, "GPU", "%s %d of %s: %s", kind, x.Code, x.Device(), x.Msg)}}
	var did string
	var lost, until int64
	y.TID, lost, until = w.stalled(pid, x.Time, x.Time+int64(hitWithin), nearlyAll)
	exited := b.Ended >= x.Time && b.Ended < x.Time+int64(hitWithin)
	switch {
	case exited:
		did, y.To, lost = "it exited", b.Ended, max(b.Ended-x.Time, 1)
		y.Timeline = append(y.Timeline, moment(b.Ended, "HOST", "%s (%d) exited", b.Comm, b.PID))
	case failed > 0:
		did, lost = fmt.Sprintf("%d of its calls failed", failed), max(lost, 1)
	case lost >= least:
		did, y.To = "it hung", until
	default:
		return y, false
	}
	if y.Lost = lost; x.PID == 0 {
		y.Confidence = 0.7
	}
	what := fmt.Sprintf("%s %d of GPU %s, after which %s", kind, x.Code, x.Device(), did)
	if x.At > 1 {
		what = fmt.Sprintf("%s %d of GPU %s, caused by %d, after which %s", kind, x.Code, x.Device(), x.Root, did)
	}
	y.Culprits = []tick.Culprit{{What: what, Lost: time.Duration(lost)}}
	return y, true
}

// failedAfter returns how many calls of a process failed soon after a time, with an error that a fault
// of the GPU makes.
func (w *Window) failedAfter(b *ProcessHistory, ns int64) uint64 {
	before, after := b.faulty, uint64(0)
	for i := range b.Seconds {
		switch s := &b.Seconds[i]; {
		case s.To <= ns:
			before = s.Faulty
		case s.From < ns+int64(hitWithin):
			after = s.Faulty
		}
	}
	return after - min(before, after)
}

// faultErrors are the errors of CUDA calls, and ncclErrors those of NCCL, that a fault of the GPU makes.
// Others, such as a lack of memory, are the program's own.
var (
	faultErrors = []int32{46, 100, 101, 201, 214, 220, 226, 304, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 802, 999}
	ncclErrors  = []int32{1, 2, 3, 6} // of CUDA, the system, NCCL itself, a peer
)

// isFaulty reports whether a fault of the GPU makes such an error.
func isFaulty(e *tick.CallError) bool {
	if e.Op.Source() == events.SourceNCCL {
		return slices.Contains(ncclErrors, e.Code)
	}
	return slices.Contains(faultErrors, e.Code)
}
