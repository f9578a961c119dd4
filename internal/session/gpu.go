package session

import (
	"context"

	"ingero/internal/gpu"
	"ingero/internal/tape"
	"ingero/internal/tick"
)

// watchGPUs begins to wait for faults and to poll the GPUs.
func (l *Live) watchGPUs(ctx context.Context) {
	var err error
	if l.faults, err = OpenFaults(ctx, FaultOptions{Log: l.Log, Clock: l.clock, Hurry: l.hurry}); err != nil {
		l.Log.Debug("faults of GPUs are not seen", "error", err)
		if l.GPUs.Loaded() {
			l.reports = append(l.reports, tick.Report{Kind: "faults-unseen", Object: "kernel-log", Why: err.Error()})
		}
	}
	l.states = l.GPUs.Poll(gpu.PollOptions{})
}

// leaveGPUs ends both. What has come can still be drained.
func (l *Live) leaveGPUs() error {
	if l.states != nil {
		l.states.Close()
	}
	if l.faults == nil {
		return nil
	}
	return l.faults.Close()
}

// tellGPUs fills a tick. mu is held.
func (l *Live) tellGPUs(t *tick.Tick) {
	if l.faults != nil {
		t.Drops = append(t.Drops, l.faults.Drops()...)
		t.Reports = append(t.Reports, l.faults.Reports()...)
	}
	t.GPUs = l.states.States()
	if err := l.states.Why(); err != nil {
		t.Reports = append(t.Reports, tick.Report{Kind: "gpu-state-unknown", Object: "GPU state", Why: l.smiWhys.say(err.Error())})
	}
}

// Faults appends the faults that have come since the last call.
func (l *Live) Faults(dst []tick.Xid) []tick.Xid {
	if l.raw != nil {
		var news []tick.Xid
		l.raw.answer(tape.Faults, &news, func() {
			if l.faults != nil {
				news = l.faults.Drain(nil)
			}
		})
		return append(dst, news...)
	}
	if l.faults == nil {
		return dst
	}
	return l.faults.Drain(dst)
}

// whys are reasons that were reported. Each is kept for good by whoever records, and
// what another program says may be new each time.
type whys map[string]bool

// maxWhys bounds them.
const maxWhys = 16

func (w *whys) say(why string) string {
	if *w == nil {
		*w = whys{}
	}
	if !(*w)[why] && len(*w) >= maxWhys {
		return "it fails in ever new ways"
	}
	(*w)[why] = true
	return why
}
