package segment

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"ingero/internal/store/log"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// DiskFull is the drop reason of calls and waits for which the disk had no room.
const DiskFull = "disk-full"

// damageEnd returns the offset of the first byte after the damage.
func damageEnd(d *wire.Damage) int64 { return d.At + d.Bytes }

// Checked is the result of checking a whole segment.
type Checked struct {
	Info
	Head   Head
	Calls  uint64
	Waits  uint64
	Frames int
	Lost   uint64        // calls that an earlier repair marked as lost
	Unkept uint64        // calls and waits dropped because the disk was full, as of the last tick
	Bad    []wire.Damage // unreadable ranges, in order
	Torn   int64         // bytes after the last whole frame: a crash truncated the file
	Intact int64         // bytes up to there
	Index  string        // what is wrong with the index; "": nothing
	Newer  bool          // a newer ingero wrote some of it
	Err    error         // why even the start is unreadable
}

// Next returns the number of the call after the segment's last.
func (c *Checked) Next() uint64 {
	n := c.Head.First + c.Calls + c.Lost
	for i := range c.Bad {
		n += uint64(max(c.Bad[i].Calls, 0))
	}
	return n
}

// Checker checks segments. It is not safe for concurrent use.
type Checker struct {
	view     view
	Progress func(n uint64) // reports progress; may be nil
	Seen     uint64         // calls read so far
	built    []callsFrame
}

// NewChecker returns a Checker that reports the number of calls read so far to calls, which may be
// nil.
func NewChecker(calls func(uint64)) (*Checker, error) {
	l, err := newLog()
	if err != nil {
		return nil, err
	}
	return &Checker{view: l.view, Progress: calls}, nil
}

// Check reads and decodes all frames of a segment. It fails only if the file cannot be read. If the
// segment's start is damaged, check uses head in its place unless head is nil.
func (k *Checker) Check(s Info, r io.ReaderAt, size int64, head *Head) (*Checked, error) {
	c := &Checked{Info: s}
	k.built = k.built[:0]
	seg, err := openSegment(r, size)
	switch {
	case errors.Is(err, log.ErrVersion):
		c.Newer, c.Err = true, err
		return c, nil
	case errors.Is(err, log.ErrNotLog), errors.Is(err, log.ErrCorrupt):
		if c.Err = err; head == nil {
			return c, nil
		}
		seg = &segmentReader{session: *head, frames: log.Reader{From: r, Size: size, Damaged: true}, ops: map[opKey]*tick.Op{}, threads: threadsReader{}}
		at, err := log.Resync(r, 0, size)
		if err != nil {
			return nil, err
		}
		seg.frames.Offset = at
		c.add(wire.Damage{At: 0, Bytes: at, Calls: -1, What: "its beginning"})
		if seg.index, err = readIndex(&log.Reader{From: r, Size: size}); err != nil {
			seg.index = nil
		}
	case err != nil:
		return nil, err
	}
	c.Head = seg.session
	if err := k.walk(c, seg); err != nil {
		return nil, err
	}
	k.finish(c, seg)
	return c, nil
}

func (c *Checked) add(d wire.Damage) {
	d.File = c.Name
	if n := len(c.Bad); n > 0 && damageEnd(&c.Bad[n-1]) == d.At { // adjacent ranges
		last := &c.Bad[n-1]
		last.Bytes += d.Bytes
		if last.Calls < 0 || d.Calls < 0 {
			last.Calls = -1
		}
		return
	}
	c.Bad = append(c.Bad, d)
}

// walk reads the frames of a segment.
func (k *Checker) walk(c *Checked, seg *segmentReader) error {
	f := &seg.frames
	for {
		at := f.Offset
		if c.Sealed && f.Size-at == tailSize { // the index was skipped
			c.Intact = f.Size
			return nil
		}
		kind, version, body, err := f.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, log.ErrCorrupt) && f.Offset == f.Size:
			c.Intact = at
			if at == f.Size {
				return nil
			}
			p, readErr := log.Resync(f.From, at+1, f.Size)
			switch {
			case readErr != nil:
				return readErr
			case p == f.Size && !errors.Is(err, log.ErrCorrupt):
				c.Torn = p - at
				return nil
			}
			c.add(wire.Damage{At: at, Bytes: p - at, Calls: lostCalls(f.From, at), What: "a frame"})
			f.Offset, f.Damaged = p, true
		case errors.Is(err, log.ErrCorrupt):
			c.add(wire.Damage{At: at, Bytes: f.Offset - at, Calls: lostCalls(f.From, at), What: "a frame"})
		case err != nil:
			return err
		case kind == frameIndex:
			c.Intact = f.Size
			if f.Size-f.Offset != tailSize {
				c.Index = "data follows the index"
			}
			return nil
		default:
			c.Frames++
			if err := k.decode(c, seg, at, kind, version, body); err != nil {
				c.add(wire.Damage{At: at, Bytes: f.Offset - at, Calls: lostCalls(f.From, at), What: "a frame"})
				f.Damaged = true
			}
		}
	}
}

