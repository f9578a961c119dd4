package session

import (
	"math"
	"time"

	"ingero/internal/tick"
)

// Deadband defines which ticks are idle. A tick is idle if no traced process was active and the
// machine's figures moved by less than Percent of their range since the last non-idle tick. With
// the zero value, no tick is idle.
type Deadband struct {
	Percent   float64       // 0: no tick is idle
	Heartbeat time.Duration // longest time without a non-idle tick; 0: unlimited
}

// idleFilter applies a deadband to the ticks of a session.
type idleFilter struct {
	Deadband
	last     tick.Host // host figures of the last non-idle tick
	reported time.Time
	records  uint64
	chains   int           // of the last tick
	idleSums tick.HostSums // sums of the idle ticks since the last non-idle one
}

// look reports whether a tick is idle, and returns the host sums to report. The sums of an idle
// tick are held until the next non-idle tick, so none is lost.
func (q *idleFilter) look(t *tick.Tick) (idle bool, sums []tick.HostSum) {
	if q.Percent <= 0 {
		return false, t.HostSums
	}
	idle = !t.Final && !q.reported.IsZero() && !q.happened(t) && !q.moved(&t.Host) &&
		(q.Heartbeat <= 0 || t.Time.Sub(q.reported) < q.Heartbeat)
	q.records = t.Records
	q.idleSums.Add(t.HostSums)
	if idle {
		return true, nil
	}
	q.last, q.reported = t.Host, t.Time
	sums = q.idleSums.List()
	q.idleSums.Reset()
	return false, sums
}

// happened reports whether a traced process was active, or any process was OOM-killed.
func (q *idleFilter) happened(t *tick.Tick) bool {
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

// moved reports whether a figure of the machine moved by at least the deadband.
func (q *idleFilter) moved(h *tick.Host) bool {
	part := func(now, then, all float64) bool { return all > 0 && math.Abs(now-then)/all*100 >= q.Percent }
	return h.CPUs != q.last.CPUs || h.MemTotal != q.last.MemTotal || h.SwapTotal != q.last.SwapTotal ||
		part(h.CPU, q.last.CPU, 1) || part(h.Load[0], q.last.Load[0], float64(h.CPUs)) ||
		part(float64(h.MemAvail), float64(q.last.MemAvail), float64(h.MemTotal)) ||
		part(float64(h.SwapUsed), float64(q.last.SwapUsed), float64(h.SwapTotal))
}
