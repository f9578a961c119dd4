package segment

import (
	"fmt"

	"ingero/internal/store/log"
	"ingero/pkg/events"
)

// waitDecoder decodes frame bodies into waits. It reuses its memory.
type waitDecoder struct {
	unpacker
	cols    [waitColumns]reader
	seen    []victim
	parties []events.Thread // each as of its last wait
	shapes  []waitKind
	args    []uint64
	passed  int64 // last value
}

func newWaitDecoder() (*waitDecoder, error) {
	u, err := newUnpacker(waitColumns + 1)
	return &waitDecoder{unpacker: u}, err
}

// waits appends the waits of a frame's body, and for each the number of the next frame's calls
// before it. On error it appends nothing.
func (d *waitDecoder) waits(dst []events.Wait, after []int, body []byte) ([]events.Wait, []int, error) {
	r := reader{b: body}
	n := r.uint()
	r.int()
	r.int()
	victims, parties, shapes := r.uint(), r.uint(), r.uint()
	if r.bad || n > frameWaitsCap || victims > n || parties > n || shapes > n {
		return dst, after, fmt.Errorf("%w: invalid frame of %d waits", log.ErrCorrupt, n)
	}
	const thingMax, waitMax = 2*5 + 5 + 10 + 18, 30 // most bytes of one in a column
	things, err := d.column(&r, waitColumns, int(victims+parties+shapes)*thingMax)
	if err != nil {
		return dst, after, err
	}
	for i := range d.cols {
		if d.cols[i], err = d.column(&r, i, int(n)*waitMax); err != nil {
			return dst, after, err
		}
	}
	if len(r.b) != 0 || !d.things(&things, int(victims), int(parties), int(shapes)) {
		return dst, after, fmt.Errorf("%w: invalid shapes in a frame of waits", log.ErrCorrupt)
	}
	had, hadAfter := len(dst), len(after)
	dst = d.rows(dst, int(n))
	after = d.runs(after, int(n))
	for i := range d.cols {
		if d.cols[i].bad || len(d.cols[i].b) != 0 {
			return dst[:had], after[:hadAfter], fmt.Errorf("%w: invalid column %d in a frame of waits", log.ErrCorrupt, i)
		}
	}
	return dst, after, nil
}

func (d *waitDecoder) things(r *reader, victims, parties, shapes int) bool {
	d.seen, d.parties, d.shapes, d.args = d.seen[:0], d.parties[:0], d.shapes[:0], d.args[:0]
	var last threadKey
	for range victims {
		d.seen = append(d.seen, victim{threadKey: readThreadKey(r, &last)})
	}
	last = threadKey{}
	var cgroup uint64
	for range parties {
		k := readThreadKey(r, &last)
		p := events.Thread{PID: k.pid, TID: k.tid, Parent: r.small()}
		cgroup += uint64(r.int())
		p.Cgroup = cgroup
		name := r.bytes(r.count())
		if r.bad || len(name) > len(p.Name) {
			return false
		}
		copy(p.Name[:], name)
		d.parties = append(d.parties, p)
	}
	at := int64(0)
	for range shapes {
		at += r.int()
		k := waitKind{victim: uint32(at), op: events.Op(r.tiny()), form: waitForm(r.tiny())}
		b := r.bytes(4)
		k.syscall, k.dev = events.Syscall(r.tiny()), r.small()
		if r.bad || at < 0 || at >= int64(victims) || k.form > waitFormAll {
			return false
		}
		if k.form&waitHopped != 0 {
			hop := r.bytes(1)
			if r.bad {
				return false
			}
			k.hop = hop[0]
		}
		k.state, k.reason, k.file, k.flags = events.WaitState(b[0]), events.Reason(b[1]), events.FileKind(b[2]), events.WaitFlags(b[3])
		d.shapes = append(d.shapes, k)
		d.args = append(d.args, 0)
	}
	return !r.bad && len(r.b) == 0
}

