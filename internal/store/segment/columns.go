package segment

import (
	"math"

	"ingero/pkg/events"
)

// A frame of calls stores them by column. The fields in which few calls differ (process, thread,
// operation, flags, result, ...) form a shape, written once a frame; a call refers to its shape by
// number. A column has values only of calls whose shape says so.
const (
	colShape  = iota // shape number
	colStart         // start, signed difference from the previous call's
	colTime          // duration
	colWait          // runnable, blocked, and throttled if any
	colGap           // gap
	colGapArg        // same, of the gap
	colArg0          // signed difference from the shape's previous call
	colArg1
	colArg2
	colArg3
	colOdd // parts that fit no other column, signed; launches; the stack of the gap
	columns
)

const (
	frameCallsMax = 16384   // calls in a full frame
	frameCallsCap = 1 << 16 // most calls that a reader accepts
	tableStart    = 2048    // initial size of the shapes' hash table, a power of two
	compressFrom  = 128     // bytes
)

// form says which columns have values of a call.
type form uint16

const (
	formArgs    form = 0x07 // number of arguments, 0 to 4
	formCopied  form = 1 << 3
	formTime    form = 1 << 4
	formWaited  form = 1 << 5
	formOdd     form = 1 << 6
	formGap     form = 1 << 7
	formGapWait form = 1 << 8
	formGapOdd  form = 1 << 9
	// Since version 2.
	formThrottled    form = 1 << 10
	formGapThrottled form = 1 << 11
	// Since version 3: the shape has a device.
	formDevice form = 1 << 12
	// Since version 4: the shape has a stack level.
	formLevel form = 1 << 13
	// Since version 5.
	formLaunches form = 1 << 14
	// Since version 6.
	formGapStack form = 1 << 15
)

// shape holds the fields that similar calls share.
type shape struct {
	pid, tid, tag, weight, stack uint32
	result                       int32
	op, parent                   events.Op
	flags                        events.CallFlags
	device                       int16
	form                         form
	level                        uint8 // events.Call.StackLevel
}

func (s *shape) hash() uint32 {
	h := (uint64(s.pid)<<32 | uint64(s.tid)) * 0x9e3779b97f4a7c15
	h ^= (uint64(s.op)<<48 | uint64(s.parent)<<32 | uint64(s.flags)<<16 | uint64(s.form)) * 0xc2b2ae3d27d4eb4f
	h ^= (uint64(s.tag)<<32 | uint64(s.weight) ^ uint64(uint16(s.device))<<16 ^ uint64(s.level)<<40) * 0x165667b19e3779f9
	h ^= (uint64(uint32(s.result))<<32 | uint64(s.stack)) * 0x27d4eb2f165667c5
	return uint32(h ^ h>>29 ^ h>>47)
}

// encoder encodes calls into a frame's body. It reuses its memory.
type encoder struct {
	packer
	cols   [columns][]byte
	n      int
	forms  form  // union over all calls
	first  int64 // earliest start
	last   int64 // latest end
	start  int64 // start of the previous call
	args   [events.MaxArgs]uint64
	shapes []shape
	prev   [][events.MaxArgs]uint64 // arguments of each shape's last call
	next   []uint32                 // the shape that last followed each shape
	shape  uint32                   // shape of the previous call
	table  []uint32                 // shape number + 1, by hash
}

func newEncoder() (*encoder, error) {
	p, err := newPacker()
	if err != nil {
		return nil, err
	}
	e := &encoder{packer: p, table: make([]uint32, tableStart)}
	e.reset()
	return e, nil
}

func (e *encoder) reset() {
	for i := range e.cols {
		e.cols[i] = e.cols[i][:0]
	}
	clear(e.table)
	e.shapes, e.prev, e.next = e.shapes[:0], e.prev[:0], e.next[:0]
	e.n, e.forms, e.start, e.shape = 0, 0, 0, 0
	e.first, e.last = math.MaxInt64, math.MinInt64
	e.args = [events.MaxArgs]uint64{}
}

