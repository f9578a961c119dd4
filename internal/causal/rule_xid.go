package causal

import (
	"fmt"
	"time"

	"ingero/internal/tick"
)

var xidFault = Rule{
	Name: "xid", Needs: NeedXids, Problems: []string{"4", "7"},
	Doc: "The GPU or its driver reported a fault (XID) that hit a process: its calls failed from then on, it exited, or it hung.",
	Find: func(w *Window) (out []Finding) {
		reported := map[string]bool{}
		for i := range w.devices.xids {
			x := &w.devices.xids[i]
			group := fmt.Sprintf("%d %d", x.Burst, x.PID)
			if x.PID == 0 || reported[group] {
				continue
			}
			if y, ok := w.faultOf(x); ok {
				y.Group, reported[group] = group, true
				out = append(out, y)
			}
		}
		return out
	},
	Instead: []string{"device-assert", "gpu-slower", "driver-slow", "lock-wait"},
}

// hitWithin is the time after a fault in which it may affect a process.
const hitWithin = 5 * time.Second

// faultOf returns the effect of a fault on the process that it names; ok is false if there is none.
func (w *Window) faultOf(x *tick.Xid) (y Finding, ok bool) {
	b := w.History(x.PID)
	if b == nil {
		return y, false
	}
	kind := "XID"
	if x.Switch {
		kind = "SXID"
	}
	y = Finding{PID: x.PID, From: x.Time, To: w.Now(), Severity: tick.High, Slow: 1, Steps: 1, Confidence: 0.9,
		Baseline: "the process before the fault",
		Timeline: []tick.Moment{moment(x.Time, "GPU", "%s %d of %s: %s", kind, x.Code, x.Device(), x.Msg)}}
	var did string
	var lost, until int64
	y.TID, lost, until = w.stalled(x.PID, x.Time, x.Time+int64(hitWithin), nearlyAll)
	switch failed := w.failedAfter(b, x.Time); {
	case b.Ended >= x.Time && b.Ended < x.Time+int64(hitWithin):
		did, y.To, lost = "it exited", b.Ended, max(b.Ended-x.Time, 1)
		y.Timeline = append(y.Timeline, moment(b.Ended, "HOST", "%s (%d) exited", b.Comm, b.PID))
	case failed > 0:
		did, lost = fmt.Sprintf("%d of its calls failed", failed), max(lost, 1)
	case lost >= int64(time.Second):
		did, y.To = "it hung", until
	default:
		return y, false
	}
	y.Lost = lost
	what := fmt.Sprintf("%s %d of GPU %s, after which %s", kind, x.Code, x.Device(), did)
	if x.At > 1 {
		what = fmt.Sprintf("%s %d of GPU %s, caused by %d, after which %s", kind, x.Code, x.Device(), x.Root, did)
	}
	y.Culprits = []tick.Culprit{{What: what, Lost: time.Duration(lost)}}
	return y, true
}

// failedAfter returns how many calls of a process failed soon after a time.
func (w *Window) failedAfter(b *ProcessHistory, ns int64) uint64 {
	before, after := b.failed, uint64(0)
	for i := range b.Seconds {
		switch s := &b.Seconds[i]; {
		case s.To <= ns:
			before = s.Failed
		case s.From < ns+int64(hitWithin):
			after = s.Failed
		}
	}
	return after - min(before, after)
}
