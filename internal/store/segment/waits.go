package segment

import (
	"math"

	"ingero/pkg/events"
)

// A frame of waits stores them by column, as a frame of calls does. Waiting threads (victims) and
// other threads involved (parties) are written once a frame, and so are the fields that similar
// waits share: their shape. A wait is stored by its end, since waits come in that order.
const (
	waitShape = iota // shape number
	waitEnd          // end, signed difference from the previous wait's
	waitTime         // duration
	waitTaken
	waitArg   // signed difference from the shape's previous argument
	waitParty // party number
	waitCPU
	waitRuns // alternating counts of the next frame's calls and of waits
	waitColumns
)

const (
	frameWaitsMax = 8192    // waits in a full frame
	frameWaitsCap = 1 << 16 // most waits that a reader accepts
)

// waitForm says which columns have values of a wait.
type waitForm uint16

const (
	waitTaking   waitForm = 1 << iota // Taken is in its column
	waitAllTaken                      // Taken equals Duration
	waitArged                         // Arg is in its column, else 0
	waitPartied                       // there is a party
	waitMigrated                      // CPU is in its column, else as in the victim's previous wait
	waitNext                          // it began when the victim's previous wait ended
	waitSame                          // it has the times of the victim's previous wait
	waitStacked                       // there is a stack, after the party
	waitStarted                       // since version 3: the party's start, after these, minus its last
	waitHopped                        // since version 3: the victim is hops behind a traced thread
	waitPassed                        // since version 4: GIL passes, after these, minus the last
	waitOwned                         // since version 5: the thread's own stack, after these
	waitFormAll  waitForm = 1<<12 - 1
)

