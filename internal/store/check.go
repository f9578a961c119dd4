package store

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"ingero/internal/store/log"
	"ingero/internal/tick"
)

// Damage describes a damaged part of a database's file.
type Damage struct {
	File  string `json:"file"`
	At    int64  `json:"byte"`  // offset
	Bytes int64  `json:"bytes"` // number of unreadable bytes
	Calls int64  `json:"calls"` // number of lost calls; -1: unknown
	What  string `json:"what"`
}

// end returns the offset of the first byte after the damage.
func (d *Damage) end() int64 { return d.At + d.Bytes }

// checked is the result of checking a whole segment.
type checked struct {
	Segment
	head        segmentJSON
	calls       uint64
	waits       uint64
	frames      int
	lost        uint64   // calls that an earlier repair marked as lost
	unkept      uint64   // calls and waits dropped because the disk was full, as of the last tick
	bad         []Damage // unreadable ranges, in order
	torn        int64    // bytes after the last whole frame: a crash truncated the file
	intactBytes int64    // bytes up to there
	index       string   // what is wrong with the index; "": nothing
	newer       bool     // a newer ingero wrote some of it
	err         error    // why even the start is unreadable
}

// next returns the number of the call after the segment's last.
func (c *checked) next() uint64 {
	n := c.head.First + c.calls + c.lost
	for i := range c.bad {
		n += uint64(max(c.bad[i].Calls, 0))
	}
	return n
}

// checker checks segments. It is not safe for concurrent use.
type checker struct {
	view  view
	calls func(n uint64) // reports progress; may be nil
	seen  uint64
	built []callsFrame
}

func newChecker(calls func(uint64)) (*checker, error) {
	l, err := newLog()
	if err != nil {
		return nil, err
	}
	return &checker{view: l.view, calls: calls}, nil
}

// check reads and decodes all frames of a segment. It fails only if the file cannot be read. If the
// segment's start is damaged, check uses head in its place unless head is nil.
func (k *checker) check(s Segment, r io.ReaderAt, size int64, head *segmentJSON) (*checked, error) {
	c := &checked{Segment: s}
	k.built = k.built[:0]
	seg, err := openSegment(r, size)
	switch {
	case errors.Is(err, log.ErrVersion):
		c.newer, c.err = true, err
		return c, nil
	case errors.Is(err, log.ErrNotLog), errors.Is(err, log.ErrCorrupt):
		if c.err = err; head == nil {
			return c, nil
		}
		seg = &segment{session: *head, frames: log.Reader{From: r, Size: size, Damaged: true}, ops: map[opKey]*tick.Op{}, threads: threadsReader{}}
		at, err := log.Resync(r, 0, size)
		if err != nil {
			return nil, err
		}
		seg.frames.Offset = at
		c.add(Damage{At: 0, Bytes: at, Calls: -1, What: "its beginning"})
		if seg.index, err = readIndex(&log.Reader{From: r, Size: size}); err != nil {
			seg.index = nil
		}
	case err != nil:
		return nil, err
	}
	c.head = seg.session
	if err := k.walk(c, seg); err != nil {
		return nil, err
	}
	k.finish(c, seg)
	return c, nil
}

func (c *checked) add(d Damage) {
	d.File = c.Name
	if n := len(c.bad); n > 0 && c.bad[n-1].end() == d.At { // adjacent ranges
		last := &c.bad[n-1]
		last.Bytes += d.Bytes
		if last.Calls < 0 || d.Calls < 0 {
			last.Calls = -1
		}
		return
	}
	c.bad = append(c.bad, d)
}

