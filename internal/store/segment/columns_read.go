package segment

import (
	"fmt"
	"slices"

	"ingero/internal/store/log"
	"ingero/pkg/events"
)

// decoder decodes frame bodies into calls. It reuses its memory.
type decoder struct {
	unpacker
	cols   [columns]reader
	shapes []shape
	prev   [][events.MaxArgs]uint64
}

func newDecoder() (*decoder, error) {
	u, err := newUnpacker(columns + 1)
	return &decoder{unpacker: u}, err
}

// callMax is the most bytes of one call in each column.
var callMax = [columns]int{colShape: 5, colStart: 10, colTime: 10, colWait: 30, colGap: 10, colGapArg: 30, colArg0: 10, colArg1: 10, colArg2: 10, colArg3: 10, colOdd: 100}

// span returns the number of calls in a frame and the times between which they lie, without
// decoding them.
func span(body []byte) (n int, first, last int64) {
	r := reader{b: body}
	n = int(min(r.uint(), frameCallsCap+1))
	first, last = r.int(), r.int()
	return n, first, last
}

// calls appends the calls of a frame's body. On error it appends nothing.
func (d *decoder) calls(dst []events.Call, body []byte) ([]events.Call, error) {
	r := reader{b: body}
	n := r.uint()
	r.int()
	r.int()
	shapes := r.uint()
	if r.bad || n > frameCallsCap || shapes > n {
		return dst, fmt.Errorf("%w: invalid frame of %d calls", log.ErrCorrupt, n)
	}
	const shapeMax = 5*6 + 3*5 + 1 // most bytes of one shape
	table, err := d.column(&r, columns, int(shapes)*shapeMax)
	if err != nil {
		return dst, err
	}
	for i := range d.cols {
		if d.cols[i], err = d.column(&r, i, int(n)*callMax[i]); err != nil {
			return dst, err
		}
	}
	// Each shape and each call takes at least one byte, which bounds the allocation.
	if len(r.b) != 0 || shapes > uint64(len(table.b)) || n > uint64(len(d.cols[colShape].b)) || !d.readShapes(&table, int(shapes)) {
		return dst, fmt.Errorf("%w: invalid shapes in a frame of calls", log.ErrCorrupt)
	}
	had := len(dst)
	dst = d.rows(dst, int(n))
	for i := range d.cols {
		if d.cols[i].bad || len(d.cols[i].b) != 0 {
			return dst[:had], fmt.Errorf("%w: invalid column %d in a frame of calls", log.ErrCorrupt, i)
		}
	}
	return dst, nil
}

func (d *decoder) readShapes(r *reader, n int) bool {
	d.shapes, d.prev = slices.Grow(d.shapes[:0], n), slices.Grow(d.prev[:0], n)
	for range n {
		var s shape
		for _, p := range [...]*uint32{&s.pid, &s.tid, &s.tag, &s.weight, &s.stack} {
			*p = r.small()
		}
		result := r.int()
		s.result = int32(result)
		var small [4]uint16
		for i := range small {
			v := r.uint()
			small[i] = uint16(v)
			if v > 1<<16-1 {
				r.fail()
			}
		}
		s.op, s.parent, s.flags, s.form = events.Op(small[0]), events.Op(small[1]), events.CallFlags(small[2]), form(small[3])
		if s.form&formDevice != 0 {
			device := r.int()
			if s.device = int16(device); int64(s.device) != device {
				r.fail()
			}
		}
		if s.form&formLevel != 0 {
			if level := r.bytes(1); level != nil {
				s.level = level[0]
			}
		}
		if r.bad || int64(s.result) != result || s.form&formArgs > events.MaxArgs {
			return false
		}
		d.shapes = append(d.shapes, s)
		d.prev = append(d.prev, [events.MaxArgs]uint64{})
	}
	return !r.bad && len(r.b) == 0
}

// rows appends n calls. It stops early if a column runs out; the column has its error flag set
// then.
func (d *decoder) rows(dst []events.Call, n int) []events.Call {
	var start int64
	var args [events.MaxArgs]uint64
	dst = slices.Grow(dst, n)
	for range n {
		id := d.cols[colShape].uint()
		if id >= uint64(len(d.shapes)) {
			d.cols[colShape].fail()
			return dst
		}
		s := &d.shapes[id]
		start += d.cols[colStart].int()
		dst = append(dst, events.Call{Start: start, PID: s.pid, TID: s.tid, Tag: s.tag, Result: s.result,
			Weight: s.weight, Stack: s.stack, Op: s.op, Parent: s.parent, Flags: s.flags, Device: s.device, StackLevel: s.level})
		c := &dst[len(dst)-1]
		if s.form&^formArgs != 0 {
			d.times(c, s.form)
		}
		switch k := int(s.form & formArgs); {
		case s.form&formCopied != 0:
			c.Args = args
		case k > 0:
			prev := &d.prev[id]
			for i := range k {
				prev[i] += uint64(d.cols[colArg0+i].int())
			}
			c.Args = *prev
		}
		args = c.Args
	}
	return dst
}

// times reads the parts of a call and of its gap.
func (d *decoder) times(c *events.Call, f form) {
	if f&formTime != 0 {
		c.Duration = int64(d.cols[colTime].uint())
		if f&formWaited != 0 {
			d.waited(colWait, f&formThrottled != 0, &c.Runnable, &c.Blocked, &c.Throttled)
		}
		c.OnCPU = c.Duration - c.Runnable - c.Throttled - c.Blocked
	}
	if f&formGap != 0 {
		c.Gap = int64(d.cols[colGap].uint())
		if f&formGapWait != 0 {
			d.waited(colGapArg, f&formGapThrottled != 0, &c.GapRunnable, &c.GapBlocked, &c.GapThrottled)
		}
		c.GapOnCPU = c.Gap - c.GapRunnable - c.GapThrottled - c.GapBlocked
	}
	if f&formOdd != 0 {
		d.odd(f&formThrottled != 0, &c.Duration, &c.OnCPU, &c.Runnable, &c.Blocked, &c.Throttled)
	}
	if f&formGapOdd != 0 {
		d.odd(f&formGapThrottled != 0, &c.Gap, &c.GapOnCPU, &c.GapRunnable, &c.GapBlocked, &c.GapThrottled)
	}
	if f&formLaunches != 0 {
		n := d.cols[colOdd].uint()
		if c.Launches = uint16(n); uint64(c.Launches) != n {
			d.cols[colOdd].fail()
		}
	}
	if f&formGapStack != 0 {
		c.GapStack = d.cols[colOdd].small()
	}
}

func (d *decoder) waited(col int, three bool, runnable, blocked, throttled *int64) {
	*runnable, *blocked = int64(d.cols[col].uint()), int64(d.cols[col].uint())
	if three {
		*throttled = int64(d.cols[col].uint())
	}
}

func (d *decoder) odd(five bool, parts ...*int64) {
	if !five {
		parts = parts[:4]
	}
	for _, p := range parts {
		*p = d.cols[colOdd].int()
	}
}
