package xid

import (
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
)

const (
	// Settle is how long a fault waits for its other reports: by the log or tracepoint, its
	// details, its code.
	Settle = 100 * time.Millisecond
	// lateLog is how long a fault from the tracepoint waits for its earlier log line, since the log
	// reader may lag behind. The full wait occurs only if the line is lost.
	lateLog = 2 * time.Second
	// maxWaiting bounds the waiting faults. Beyond it the oldest is released.
	maxWaiting = 1 << 14
	// lossAgain is the time within which repeats of a lost GPU are dropped: the driver reports it
	// at each attempt to reach the GPU.
	lossAgain = time.Minute
	// detailWithin is how long after an SXid its details may come.
	detailWithin = 5 * time.Second
	// maxDetails bounds the details added to a message, in bytes.
	maxDetails = 1 << 10
)

// Assembly merges the driver's reports of a fault into one: a log line and a tracepoint event, an
// SXid and its details, a lost GPU with and without code. The zero value is ready. It is not safe
// for concurrent use, and its caller passes the time.
type Assembly struct {
	// BothSources means that the tracepoint is read beside the log: a fault waits for its other
	// report.
	BothSources bool
	twins       Twins
	waiting     []waitingFault     // oldest first
	losses      map[device]loss    // GPUs that were reported lost
	heads       map[faultKey]int64 // last time of each released SXid, Unix ns
}

// waitingFault is a waiting fault.
type waitingFault struct {
	tick.Xid
	came   time.Time // time of its last report
	paired bool      // both reports have come
}

// loss is the last report of a lost GPU: its time in Unix ns, and whether it had no code.
type loss struct {
	time   int64
	noCode bool
}

// Add adds a report.
func (a *Assembly) Add(x *tick.Xid, now time.Time) {
	if a.joined(x, now) || a.pair(x, now) || a.lostBefore(x) {
		return
	}
	a.waiting = append(a.waiting, waitingFault{Xid: *x, came: now})
}

// joined adds a detail to its SXid, which then waits for more. It reports whether there was one.
func (a *Assembly) joined(x *tick.Xid, now time.Time) bool {
	if !isDetail(x) {
		return false
	}
	for i := len(a.waiting) - 1; i >= 0; i-- {
		h := &a.waiting[i]
		if !sameFault(&h.Xid, x) || h.Injected != x.Injected {
			continue
		}
		if !strings.Contains(h.Msg, x.Msg) && len(h.Msg)+len(x.Msg) < maxDetails {
			h.Msg += "; " + x.Msg
			h.came = now
		}
		return true
	}
	at, known := a.heads[keyOf(x)]
	return known && abs(x.Time-at) <= int64(detailWithin)
}

// pair merges the two reports of a fault: the time comes from the tracepoint, which has the
// session's clock, and the message from the log, which names the process.
func (a *Assembly) pair(x *tick.Xid, now time.Time) bool {
	if x.Injected {
		return false
	}
	for i := range a.waiting {
		h := &a.waiting[i]
		if h.paired || h.Injected || !twins(&h.Xid, x) {
			continue
		}
		log, point := &h.Xid, x
		if x.Via == tick.ViaKernelLog {
			log, point = x, &h.Xid
		}
		out := *log
		out.Time, out.Via = point.Time, point.Via
		if len(bare(point.Msg)) > len(bare(log.Msg)) { // the log truncated it
			out.Msg = point.Msg
		}
		h.Xid, h.came, h.paired = out, now, true
		return true
	}
	return false
}

// lostBefore reports whether a fault repeats that a GPU is lost. With its code, it replaces a
// waiting fault without.
func (a *Assembly) lostBefore(x *tick.Xid) bool {
	if x.Switch || x.Code != OffTheBus {
		return false
	}
	d := deviceOf(x)
	for i := range a.waiting {
		h := &a.waiting[i]
		if h.Code != OffTheBus || deviceOf(&h.Xid) != d || h.NoCode == x.NoCode && !x.NoCode {
			continue
		}
		if h.NoCode && !x.NoCode {
			at := min(h.Time, x.Time)
			h.Xid = *x
			h.Time = at
		}
		return true
	}
	last, known := a.losses[d]
	if !known || abs(x.Time-last.time) > int64(lossAgain) || !x.NoCode && !last.noCode {
		return false
	}
	a.losses[d] = loss{max(last.time, x.Time), last.noCode && x.NoCode}
	return true
}

// Take appends the faults that are complete or have waited long enough.
func (a *Assembly) Take(dst []tick.Xid, now time.Time) []tick.Xid {
	n := 0
	for n < len(a.waiting) && (a.complete(&a.waiting[n]) || now.Sub(a.waiting[n].came) >= a.waiting[n].patience() || len(a.waiting)-n > maxWaiting) {
		n++
	}
	return a.give(dst, n)
}

// Flush appends all waiting faults.
func (a *Assembly) Flush(dst []tick.Xid) []tick.Xid { return a.give(dst, len(a.waiting)) }

// Wait returns how long the oldest fault still waits, and whether there is one.
func (a *Assembly) Wait(now time.Time) (time.Duration, bool) {
	if len(a.waiting) == 0 {
		return 0, false
	}
	return max(0, a.waiting[0].patience()-now.Sub(a.waiting[0].came)), true
}

// patience is how long a fault waits at most.
func (h *waitingFault) patience() time.Duration {
	if h.Via == tick.ViaTracepoint && !h.paired {
		return lateLog
	}
	return Settle
}

// complete reports whether no more reports of a fault are expected.
func (a *Assembly) complete(h *waitingFault) bool {
	return !h.Switch && !h.NoCode && (h.paired || h.Injected || !a.BothSources)
}

// give appends the first n waiting faults.
func (a *Assembly) give(dst []tick.Xid, n int) []tick.Xid {
	for i := range a.waiting[:n] {
		h := &a.waiting[i]
		if !h.paired && !a.twins.First(&h.Xid) {
			continue
		}
		a.note(&h.Xid)
		dst = append(dst, h.Xid)
	}
	a.waiting = slices.Delete(a.waiting, 0, n)
	return dst
}

// note records a fault that other reports may repeat.
func (a *Assembly) note(x *tick.Xid) {
	switch {
	case x.Switch:
		if a.heads == nil || len(a.heads) >= maxDevices {
			a.heads = map[faultKey]int64{}
		}
		a.heads[keyOf(x)] = x.Time
	case x.Code == OffTheBus:
		if a.losses == nil || len(a.losses) >= maxDevices {
			a.losses = map[device]loss{}
		}
		a.losses[deviceOf(x)] = loss{x.Time, x.NoCode}
	}
}

// sameFault reports whether two reports have the same code and device.
func sameFault(a, b *tick.Xid) bool { return keyOf(a) == keyOf(b) }

func abs(ns int64) int64 { return max(ns, -ns) }
