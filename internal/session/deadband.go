package session

import (
	"math"
	"time"

	"ingero/internal/tick"
)

// Deadband says which ticks are idle: nothing happened to a traced process, and the
// machine's figures moved by less than Percent of their range since the last tick that
// was not. The zero value takes none for idle.
type Deadband struct {
	Percent   float64       // 0: no tick is idle
	Heartbeat time.Duration // after which a tick is not idle, whatever it has; 0: none
}

// quiet applies a deadband to the ticks of a session.
type quiet struct {
	Deadband
	last    tick.Host // of the last tick that was not idle
	told    time.Time
	records uint64
	chains  int           // in the last tick
	held    tick.HostSums // of the idle ticks since
}

// look tells whether a tick is idle, and returns what to tell of the host: what happened in
// an idle tick is told with the next one that is not, so nothing is lost.
func (q *quiet) look(t *tick.Tick) (idle bool, told []tick.HostSum) {
	if q.Percent <= 0 {
		return false, t.HostSums
	}
	idle = !t.Final && !q.told.IsZero() && !q.happened(t) && !q.moved(&t.Host) &&
		(q.Heartbeat <= 0 || t.Time.Sub(q.told) < q.Heartbeat)
	q.records = t.Records
	q.held.Add(t.HostSums)
	if idle {
		return true, nil
	}
	q.last, q.told = t.Host, t.Time
	told = q.held.List()
	q.held.Reset()
	return false, told
}

// happened tells whether anything was seen of a traced process.
func (q *quiet) happened(t *tick.Tick) bool {
	if t.Records != q.records || q.chains > 0 {
		return true
	}
	for i := range t.Ops {
		if t.Ops[i].Last.Calls > 0 || t.Ops[i].Last.Done > 0 {
			return true
		}
	}
	traced := map[uint32]bool{}
	for i := range t.Processes {
		traced[t.Processes[i].PID] = true
	}
	for i := range t.HostSums {
		if traced[t.HostSums[i].PID] || t.HostSums[i].Kind == tick.HostOOM {
			return true
		}
	}
	return false
}

// moved tells whether a figure of the machine did, by more than the deadband.
func (q *quiet) moved(h *tick.Host) bool {
	part := func(now, then, all float64) bool { return all > 0 && math.Abs(now-then)/all*100 >= q.Percent }
	return h.CPUs != q.last.CPUs || h.MemTotal != q.last.MemTotal || h.SwapTotal != q.last.SwapTotal ||
		part(h.CPU, q.last.CPU, 1) || part(h.Load[0], q.last.Load[0], float64(h.CPUs)) ||
		part(float64(h.MemAvail), float64(q.last.MemAvail), float64(h.MemTotal)) ||
		part(float64(h.SwapUsed), float64(q.last.SwapUsed), float64(h.SwapTotal))
}