// formOf returns the columns that a call needs.
func (e *encoder) formOf(c *events.Call) form {
	var f form
	switch {
	case c.Args[3] != 0:
		f = 4
	case c.Args[2] != 0:
		f = 3
	case c.Args[1] != 0:
		f = 2
	case c.Args[0] != 0:
		f = 1
	}
	if c.Flags&events.CallInherited != 0 && e.n > 0 && c.Args == e.args {
		f = formCopied
	}
	if c.Duration|c.OnCPU|c.Runnable|c.Throttled|c.Blocked != 0 {
		f |= formTime
		if c.Runnable|c.Throttled|c.Blocked != 0 {
			f |= formWaited
			if c.Throttled != 0 {
				f |= formThrottled
			}
		}
		if !addsUp(c.Duration, c.OnCPU, c.Runnable, c.Throttled, c.Blocked) {
			f = f&^(formTime|formWaited) | formOdd
		}
	}
	if c.Gap|c.GapOnCPU|c.GapRunnable|c.GapThrottled|c.GapBlocked != 0 {
		f |= formGap
		if c.GapRunnable|c.GapThrottled|c.GapBlocked != 0 {
			f |= formGapWait
			if c.GapThrottled != 0 {
				f |= formGapThrottled
			}
		}
		if !addsUp(c.Gap, c.GapOnCPU, c.GapRunnable, c.GapThrottled, c.GapBlocked) {
			f = f&^(formGap|formGapWait) | formGapOdd
		}
	}
	if c.Device != 0 {
		f |= formDevice
	}
	if c.StackLevel != 0 {
		f |= formLevel
	}
	if c.Launches != 0 {
		f |= formLaunches
	}
	if c.GapStack != 0 {
		f |= formGapStack
	}
	return f
}

// addsUp reports whether the on-CPU time equals the sum minus the other parts.
func addsUp(sum, on, runnable, throttled, blocked int64) bool {
	return on|runnable|throttled|blocked >= 0 && sum-runnable-throttled-blocked == on
}

// add appends a call.
func (e *encoder) add(c *events.Call) {
	f := e.formOf(c)
	s := shape{c.PID, c.TID, c.Tag, c.Weight, c.Stack, c.Result, c.Op, c.Parent, c.Flags, c.Device, f, c.StackLevel}
	id := e.find(&s)
	e.cols[colShape] = appendUvarint(e.cols[colShape], uint64(id))
	e.cols[colStart] = appendUvarint(e.cols[colStart], zig(c.Start-e.start))
	e.start = c.Start
	e.first, e.last = min(e.first, c.Start), max(e.last, c.Start, c.End())
	if f&formTime != 0 {
		e.cols[colTime] = appendUvarint(e.cols[colTime], uint64(c.Duration))
		if f&formWaited != 0 {
			e.waited(colWait, f&formThrottled != 0, c.Runnable, c.Blocked, c.Throttled)
		}
	}
	if f&formGap != 0 {
		e.cols[colGap] = appendUvarint(e.cols[colGap], uint64(c.Gap))
		if f&formGapWait != 0 {
			e.waited(colGapArg, f&formGapThrottled != 0, c.GapRunnable, c.GapBlocked, c.GapThrottled)
		}
	}
	if f&formOdd != 0 {
		e.odd(f&formThrottled != 0, c.Duration, c.OnCPU, c.Runnable, c.Blocked, c.Throttled)
	}
	if f&formGapOdd != 0 {
		e.odd(f&formGapThrottled != 0, c.Gap, c.GapOnCPU, c.GapRunnable, c.GapBlocked, c.GapThrottled)
	}
	if f&formLaunches != 0 {
		e.cols[colOdd] = appendUvarint(e.cols[colOdd], uint64(c.Launches))
	}
	if f&formGapStack != 0 {
		e.cols[colOdd] = appendUvarint(e.cols[colOdd], uint64(c.GapStack))
	}
	if n := int(f & formArgs); n > 0 {
		prev := &e.prev[id]
		for i := range n {
			e.cols[colArg0+i] = appendUvarint(e.cols[colArg0+i], zig(int64(c.Args[i]-prev[i])))
		}
		*prev = c.Args
	}
	e.args = c.Args
	e.forms |= f
	e.n++
}

