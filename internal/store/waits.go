package store

import (
	"math"

	"ingero/pkg/events"
)

// A frame of waits stores them by column, as one of calls does. Threads that
// waited (victims) and threads that had a part in it (parties) are written once
// a frame, and so is what waits of a kind share: their shape. A wait is found by
// its end, since that is the order in which they come.
const (
	waitShape = iota // number of the shape
	waitEnd          // to the end of the wait before, either sign
	waitTime         // duration
	waitTaken
	waitArg   // to the shape's last argument, either sign
	waitParty // number of the party
	waitCPU
	waitRuns // how many calls of the next frame came, then how many waits, and so on
	waitColumns
)

const (
	frameWaitsMax = 8192    // waits at which a frame is full
	frameWaitsCap = 1 << 16 // waits that a reader accepts
)

// waitForm says which columns hold something of a wait.
type waitForm uint16

const (
	waitTaking   waitForm = 1 << iota // Taken is in its column
	waitAllTaken                      // Taken is Duration
	waitArged                         // Arg is in its column, else 0
	waitPartied                       // there is a party
	waitMigrated                      // CPU is in its column, else that of the victim's wait before
	waitNext                          // it began where the victim's wait before ended
	waitSame                          // it is at the time of the victim's wait before
	waitStacked                       // there is a stack, behind the party
	waitStarted                       // from version 3 on: when the party was started, behind these, to its last such time
	waitHopped                        // likewise: the victim is some hops behind a thread that makes traced calls
	waitPassed                        // from version 4 on: how often the GIL had passed, behind these, to the last such number
	waitFormAll  waitForm = 1<<11 - 1
)

// waitKind is a shape: waits of it are alike but for times, places and parties.
type waitKind struct {
	victim  uint32 // its number
	dev     uint32
	op      events.Op
	syscall events.Syscall
	form    waitForm
	state   events.WaitState
	reason  events.Reason
	file    events.FileKind
	flags   events.WaitFlags
	hop     uint8
}

type threadKey struct{ pid, tid uint32 }

// victim is a thread that waited, and the last time it did.
type victim struct {
	threadKey
	start, end int64
	cpu        uint16
}

// waitEncoder turns waits into the body of a frame. It keeps its memory.
type waitEncoder struct {
	packer
	cols    [waitColumns][]byte
	n       int
	first   int64 // earliest start
	last    int64 // latest end
	end     int64 // of the wait before
	calls   int   // that had come when the last run began
	run     int   // waits in it
	victims numbers[threadKey]
	seen    []victim
	parties numbers[events.Thread]
	starts  []uint32 // of parties, last
	passed  uint32   // last
	shapes  numbers[waitKind]
	args    []uint64 // of a shape's last wait
	things  []byte
}

func newWaitEncoder() (*waitEncoder, error) {
	p, err := newPacker()
	if err != nil {
		return nil, err
	}
	e := &waitEncoder{packer: p, victims: newNumbers[threadKey](), parties: newNumbers[events.Thread](), shapes: newNumbers[waitKind]()}
	e.reset()
	return e, nil
}

func (e *waitEncoder) reset() {
	for i := range e.cols {
		e.cols[i] = e.cols[i][:0]
	}
	e.victims.reset()
	e.parties.reset()
	e.shapes.reset()
	e.seen, e.args, e.starts = e.seen[:0], e.args[:0], e.starts[:0]
	e.n, e.end, e.calls, e.run, e.passed = 0, 0, 0, 0, 0
	e.first, e.last = math.MaxInt64, math.MinInt64
}

// add takes one wait in, before which so many calls of the next frame came.
func (e *waitEncoder) add(w *events.Wait, calls int) {
	if calls != e.calls && e.run > 0 {
		e.endRun()
	}
	if e.run == 0 {
		e.cols[waitRuns] = put(e.cols[waitRuns], uint64(calls-e.calls))
		e.calls = calls
	}
	e.run++
	e.n++
	id, fresh := e.victims.of(threadKey{w.PID, w.TID})
	if fresh {
		e.seen = append(e.seen, victim{threadKey: threadKey{w.PID, w.TID}})
	}
	v, end := &e.seen[id], w.End()
	k := waitKind{id, w.Dev, w.Op, w.Syscall, formOfWait(w, v), w.State, w.Reason, w.File, w.Flags, w.Hop}
	e.columns(w, &k)
	e.first, e.last = min(e.first, w.Start), max(e.last, w.Start, end)
	e.end = end
	v.start, v.end, v.cpu = w.Start, end, w.CPU
}