// waitKind is a shape: its waits differ only in times, places and parties.
type waitKind struct {
	victim  uint32 // victim number
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

// victim is a waiting thread, and the time of its last wait.
type victim struct {
	threadKey
	start, end int64
	cpu        uint16
}

// waitEncoder encodes waits into a frame's body. It reuses its memory.
type waitEncoder struct {
	packer
	cols    [waitColumns][]byte
	n       int
	first   int64 // earliest start
	last    int64 // latest end
	end     int64 // of the previous wait
	calls   int   // calls before the current run
	run     int   // waits in the current run
	victims numbers[threadKey]
	seen    []victim
	parties numbers[events.Thread]
	starts  []uint32 // last start time of each party
	passed  uint32   // last value
	shapes  numbers[waitKind]
	args    []uint64 // last argument of each shape
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

// add appends a wait; calls is the number of the next frame's calls before it.
func (e *waitEncoder) add(w *events.Wait, calls int) {
	if calls != e.calls && e.run > 0 {
		e.endRun()
	}
	if e.run == 0 {
		e.cols[waitRuns] = appendUvarint(e.cols[waitRuns], uint64(calls-e.calls))
		e.calls = calls
	}
	e.run++
	e.n++
	id, fresh := e.victims.number(threadKey{w.PID, w.TID})
	if fresh {
		e.seen = append(e.seen, victim{threadKey: threadKey{w.PID, w.TID}})
	}
	v, end := &e.seen[id], w.End()
	k := waitKind{id, w.Dev, w.Op, w.Syscall, waitFormOf(w, v), w.State, w.Reason, w.File, w.Flags, w.Hop}
	e.columns(w, &k)
	e.first, e.last = min(e.first, w.Start), max(e.last, w.Start, end)
	e.end = end
	v.start, v.end, v.cpu = w.Start, end, w.CPU
}

// columns appends the wait's values to the columns.
func (e *waitEncoder) columns(w *events.Wait, k *waitKind) {
	shape, fresh := e.shapes.number(*k)
	if fresh {
		e.args = append(e.args, 0)
	}
	e.append(waitShape, uint64(shape))
	if k.form&waitSame == 0 {
		e.append(waitEnd, zig(w.End()-e.end))
		if k.form&waitNext == 0 {
			e.append(waitTime, uint64(w.Duration))
		}
	}
	if k.form&waitTaking != 0 {
		e.append(waitTaken, uint64(w.Taken))
	}
	if k.form&waitArged != 0 {
		e.append(waitArg, zig(int64(w.Arg-e.args[shape])))
		e.args[shape] = w.Arg
	}
	party := uint32(0)
	if k.form&waitPartied != 0 {
		who := w.Who
		who.Start = 0
		if party, fresh = e.parties.number(who); fresh {
			e.starts = append(e.starts, 0)
		}
		e.append(waitParty, uint64(party))
	}
	if k.form&waitStacked != 0 {
		e.append(waitParty, uint64(w.Stack))
	}
	if k.form&waitStarted != 0 {
		e.append(waitParty, zig(int64(w.Who.Start)-int64(e.starts[party])))
		e.starts[party] = w.Who.Start
	}
	if k.form&waitPassed != 0 {
		e.append(waitParty, zig(int64(w.Passed)-int64(e.passed)))
		e.passed = w.Passed
	}
	if k.form&waitOwned != 0 {
		e.append(waitParty, uint64(w.Own))
	}
	if k.form&waitMigrated != 0 {
		e.append(waitCPU, uint64(w.CPU))
	}
}

func (e *waitEncoder) append(col int, v uint64) { e.cols[col] = appendUvarint(e.cols[col], v) }

// waitFormOf returns the columns that a wait needs, given the victim's last wait.
func waitFormOf(w *events.Wait, v *victim) (f waitForm) {
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
	if w.Own != 0 {
		f |= waitOwned
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
	e.cols[waitRuns] = appendUvarint(e.cols[waitRuns], uint64(e.run))
	e.run = 0
}

// body appends the encoded waits since reset, and ends the current run.
func (e *waitEncoder) body(b []byte) []byte {
	if e.run > 0 {
		e.endRun()
	}
	b = appendUvarint(b, uint64(e.n))
	b = appendUvarint(appendUvarint(b, zig(e.first)), zig(e.last))
	b = appendUvarint(appendUvarint(appendUvarint(b, uint64(len(e.seen))), uint64(len(e.parties.list))), uint64(len(e.shapes.list)))
	t := e.things[:0]
	var last threadKey
	for _, k := range e.victims.list {
		t = appendThreadKey(t, k, &last)
	}
	t = appendParties(t, e.parties.list)
	at := uint32(0)
	for i := range e.shapes.list {
		k := &e.shapes.list[i]
		t = appendUvarint(t, zig(int64(k.victim)-int64(at)))
		at = k.victim
		t = appendUvarint(appendUvarint(t, uint64(k.op)), uint64(k.form))
		t = append(t, byte(k.state), byte(k.reason), byte(k.file), byte(k.flags))
		t = appendUvarint(appendUvarint(t, uint64(k.syscall)), uint64(k.dev))
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

// appendThreadKey appends a thread's ids as differences from the last thread's.
func appendThreadKey(b []byte, k threadKey, last *threadKey) []byte {
	b = appendUvarint(appendUvarint(b, zig(int64(k.pid)-int64(last.pid))), zig(int64(k.tid)-int64(last.tid)))
	*last = k
	return b
}

func appendParties(b []byte, parties []events.Thread) []byte {
	var last threadKey
	var cgroup uint64
	for i := range parties {
		p := &parties[i]
		b = appendThreadKey(b, threadKey{p.PID, p.TID}, &last)
		b = appendUvarint(appendUvarint(b, uint64(p.Parent)), zig(int64(p.Cgroup-cgroup)))
		cgroup = p.Cgroup
		n := len(p.Name)
		for n > 0 && p.Name[n-1] == 0 {
			n--
		}
		b = append(appendUvarint(b, uint64(n)), p.Name[:n]...)
	}
	return b
}

// numbers numbers things from 0, in order of their first appearance.
type numbers[K comparable] struct {
	list []K
	ids  map[K]uint32
	last uint32 // last number returned: things repeat
}

func newNumbers[K comparable]() numbers[K] { return numbers[K]{ids: map[K]uint32{}} }

func (n *numbers[K]) reset() {
	n.list, n.last = n.list[:0], 0
	clear(n.ids)
}

// number returns a thing's number; fresh reports whether it is new.
func (n *numbers[K]) number(k K) (id uint32, fresh bool) {
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
