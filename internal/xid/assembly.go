package xid

import (
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
)

const (
	// Settle is how long a fault waits for what else the driver says of it: its report by
	// the other way, its details, its code.
	Settle = 100 * time.Millisecond
	// lateLog is how long a fault that came by the tracepoint waits for its line of the log,
	// which was written before: who reads the log may be behind. Nobody waits for it but
	// where the line is lost.
	lateLog = 2 * time.Second
	// maxHeld bounds the faults that wait. When there are more, the oldest is given out.
	maxHeld = 1 << 14
	// lossAgain is how long a lost GPU is told once: the driver says it at each attempt to
	// reach it.
	lossAgain = time.Minute
	// detailWithin is how long after an SXid its details may come.
	detailWithin = 5 * time.Second
	// maxDetails bounds what details add to a message, in bytes.
	maxDetails = 1 << 10
)

// Assembly makes one fault of all that the driver says of it: a line of the log and a
// tracepoint, an SXid and its details, a lost GPU with a code and without. The zero value
// is ready. It is for one goroutine, and whoever uses it says what time it is.
type Assembly struct {
	// Both says that the tracepoint is read beside the log: a fault waits for the other
	// report.
	Both   bool
	twins  Twins
	held   []held             // the oldest first
	losses map[device]loss    // of GPUs that were said to be lost
	heads  map[faultKey]int64 // when SXids that were given out came last, Unix ns
}

// held is a fault that waits.
type held struct {
	tick.Xid
	came   time.Time // when the last report of it did
	paired bool      // both reports have come
}

// loss is when a GPU was said to be lost last, Unix ns, and how.
type loss struct {
	time   int64
	noCode bool
}

// Add takes a report in.
func (a *Assembly) Add(x *tick.Xid, now time.Time) {
	if a.joined(x, now) || a.pair(x, now) || a.lostBefore(x) {
		return
	}
	a.held = append(a.held, held{Xid: *x, came: now})
}

// joined adds a detail to the SXid that it belongs to, which then waits for more. It tells
// whether there was one.
func (a *Assembly) joined(x *tick.Xid, now time.Time) bool {
	if !isDetail(x) {
		return false
	}
	for i := len(a.held) - 1; i >= 0; i-- {
		h := &a.held[i]
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

// pair joins a report by one way to that by the other: the time is the tracepoint's,
// whose clock is the session's, and the message the log's, which names the process.
func (a *Assembly) pair(x *tick.Xid, now time.Time) bool {
	if x.Injected {
		return false
	}
	for i := range a.held {
		h := &a.held[i]
		if h.paired || h.Injected || !twins(&h.Xid, x) {
			continue
		}
		log, point := &h.Xid, x
		if x.Via == tick.ViaKernelLog {
			log, point = x, &h.Xid
		}
		out := *log
		out.Time, out.Via = point.Time, point.Via
		if len(bare(point.Msg)) > len(bare(log.Msg)) { // the log's was cut
			out.Msg = point.Msg
		}
		h.Xid, h.came, h.paired = out, now, true
		return true
	}
	return false
}

// lostBefore tells whether a fault says again that a GPU is lost. With its code it takes the
// place of one without that waits.
func (a *Assembly) lostBefore(x *tick.Xid) bool {
	if x.Switch || x.Code != OffTheBus {
		return false
	}
	d := deviceOf(x)
	for i := range a.held {
		h := &a.held[i]
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

// Take appends the faults of which all is known, or that have waited long enough.
func (a *Assembly) Take(dst []tick.Xid, now time.Time) []tick.Xid {
	n := 0
	for n < len(a.held) && (a.complete(&a.held[n]) || now.Sub(a.held[n].came) >= a.held[n].patience() || len(a.held)-n > maxHeld) {
		n++
	}
	return a.give(dst, n)
}

// Flush appends all faults that wait.
func (a *Assembly) Flush(dst []tick.Xid) []tick.Xid { return a.give(dst, len(a.held)) }

// Wait returns how long the oldest fault waits yet, and whether one does.
func (a *Assembly) Wait(now time.Time) (time.Duration, bool) {
	if len(a.held) == 0 {
		return 0, false
	}
	return max(0, a.held[0].patience()-now.Sub(a.held[0].came)), true
}

// patience is how long a fault waits at most.
func (h *held) patience() time.Duration {
	if h.Via == tick.ViaTracepoint && !h.paired {
		return lateLog
	}
	return Settle
}

// complete tells whether nothing more is awaited of a fault.
func (a *Assembly) complete(h *held) bool {
	return !h.Switch && !h.NoCode && (h.paired || h.Injected || !a.Both)
}

// give appends the first n that wait.
func (a *Assembly) give(dst []tick.Xid, n int) []tick.Xid {
	for i := range a.held[:n] {
		h := &a.held[i]
		if !h.paired && !a.twins.First(&h.Xid) {
			continue
		}
		a.note(&h.Xid)
		dst = append(dst, h.Xid)
	}
	a.held = slices.Delete(a.held, 0, n)
	return dst
}

// note remembers of a fault what others may say again.
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

// sameFault tells whether two reports are of one code and device.
func sameFault(a, b *tick.Xid) bool { return keyOf(a) == keyOf(b) }

func abs(ns int64) int64 { return max(ns, -ns) }
