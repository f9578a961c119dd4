package explain

import (
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// threadJSON is the account of a thread: in_calls and between add up to the time from since to
// until.
type threadJSON struct {
	PID      uint32           `json:"pid"`
	TID      uint32           `json:"tid"`
	Comm     string           `json:"comm,omitempty"`
	Enrolled bool             `json:"enrolled,omitempty"` // makes no traced calls, but woke a thread that does
	Ended    bool             `json:"ended,omitempty"`
	Since    time.Time        `json:"since"`
	Until    time.Time        `json:"until"`
	InCalls  timesJSON        `json:"in_calls"`
	Between  timesJSON        `json:"between_calls"`
	Sync     timesJSON        `json:"in_synchronizing_calls"` // of in_calls
	Now      *threadStateJSON `json:"now,omitempty"`
	Open     []openJSON       `json:"open,omitempty"` // calls that have not returned, outermost first
}

type timesJSON struct {
	OnCPUNS     uint64 `json:"on_cpu_ns"`
	RunnableNS  uint64 `json:"runnable_ns"`
	ThrottledNS uint64 `json:"throttled_ns"`
	BlockedNS   uint64 `json:"blocked_ns"`
}

type threadStateJSON struct {
	State  string    `json:"state"` // on-cpu, runnable, throttled, blocked
	Reason string    `json:"reason,omitempty"`
	Call   string    `json:"syscall,omitempty"`
	File   string    `json:"file,omitempty"`
	Arg    uint64    `json:"arg,omitempty"`
	Dev    string    `json:"dev,omitempty"`
	CPU    uint16    `json:"cpu"`
	Since  time.Time `json:"since,omitzero"`
}

type openJSON struct {
	Op    string    `json:"op"`
	Start time.Time `json:"start"`
}

func timesOf(t *tick.Times) timesJSON {
	return timesJSON{OnCPUNS: t.OnCPU, RunnableNS: t.Runnable, ThrottledNS: t.Throttled, BlockedNS: t.Blocked}
}

func threadsOf(threads []tick.Thread) []threadJSON {
	out := []threadJSON{}
	for i := range threads {
		t := &threads[i]
		j := threadJSON{
			PID: t.PID, TID: t.TID, Comm: clean(t.Comm), Enrolled: t.Enrolled, Ended: t.Ended, Since: unix(t.Since), Until: unix(t.Until),
			InCalls: timesOf(&t.InCalls), Between: timesOf(&t.Between), Sync: timesOf(&t.Sync),
		}
		if !t.Ended {
			j.Now = threadStateOf(&t.Now)
		}
		for _, o := range t.Open {
			j.Open = append(j.Open, openJSON{Op: o.Op.String(), Start: unix(o.Start)})
		}
		out = append(out, j)
	}
	return out
}

func threadStateOf(d *tick.ThreadState) *threadStateJSON {
	j := &threadStateJSON{State: "on-cpu", CPU: d.CPU}
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