// columns puts what the wait has in them.
func (e *waitEncoder) columns(w *events.Wait, k *waitKind) {
	shape, fresh := e.shapes.of(*k)
	if fresh {
		e.args = append(e.args, 0)
	}
	e.put(waitShape, uint64(shape))
	if k.form&waitSame == 0 {
		e.put(waitEnd, zig(w.End()-e.end))
		if k.form&waitNext == 0 {
			e.put(waitTime, uint64(w.Duration))
		}
	}
	if k.form&waitTaking != 0 {
		e.put(waitTaken, uint64(w.Taken))
	}
	if k.form&waitArged != 0 {
		e.put(waitArg, zig(int64(w.Arg-e.args[shape])))
		e.args[shape] = w.Arg
	}
	party := uint32(0)
	if k.form&waitPartied != 0 {
		who := w.Who
		who.Start = 0
		if party, fresh = e.parties.of(who); fresh {
			e.starts = append(e.starts, 0)
		}
		e.put(waitParty, uint64(party))
	}
	if k.form&waitStacked != 0 {
		e.put(waitParty, uint64(w.Stack))
	}
	if k.form&waitStarted != 0 {
		e.put(waitParty, zig(int64(w.Who.Start)-int64(e.starts[party])))
		e.starts[party] = w.Who.Start
	}
	if k.form&waitPassed != 0 {
		e.put(waitParty, zig(int64(w.Passed)-int64(e.passed)))
		e.passed = w.Passed
	}
	if k.form&waitMigrated != 0 {
		e.put(waitCPU, uint64(w.CPU))
	}
}

func (e *waitEncoder) put(col int, v uint64) { e.cols[col] = put(e.cols[col], v) }

// formOfWait says which columns a wait needs, after the victim's last.
func formOfWait(w *events.Wait, v *victim) (f waitForm) {
	switch w.Taken {
	case 0:
	case w.Duration:
		f = waitAllTaken
	default:
		f = waitTaking
	}
	if w.Arg != 0 {
		f |= waitArged
	}
	if w.Who != (events.Thread{}) {
		f |= waitPartied
	}
	if w.Stack != 0 {
		f |= waitStacked
	}
	if w.Who.Start != 0 {
		f |= waitStarted
	}
	if w.Hop != 0 {
		f |= waitHopped
	}
	if w.Passed != 0 {
		f |= waitPassed
	}
	if w.CPU != v.cpu {
		f |= waitMigrated
	}
	switch w.Start {
	case v.end:
		f |= waitNext
	case v.start:
		if w.End() == v.end {
			f |= waitSame
		}
	}
	return f
}

func (e *waitEncoder) endRun() {
	e.cols[waitRuns] = put(e.cols[waitRuns], uint64(e.run))
	e.run = 0
}

// body appends the waits taken in since reset, which it ends.
func (e *waitEncoder) body(b []byte) []byte {
	if e.run > 0 {
		e.endRun()
	}
	b = put(b, uint64(e.n))
	b = put(put(b, zig(e.first)), zig(e.last))
	b = put(put(put(b, uint64(len(e.seen))), uint64(len(e.parties.list))), uint64(len(e.shapes.list)))
	t := e.things[:0]
	var last threadKey
	for _, k := range e.victims.list {
		t = appendThreadKey(t, k, &last)
	}
	t = appendParties(t, e.parties.list)
	at := uint32(0)
	for i := range e.shapes.list {
		k := &e.shapes.list[i]
		t = put(t, zig(int64(k.victim)-int64(at)))
		at = k.victim
		t = put(put(t, uint64(k.op)), uint64(k.form))
		t = append(t, byte(k.state), byte(k.reason), byte(k.file), byte(k.flags))
		t = put(put(t, uint64(k.syscall)), uint64(k.dev))
		if k.form&waitHopped != 0 {
			t = append(t, k.hop)
		}
	}
	e.things = t
	b = e.column(b, t)
	for i := range e.cols {
		b = e.column(b, e.cols[i])
	}
	return b
}

// appendThreadKey appends a thread's ids, as far from the last one's as they are.
func appendThreadKey(b []byte, k threadKey, last *threadKey) []byte {
	b = put(put(b, zig(int64(k.pid)-int64(last.pid))), zig(int64(k.tid)-int64(last.tid)))
	*last = k
	return b
}

func appendParties(b []byte, parties []events.Thread) []byte {
	var last threadKey
	var cgroup uint64
	for i := range parties {
		p := &parties[i]
		b = appendThreadKey(b, threadKey{p.PID, p.TID}, &last)
		b = put(put(b, uint64(p.Parent)), zig(int64(p.Cgroup-cgroup)))
		cgroup = p.Cgroup
		n := len(p.Name)
		for n > 0 && p.Name[n-1] == 0 {
			n--
		}
		b = append(put(b, uint64(n)), p.Name[:n]...)
	}
	return b
}

// numbers gives things numbers, from 0, in the order in which they are met.
type numbers[K comparable] struct {
	list []K
	ids  map[K]uint32
	last uint32 // the number given last: things come in rows
}

func newNumbers[K comparable]() numbers[K] { return numbers[K]{ids: map[K]uint32{}} }

func (n *numbers[K]) reset() {
	n.list, n.last = n.list[:0], 0
	clear(n.ids)
}

// of returns the number of a thing; fresh says that it is new.
func (n *numbers[K]) of(k K) (id uint32, fresh bool) {
	if len(n.list) > 0 && n.list[n.last] == k {
		return n.last, false
	}
	id, known := n.ids[k]
	if !known {
		id = uint32(len(n.list))
		n.ids[k] = id
		n.list = append(n.list, k)
	}
	n.last = id
	return id, !known
}