// decode decodes a frame.
func (k *Checker) decode(c *Checked, seg *segmentReader, at int64, kind log.Kind, version uint8, body []byte) error {
	if kind == 0 || kind >= frameKinds || version > latest(kind) {
		c.Newer = true
		return nil
	}
	switch kind {
	case frameSession:
		return nil
	case frameCalls:
		n, first, last := span(body)
		calls, err := k.view.dec.calls(seg.calls[:0], body)
		if err != nil {
			return err
		}
		k.built = append(k.built, callsFrame{at, n, c.Head.First + c.Calls + c.Lost, first, last})
		seg.calls = calls
		c.Calls += uint64(len(calls))
		k.Seen += uint64(len(calls))
		if k.Progress != nil {
			k.Progress(k.Seen)
		}
		return nil
	case frameWaits:
		waits, after, err := k.view.waits.waits(seg.waits[:0], seg.after[:0], body)
		seg.waits, seg.after = waits, after
		c.Waits += uint64(len(waits))
		return err
	case frameBlock:
		r := reader{b: body}
		for range r.count() {
			r.small()
			r.small()
		}
		if r.bad || len(r.b) != 0 {
			return fmt.Errorf("%w: invalid block", log.ErrCorrupt)
		}
		return nil
	case frameLost:
		before := seg.number
		err := seg.lost(body)
		c.Lost += seg.number - before
		return err
	}
	var e Entry
	err := seg.entry(&e, kind, version, body, k.view.dec)
	if e.Tick != nil {
		for _, d := range e.Tick.Drops {
			if d.Reason == DiskFull {
				c.Unkept = max(c.Unkept, d.Count)
			}
		}
	}
	return err
}

// finish sets the number of lost calls from the index, and checks the index.
func (k *Checker) finish(c *Checked, seg *segmentReader) {
	switch {
	case !c.Sealed:
		return
	case seg.index == nil:
		if c.Index = "it cannot be read"; c.Torn > 0 {
			c.add(wire.Damage{At: c.Intact, Bytes: c.Torn, Calls: -1, What: "its end is truncated"})
			c.Torn = 0
		}
		return
	}
	for i := range c.Bad {
		d := &c.Bad[i]
		d.Calls = 0
		for _, f := range seg.index.calls {
			if f.at >= d.At && f.at < damageEnd(d) {
				d.Calls += int64(f.n)
			}
		}
	}
	if len(c.Bad) == 0 && c.Index == "" && (!slices.Equal(k.built, seg.index.calls) || c.Waits != seg.index.waits) {
		c.Index = "it does not match the segment"
	}
}

// Fit compares the call numbers of a session's segments, which are in order, and returns what is
// missing between them. If the previous segment has damage of unknown extent, fit attributes the
// calls to it.
func Fit(all []*Checked) (missing []wire.Damage) {
	unkept := uint64(0) // calls that got a number but were not written: disk full
	for _, c := range all {
		unkept = max(unkept, c.Unkept)
	}
	for i := 1; i < len(all); i++ {
		p, c := all[i-1], all[i]
		if p.Head.ID == "" || c.Head.ID == "" { // even the start is unreadable
			continue
		}
		n := apart(p.Next(), c.Head.First)
		j := slices.IndexFunc(p.Bad, func(d wire.Damage) bool { return d.Calls < 0 })
		switch {
		case c.Seq != p.Seq+1:
			missing = append(missing, wire.Damage{File: Name(c.Session, p.Seq+1, true), Calls: n,
				What: fmt.Sprintf("missing: %d of the session's segments, before %s", c.Seq-p.Seq-1, c.Name)})
		case j >= 0:
			p.Bad[j].Calls = max(n, 0)
		case n < 0 || uint64(n) > unkept:
			missing = append(missing, wire.Damage{File: c.Name, Calls: n, What: "its first call does not follow the last call of the previous segment"})
		}
	}
	return missing
}

// apart returns b - a, or -1 if b < a.
func apart(a, b uint64) int64 {
	if b >= a {
		return int64(min(b-a, math.MaxInt64))
	}
	return -1
}

// lostCalls returns how many calls a damaged frame had: 0 if its head is readable and names a kind
// other than calls, else -1 (unknown).
func lostCalls(r io.ReaderAt, at int64) int64 {
	if kind, ok := log.HeadKind(r, at); ok && kind != frameCalls {
		return 0
	}
	return -1
}
