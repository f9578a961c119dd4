package segment

import (
	"errors"
	"fmt"

	"ingero/internal/store/log"
)

// block is a run of frames whose calls and waits were merged into one frame each. marks[i] counts
// the calls and waits before frame i of the others.
type block struct {
	marks []mark
	next  int
	done  mark // already delivered
	live  bool
}

type mark struct{ calls, waits int }

// open reads a block's calls and waits.
func (s *segmentReader) open(body []byte, v *view) error {
	r := reader{b: body}
	b := block{marks: s.block.marks[:0], live: true}
	var m mark
	n := r.count()
	if n > blockMarks {
		r.fail()
		n = 0
	}
	for range n {
		m.calls += int(r.small())
		m.waits += int(r.small())
		b.marks = append(b.marks, m)
	}
	if r.bad || len(r.b) != 0 {
		return fmt.Errorf("%w: invalid block", log.ErrCorrupt)
	}
	s.calls, s.waits, s.after = s.calls[:0], s.waits[:0], s.after[:0]
	at := s.frames.Offset
	kind, version, body, err := s.frames.Next()
	switch {
	case err == nil && kind == frameWaits && version <= latest(kind):
		if err := s.readWaits(body, v); err != nil {
			return err
		}
	case errors.Is(err, log.ErrCorrupt): // the calls may be intact
		err = s.unread(at, err)
	default:
		s.frames.Offset, err = at, nil
	}
	s.readJoined(v)
	s.block = b
	return err
}

// deliver returns the part of the block before its next frame, if there is any.
func (s *segmentReader) deliver(e *Entry) bool {
	b := &s.block
	upTo := mark{len(s.calls), len(s.waits)}
	if b.next < len(b.marks) {
		m := b.marks[b.next]
		upTo = mark{min(m.calls, upTo.calls), min(m.waits, upTo.waits)}
	} else {
		b.live = false
	}
	from := b.done
	if upTo.calls <= from.calls && upTo.waits <= from.waits {
		return false
	}
	b.done = mark{max(upTo.calls, from.calls), max(upTo.waits, from.waits)}
	e.Calls = s.calls[from.calls:b.done.calls:b.done.calls]
	e.First = s.number - uint64(len(s.calls)-from.calls)
	e.Waits = s.waits[from.waits:b.done.waits:b.done.waits]
	e.After = s.after[from.waits:b.done.waits:b.done.waits]
	for i := range e.After {
		e.After[i] -= min(e.After[i], from.calls)
	}
	return true
}
