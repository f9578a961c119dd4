package loop

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// mostTook bounds the names kept per turn and per step.
const mostTook = 4

// turn is the time from one return of a call that waits for the GPU to the next, or several
// successive turns combined.
type turn struct {
	from, to int64
	op       events.Op
	token    [kinds]uint32
	times    tick.StepTimes
	took     [mostTook]namedTime
}

// namedTime is time with a name.
type namedTime struct {
	ns     int64
	count  uint32
	thread events.Thread
	own    bool
	idle   bool
	reason events.Reason // 0: CPU time of who
	call   events.Syscall
	dev    uint32
}

func (t *namedTime) same(o *namedTime) bool {
	return t.thread.TID == o.thread.TID && t.idle == o.idle && t.reason == o.reason && t.call == o.call && t.dev == o.dev
}

// turnOf makes a turn of a ledger step.
func turnOf(s *ledger.Step) turn {
	p := &s.Parts
	t := turn{from: s.From, to: s.To, op: s.Op, token: tokensOf(s), times: tick.StepTimes{
		GPUWait: time.Duration(p.GPUWait), CallCPU: time.Duration(p.CallCPU), GapCPU: time.Duration(p.GapCPU),
		Runnable: time.Duration(p.Runnable + p.SyncRunnable), Throttled: time.Duration(p.Throttled + p.SyncThrottled), Unknown: time.Duration(p.Unknown)}}
	for _, ns := range p.Blocked {
		t.times.Blocked += time.Duration(ns)
	}
	for i := range s.Waits {
		if x, ok := namedTimeOf(&s.Waits[i], s.PID); ok {
			t.note(&x)
		}
	}
	return t
}

// namedTimeOf returns the name of a wait, if it has one.
func namedTimeOf(w *ledger.Wait, pid uint32) (x namedTime, ok bool) {
	x = namedTime{ns: w.NS, count: w.Count, thread: w.Who, own: w.Who.PID == pid, call: w.Call, dev: w.Dev}
	switch w.State {
	case events.WaitRunnable:
		x.idle, x.reason = w.Flags&events.WaitIdle != 0, w.Reason
		x.call, x.dev = 0, 0
		return x, x.idle || x.reason != 0 || w.Who.TID != 0
	case events.WaitBlocked:
		x.reason = w.Reason
		if w.Flags&events.WaitByIRQ != 0 {
			x.thread = events.Thread{}
		}
		return x, true
	}
	return x, false
}

// The kinds of tokens.
const (
	fine   = iota // closing call, calls that always have records, and launches
	coarse        // closing call, and the approximate number of launches
	place         // the fine one without launches: their number may change, and is unknown while they have no probes
	kinds
)

// tokensOf returns the tokens of a turn.
func tokensOf(s *ledger.Step) [kinds]uint32 {
	var sum uint32 // independent of the order of calls
	for i := range s.Ops {
		o := &s.Ops[i]
		if !kept(o.Op) {
			continue
		}
		h := (uint32(o.Op)<<8|uint32(o.Size))*2654435761 ^ o.Count*40503
		sum += h ^ h>>15
	}
	at := mix(mix(mix(2166136261, s.Kind&^0xff), sum), sum>>16)
	return [kinds]uint32{fine: mix(at, s.Launches), coarse: s.Kind, place: at}
}

func mix(h, v uint32) uint32 { return (h ^ v) * 16777619 }

// kept reports whether every call of an operation always has a record.
func kept(op events.Op) bool { return int(op) < len(keptOps) && keptOps[op] }

var keptOps = func() (list []bool) {
	for i := range events.Catalog {
		r := &events.Catalog[i]
		if n := int(r.Op) + 1; n > len(list) {
			list = append(list, make([]bool, n-len(list))...)
		}
		list[r.Op] = r.Always() != "" && !r.Polls()
	}
	return list
}()

// note adds a name to its entry, or replaces the smallest entry.
func (t *turn) note(x *namedTime) {
	least := 0
	for i := range t.took {
		y := &t.took[i]
		if y.ns > 0 && y.same(x) {
			y.ns += x.ns
			y.count += x.count
			return
		}
		if y.ns < t.took[least].ns {
			least = i
		}
	}
	if x.ns > t.took[least].ns {
		t.took[least] = *x
	}
}

// add appends the following turn.
func (t *turn) add(x *turn) {
	t.to, t.op = x.to, x.op
	for i, p := range t.times.Parts() {
		*p += *x.times.Parts()[i]
	}
	for i := range x.took {
		if x.took[i].ns > 0 {
			t.note(&x.took[i])
		}
	}
}

// toTick converts the step to a tick's form.
func (t *turn) toTick() tick.LoopStep {
	s := tick.LoopStep{From: time.Unix(0, t.from), To: time.Unix(0, t.to), Times: t.times}
	for i := range t.took {
		if x := &t.took[i]; x.ns > 0 {
			s.Took = append(s.Took, tick.Share{NS: uint64(x.ns), Count: uint64(x.count), Who: x.thread, Own: x.own && x.thread.TID != 0, Idle: x.idle, Reason: x.reason, Call: x.call, Dev: x.dev})
		}
	}
	slices.SortStableFunc(s.Took, func(a, b tick.Share) int { return cmp.Compare(b.NS, a.NS) })
	return s
}