// waited appends the off-CPU parts of a time. Few times have a throttled part.
func (e *encoder) waited(col int, three bool, runnable, blocked, throttled int64) {
	e.cols[col] = appendUvarint(appendUvarint(e.cols[col], uint64(runnable)), uint64(blocked))
	if three {
		e.cols[col] = appendUvarint(e.cols[col], uint64(throttled))
	}
}

// odd appends a time and its parts; the last part is mostly absent.
func (e *encoder) odd(five bool, parts ...int64) {
	if !five {
		parts = parts[:4]
	}
	for _, v := range parts {
		e.cols[colOdd] = appendUvarint(e.cols[colOdd], zig(v))
	}
}

// version returns the version of the body's format.
func (e *encoder) version() uint8 {
	switch {
	case e.forms&formGapStack != 0:
		return 6
	case e.forms&formLaunches != 0:
		return 5
	case e.forms&formLevel != 0:
		return 4
	case e.forms&formDevice != 0:
		return 3
	case e.forms&(formThrottled|formGapThrottled) != 0:
		return 2
	}
	return 1
}

// find returns a shape's number. Calls come in loops, so it first tries the shape that last
// followed the previous one.
func (e *encoder) find(s *shape) uint32 {
	if len(e.shapes) > 0 {
		if id := e.next[e.shape]; e.shapes[id] == *s {
			e.shape = id
			return id
		}
	}
	mask := uint32(len(e.table) - 1)
	for i := s.hash() & mask; ; i = (i + 1) & mask {
		id := e.table[i]
		if id == 0 {
			return e.learn(s, i)
		}
		if e.shapes[id-1] == *s {
			e.next[e.shape] = id - 1
			e.shape = id - 1
			return e.shape
		}
	}
}

// learn adds a new shape at a free slot.
func (e *encoder) learn(s *shape, slot uint32) uint32 {
	id := uint32(len(e.shapes))
	e.shapes = append(e.shapes, *s)
	e.prev = append(e.prev, [events.MaxArgs]uint64{})
	e.next = append(e.next, id)
	e.table[slot] = id + 1
	if id > 0 {
		e.next[e.shape] = id
	}
	e.shape = id
	if len(e.shapes)*2 > len(e.table) {
		e.table = make([]uint32, 2*len(e.table))
		mask := uint32(len(e.table) - 1)
		for n := range e.shapes {
			i := e.shapes[n].hash() & mask
			for e.table[i] != 0 {
				i = (i + 1) & mask
			}
			e.table[i] = uint32(n) + 1
		}
	}
	return id
}

// body appends the encoded calls since reset.
func (e *encoder) body(b []byte) []byte {
	b = appendUvarint(b, uint64(e.n))
	b = appendUvarint(appendUvarint(b, zig(e.first)), zig(e.last))
	b = appendUvarint(b, uint64(len(e.shapes)))
	e.packed = e.packed[:0]
	for i := range e.shapes {
		e.packed = appendShape(e.packed, &e.shapes[i])
	}
	shapes := len(e.packed)
	b = e.column(b, e.packed)
	e.packed = e.packed[:shapes]
	for i := range e.cols {
		b = e.column(b, e.cols[i])
	}
	return b
}

func appendShape(b []byte, s *shape) []byte {
	for _, v := range [...]uint32{s.pid, s.tid, s.tag, s.weight, s.stack} {
		b = appendUvarint(b, uint64(v))
	}
	b = appendUvarint(b, zig(int64(s.result)))
	for _, v := range [...]uint16{uint16(s.op), uint16(s.parent), uint16(s.flags), uint16(s.form)} {
		b = appendUvarint(b, uint64(v))
	}
	if s.form&formDevice != 0 {
		b = appendUvarint(b, zig(int64(s.device)))
	}
	if s.form&formLevel != 0 {
		b = append(b, s.level)
	}
	return b
}
