package explain

import (
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

func timesOf(t *tick.Times) wire.Times {
	return wire.Times{OnCPUNS: t.OnCPU, RunnableNS: t.Runnable, ThrottledNS: t.Throttled, BlockedNS: t.Blocked}
}

func threadsOf(threads []tick.Thread) []wire.Thread {
	out := []wire.Thread{}
	for i := range threads {
		t := &threads[i]
		j := wire.Thread{
			PID: t.PID, TID: t.TID, Comm: clean(t.Comm), Enrolled: t.Enrolled, Ended: t.Ended, Since: unix(t.Since), Until: unix(t.Until),
			InCalls: timesOf(&t.InCalls), Between: timesOf(&t.Between), Sync: timesOf(&t.Sync),
		}
		if !t.Ended {
			j.Now = threadStateOf(&t.Now)
		}
		for _, o := range t.Open {
			j.Open = append(j.Open, wire.OpenCall{Op: o.Op.String(), Start: unix(o.Start)})
		}
		out = append(out, j)
	}
	return out
}

func threadStateOf(d *tick.ThreadState) *wire.ThreadState {
	j := &wire.ThreadState{State: "on-cpu", CPU: d.CPU}
	if d.Since > 0 {
		j.Since = unix(d.Since)
	}
	if d.State == 0 {
		return j
	}
	j.State = d.State.String()
	if d.State == events.WaitBlocked {
		j.Reason, j.Call, j.File, j.Arg = d.Reason.String(), d.Syscall.String(), d.File.String(), d.Arg
		if d.Dev != 0 {
			j.Dev = device(d.Dev)
		}
	}
	return j
}

func unix(ns int64) time.Time { return time.Unix(0, ns).UTC() }
