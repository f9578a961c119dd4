package segment

import (
	"fmt"

	"ingero/internal/store/log"
	"ingero/pkg/events"
)

const (
	frameStacksMax  = 1 << 10 // stacks per frame of a log
	frameFramesMax  = 1 << 14 // functions in a full frame of a log
	maxStackFrames  = 1 << 10 // per stack; a larger one is not ours
	maxStacksBody   = 16 << 20
	maxStacksKept   = 1 << 17 // functions in the stacks that the next segment repeats
	frameKindsKnown = events.FrameGap
)

// stacksKept are the stacks that a segment begins with. Beyond the limit, only the latest are kept.
type stacksKept struct {
	list   []events.Stack
	frames int
}

func (k *stacksKept) add(list []events.Stack) {
	for _, s := range list {
		k.list = append(k.list, s)
		k.frames += len(s.Frames)
	}
	if k.frames <= maxStacksKept {
		return
	}
	drop := 0
	for ; k.frames > maxStacksKept/2; drop++ {
		k.frames -= len(k.list[drop].Frames)
	}
	k.list = append(k.list[:0:0], k.list[drop:]...)
}

// putStacks writes stacks, in frames of bounded size.
func (w *Writer) putStacks(list []events.Stack) {
	for len(list) > 0 {
		n, frames := 0, 0
		for n < len(list) && n < frameStacksMax && frames < frameFramesMax {
			frames += len(list[n].Frames)
			n++
		}
		w.frame(frameStacks, 1, w.enc.column(nil, w.places.append(list[:n])))
		list = list[n:]
	}
}

// stacksEncoder is the memory for encoding stacks; the zero value is ready.
type stacksEncoder struct {
	body, frames []byte
	texts        []string
	ids          map[string]uint64
	numbers      map[events.Frame]uint64
}

// text returns a text's number.
func (e *stacksEncoder) text(s string) uint64 {
	id, ok := e.ids[s]
	if !ok {
		id = uint64(len(e.texts))
		e.texts, e.ids[s] = append(e.texts, s), id
	}
	return id
}

// append encodes stacks: each text once, each function once, and then the stacks that have them.
// The next call overwrites the result.
func (e *stacksEncoder) append(list []events.Stack) []byte {
	if e.ids == nil {
		e.ids, e.numbers = map[string]uint64{}, map[events.Frame]uint64{}
	}
	clear(e.ids)
	clear(e.numbers)
	e.texts = e.texts[:0]
	frames := e.frames[:0]
	for i := range list {
		for _, f := range list[i].Frames {
			if _, ok := e.numbers[f]; ok {
				continue
			}
			e.numbers[f] = uint64(len(e.numbers))
			inline := byte(0)
			if f.Inline {
				inline = 1
			}
			frames = append(frames, byte(f.Kind), inline)
			frames = appendUvarint(appendUvarint(appendUvarint(frames, e.text(f.Func)), e.text(f.File)), e.text(f.Module))
			frames = appendUvarint(appendUvarint(appendUvarint(frames, f.IP), f.Offset), uint64(uint32(f.Line)))
		}
	}
	b := appendUvarint(e.body[:0], uint64(len(e.texts)))
	for _, s := range e.texts {
		b = appendString(b, s)
	}
	b = appendUvarint(b, uint64(len(e.numbers)))
	b = append(b, frames...)
	b = appendUvarint(b, uint64(len(list)))
	for i := range list {
		s := &list[i]
		flags := uint64(0)
		if s.Cut {
			flags |= stackCut
		}
		if s.Own {
			flags |= stackOwn
		}
		b = appendUvarint(appendUvarint(appendUvarint(appendUvarint(b, uint64(s.ID)), uint64(s.PID)), flags), uint64(len(s.Frames)))
		for _, f := range s.Frames {
			b = appendUvarint(b, e.numbers[f])
		}
	}
	e.body, e.frames = b, frames
	return b
}

// The flags of a stack.
const (
	stackCut = 1 << iota
	stackOwn // events.Stack.Own; older versions show the stack as cut
)

func readStacks(body []byte, dec *decoder) ([]events.Stack, error) {
	outer := reader{b: body}
	r, err := dec.column(&outer, columns, maxStacksBody)
	if err != nil {
		return nil, err
	}
	frames := readFrames(&r)
	n := r.count()
	if n > frameStacksMax {
		r.fail()
	}
	out := make([]events.Stack, 0, min(n, frameStacksMax))
	for range cap(out) {
		s := events.Stack{ID: r.small(), PID: r.small()}
		flags := r.uint()
		s.Cut, s.Own = flags&stackCut != 0, flags&stackOwn != 0
		k := r.count()
		if k > maxStackFrames || r.bad {
			r.fail()
			break
		}
		s.Frames = make([]events.Frame, k)
		for i := range s.Frames {
			f := r.uint()
			if f >= uint64(len(frames)) {
				r.fail()
				break
			}
			s.Frames[i] = frames[f]
		}
		out = append(out, s)
	}
	if r.bad || len(r.b) != 0 || len(outer.b) != 0 {
		return nil, fmt.Errorf("%w: stacks", log.ErrCorrupt)
	}
	return out, nil
}

// readFrames reads the functions of stacks, and their texts.
func readFrames(r *reader) []events.Frame {
	texts := r.strings(len(r.b))
	text := func() string {
		id := r.uint()
		if id >= uint64(len(texts)) {
			r.fail()
			return ""
		}
		return texts[id]
	}
	frames := make([]events.Frame, 0, r.count())
	for range cap(frames) {
		var f events.Frame
		if head := r.bytes(2); head != nil {
			f.Kind, f.Inline = events.FrameKind(head[0]), head[1] == 1
		}
		if f.Kind == 0 || f.Kind > frameKindsKnown {
			r.fail()
		}
		f.Func, f.File, f.Module = text(), text(), text()
		f.IP, f.Offset, f.Line = r.uint(), r.uint(), int32(r.small())
		if r.bad {
			return nil
		}
		frames = append(frames, f)
	}
	return frames
}