// walk reads the frames of a segment.
func (k *checker) walk(c *checked, seg *segment) error {
	f := &seg.frames
	for {
		at := f.Offset
		if c.Sealed && f.Size-at == tailSize { // the index was skipped
			c.intactBytes = f.Size
			return nil
		}
		kind, version, body, err := f.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, log.ErrCorrupt) && f.Offset == f.Size:
			c.intactBytes = at
			if at == f.Size {
				return nil
			}
			p, readErr := log.Resync(f.From, at+1, f.Size)
			switch {
			case readErr != nil:
				return readErr
			case p == f.Size && !errors.Is(err, log.ErrCorrupt):
				c.torn = p - at
				return nil
			}
			c.add(Damage{At: at, Bytes: p - at, Calls: lostCalls(f.From, at), What: "a frame"})
			f.Offset, f.Damaged = p, true
		case errors.Is(err, log.ErrCorrupt):
			c.add(Damage{At: at, Bytes: f.Offset - at, Calls: lostCalls(f.From, at), What: "a frame"})
		case err != nil:
			return err
		case kind == frameIndex:
			c.intactBytes = f.Size
			if f.Size-f.Offset != tailSize {
				c.index = "data follows the index"
			}
			return nil
		default:
			c.frames++
			if err := k.decode(c, seg, at, kind, version, body); err != nil {
				c.add(Damage{At: at, Bytes: f.Offset - at, Calls: lostCalls(f.From, at), What: "a frame"})
				f.Damaged = true
			}
		}
	}
}

// decode decodes a frame.
func (k *checker) decode(c *checked, seg *segment, at int64, kind log.Kind, version uint8, body []byte) error {
	if kind == 0 || kind >= frameKinds || version > latest(kind) {
		c.newer = true
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
		k.built = append(k.built, callsFrame{at, n, c.head.First + c.calls + c.lost, first, last})
		seg.calls = calls
		c.calls += uint64(len(calls))
		k.seen += uint64(len(calls))
		if k.calls != nil {
			k.calls(k.seen)
		}
		return nil
	case frameWaits:
		waits, after, err := k.view.waits.waits(seg.waits[:0], seg.after[:0], body)
		seg.waits, seg.after = waits, after
		c.waits += uint64(len(waits))
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
		c.lost += seg.number - before
		return err
	}
	var e Entry
	err := seg.entry(&e, kind, version, body, k.view.dec)
	if e.Tick != nil {
		for _, d := range e.Tick.Drops {
			if d.Reason == dropUnkept {
				c.unkept = max(c.unkept, d.Count)
			}
		}
	}
	return err
}

// finish sets the number of lost calls from the index, and checks the index.
func (k *checker) finish(c *checked, seg *segment) {
	switch {
	case !c.Sealed:
		return
	case seg.index == nil:
		if c.index = "it cannot be read"; c.torn > 0 {
			c.add(Damage{At: c.intactBytes, Bytes: c.torn, Calls: -1, What: "its end is truncated"})
			c.torn = 0
		}
		return
	}
	for i := range c.bad {
		d := &c.bad[i]
		d.Calls = 0
		for _, f := range seg.index.calls {
			if f.at >= d.At && f.at < d.end() {
				d.Calls += int64(f.n)
			}
		}
	}
	if len(c.bad) == 0 && c.index == "" && (!slices.Equal(k.built, seg.index.calls) || c.waits != seg.index.waits) {
		c.index = "it does not match the segment"
	}
}

// fit compares the call numbers of a session's segments, which are in order, and returns what is
// missing between them. If the previous segment has damage of unknown extent, fit attributes the
// calls to it.
func fit(all []*checked) (missing []Damage) {
	unkept := uint64(0) // calls that got a number but were not written: disk full
	for _, c := range all {
		unkept = max(unkept, c.unkept)
	}
	for i := 1; i < len(all); i++ {
		p, c := all[i-1], all[i]
		if p.head.ID == "" || c.head.ID == "" { // even the start is unreadable
			continue
		}
		n := apart(p.next(), c.head.First)
		j := slices.IndexFunc(p.bad, func(d Damage) bool { return d.Calls < 0 })
		switch {
		case c.Seq != p.Seq+1:
			missing = append(missing, Damage{File: segmentName(c.Session, p.Seq+1, true), Calls: n,
				What: fmt.Sprintf("missing: %d of the session's segments, before %s", c.Seq-p.Seq-1, c.Name)})
		case j >= 0:
			p.bad[j].Calls = max(n, 0)
		case n < 0 || uint64(n) > unkept:
			missing = append(missing, Damage{File: c.Name, Calls: n, What: "its first call does not follow the last call of the previous segment"})
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