func readThreadKey(r *reader, last *threadKey) threadKey {
	pid, tid := int64(last.pid)+r.int(), int64(last.tid)+r.int()
	if pid != int64(uint32(pid)) || tid != int64(uint32(tid)) {
		r.fail()
		return threadKey{}
	}
	*last = threadKey{uint32(pid), uint32(tid)}
	return *last
}

// rows appends n waits. It stops early if a column runs out; the column has its error flag set
// then.
func (d *waitDecoder) rows(dst []events.Wait, n int) []events.Wait {
	var end int64
	d.passed = 0
	for range n {
		id := d.cols[waitShape].uint()
		if id >= uint64(len(d.shapes)) {
			d.cols[waitShape].fail()
			return dst
		}
		k := &d.shapes[id]
		v := &d.seen[k.victim]
		dst = append(dst, events.Wait{PID: v.pid, TID: v.tid, Dev: k.dev, Op: k.op, Syscall: k.syscall,
			State: k.state, Reason: k.reason, File: k.file, Flags: k.flags, Hop: k.hop})
		w := &dst[len(dst)-1]
		end = d.times(w, v, k.form, end)
		if k.form&waitArged != 0 {
			d.args[id] += uint64(d.cols[waitArg].int())
			w.Arg = d.args[id]
		}
		if !d.party(w, k.form) {
			d.cols[waitParty].fail()
			return dst
		}
		w.CPU = v.cpu
		if k.form&waitMigrated != 0 {
			w.CPU = d.cols[waitCPU].tiny()
		}
		v.start, v.end, v.cpu = w.Start, end, w.CPU
	}
	return dst
}

// party reads a wait's party, its stacks, and how often the GIL had passed.
func (d *waitDecoder) party(w *events.Wait, f waitForm) bool {
	r := &d.cols[waitParty]
	var who *events.Thread
	if f&waitPartied != 0 {
		party := r.uint()
		if party >= uint64(len(d.parties)) {
			return false
		}
		who = &d.parties[party]
		w.Who = *who
		w.Who.Start = 0
	}
	if f&waitStacked != 0 {
		w.Stack = r.small()
	}
	if f&waitStarted != 0 {
		if who == nil {
			return false
		}
		start := int64(who.Start) + r.int()
		if start != int64(uint32(start)) {
			return false
		}
		who.Start, w.Who.Start = uint32(start), uint32(start)
	}
	if f&waitPassed != 0 {
		d.passed += r.int()
		if d.passed != int64(uint32(d.passed)) {
			return false
		}
		w.Passed = uint32(d.passed)
	}
	if f&waitOwned != 0 {
		w.Own = r.small()
	}
	return true
}

// times reads a wait's times, given the victim's last, and returns its end; end is the previous
// wait's.
func (d *waitDecoder) times(w *events.Wait, v *victim, f waitForm, end int64) int64 {
	if f&waitSame != 0 {
		w.Start, w.Duration, end = v.start, v.end-v.start, v.end
	} else {
		end += d.cols[waitEnd].int()
		if f&waitNext != 0 {
			w.Duration = end - v.end
		} else {
			w.Duration = int64(d.cols[waitTime].uint())
		}
		w.Start = end - w.Duration
	}
	switch {
	case f&waitAllTaken != 0:
		w.Taken = w.Duration
	case f&waitTaking != 0:
		w.Taken = int64(d.cols[waitTaken].uint())
	}
	return end
}

// runs appends how many calls precede each of n waits.
func (d *waitDecoder) runs(after []int, n int) []int {
	r := &d.cols[waitRuns]
	calls := uint64(0)
	for n > 0 {
		calls += min(r.uint(), frameCallsCap+1)
		run := r.uint()
		if r.bad || calls > frameCallsCap || run == 0 || run > uint64(n) {
			r.fail()
			return after
		}
		for range run {
			after = append(after, int(calls))
		}
		n -= int(run)
	}
	return after
}
