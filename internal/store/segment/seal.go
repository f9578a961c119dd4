package segment

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"ingero/internal/store/log"
	"ingero/pkg/events"
)

// Limits of a block.
const (
	frameBig   = frameCallsMax / 2 // minimum calls of a frame that is kept unchanged
	blockMarks = 1024
	blockBytes = 1 << 20 // bytes of the frames among the calls
)

// sealer turns a segment's log into a sealed one. It merges calls and waits of many small frames,
// which were written early for durability, into few large ones, which take a third of the space.
type sealer struct {
	to    *bufio.Writer
	at    int64
	frame []byte
	body  []byte
	enc   *encoder
	wait  *waitEncoder
	index index
	// The open block.
	calls        int
	marks        []mark
	others       []pendingFrame
	pendingBytes int // bytes in others
	number       uint64
	dec          *decoder
	wdec         *waitDecoder
	cbuf         []events.Call
	wbuf         []events.Wait
	abuf         []int
	raw          []byte // a frame of waits whose calls are not known yet
	hasRaw       bool
	rawVer       uint8
}

type pendingFrame struct {
	kind    log.Kind
	version uint8
	body    []byte
}

// errTorn means that a segment ends within a frame.
var errTorn = errors.New("the segment is truncated")

// Seal reads a segment of size bytes from r and writes it sealed. After an error the output must be
// discarded. A torn or damaged segment is an error, since sealing would hide the loss.
func Seal(to io.Writer, r io.ReaderAt, size int64) error {
	seg, err := openSegment(r, size)
	if err != nil {
		return err
	}
	s := &sealer{to: bufio.NewWriterSize(to, int(min(size, 1<<20))), number: seg.session.First}
	if err := s.prepare(); err != nil {
		return err
	}
	if err := s.write([]byte(log.Magic)); err != nil {
		return err
	}
	f := log.Reader{From: r, Offset: int64(len(log.Magic)), Size: size}
	for {
		kind, version, body, err := f.Next()
		if errors.Is(err, io.EOF) {
			if f.Offset != size {
				return errTorn
			}
			return s.end()
		}
		if err == nil {
			err = s.take(kind, version, body)
		}
		if err != nil {
			return fmt.Errorf("seal: %w", err)
		}
	}
}

func (s *sealer) prepare() (err error) {
	if s.enc, err = newEncoder(); err != nil {
		return err
	}
	if s.wait, err = newWaitEncoder(); err != nil {
		return err
	}
	if s.dec, err = newDecoder(); err != nil {
		return err
	}
	s.wdec, err = newWaitDecoder()
	return err
}

func (s *sealer) write(b []byte) error {
	n, err := s.to.Write(b)
	s.at += int64(n)
	return err
}

func (s *sealer) writeFrame(kind log.Kind, version uint8, body []byte) error {
	s.frame = log.Append(s.frame[:0], kind, version, body)
	return s.write(s.frame)
}

// take adds the next frame.
func (s *sealer) take(kind log.Kind, version uint8, body []byte) error {
	if version > latest(kind) && kind < frameKinds {
		return fmt.Errorf("%w (frame of kind %d, version %d)", log.ErrVersion, kind, version)
	}
	if s.hasRaw && kind != frameCalls { // waits without calls
		if err := s.merge(nil); err != nil {
			return err
		}
	}
	switch kind {
	case frameWaits:
		s.raw, s.hasRaw, s.rawVer = append(s.raw[:0], body...), true, version
		return nil
	case frameCalls:
		if n, _, _ := span(body); n >= frameBig {
			return s.keep(version, body)
		}
		return s.merge(body)
	case frameBlock, frameIndex:
		return fmt.Errorf("%w: the segment is already sealed", log.ErrCorrupt)
	case frameSession:
		return s.writeFrame(kind, version, body)
	case frameLost: // the calls' numbers continue after it
		return s.lost(version, body)
	}
	if s.calls == 0 && s.wait.n == 0 {
		return s.writeFrame(kind, version, body)
	}
	s.others = append(s.others, pendingFrame{kind, version, append([]byte(nil), body...)})
	s.marks = append(s.marks, mark{s.calls, s.wait.n})
	s.pendingBytes += len(body)
	if len(s.marks) >= blockMarks || s.pendingBytes >= blockBytes {
		return s.flush()
	}
	return nil
}

// keep writes a large frame of calls unchanged, with the waits before it.
func (s *sealer) keep(version uint8, body []byte) error {
	if err := s.flush(); err != nil {
		return err
	}
	if s.hasRaw {
		s.hasRaw = false
		n, _, _ := span(s.raw)
		s.index.waits += uint64(n)
		if err := s.writeFrame(frameWaits, s.rawVer, s.raw); err != nil {
			return err
		}
	}
	return s.putCalls(version, body)
}

func (s *sealer) putCalls(version uint8, body []byte) error {
	n, first, last := span(body)
	s.index.calls = append(s.index.calls, callsFrame{at: s.at, n: n, number: s.number, first: first, last: last})
	s.number += uint64(n)
	return s.writeFrame(frameCalls, version, body)
}

// lost writes the mark of lost frames. No block spans it.
func (s *sealer) lost(version uint8, body []byte) error {
	l, err := unmarshal[lostJSON](body, "loss marker")
	if err == nil {
		err = s.flush()
	}
	if err != nil {
		return err
	}
	s.number += l.Calls
	return s.writeFrame(frameLost, version, body)
}

// merge adds the last read waits and a frame of calls to the block.
func (s *sealer) merge(body []byte) (err error) {
	n := 0
	if body != nil {
		n, _, _ = span(body)
	}
	waits := 0
	if s.hasRaw {
		waits, _, _ = span(s.raw)
	}
	if s.calls+n > frameCallsMax || s.wait.n+waits > frameWaitsMax {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.hasRaw {
		s.hasRaw = false
		if s.wbuf, s.abuf, err = s.wdec.waits(s.wbuf[:0], s.abuf[:0], s.raw); err != nil {
			return err
		}
		for i := range s.wbuf {
			s.wait.add(&s.wbuf[i], s.calls+min(s.abuf[i], n))
		}
	}
	if body == nil {
		return nil
	}
	if s.cbuf, err = s.dec.calls(s.cbuf[:0], body); err != nil {
		return err
	}
	for i := range s.cbuf {
		s.enc.add(&s.cbuf[i])
	}
	s.calls += n
	return nil
}

// flush writes the block.
func (s *sealer) flush() error {
	if s.calls == 0 && s.wait.n == 0 {
		return nil
	}
	if len(s.marks) > 0 {
		b := appendUvarint(s.body[:0], uint64(len(s.marks)))
		var last mark
		for _, m := range s.marks {
			b = appendUvarint(appendUvarint(b, uint64(m.calls-last.calls)), uint64(m.waits-last.waits))
			last = m
		}
		s.body = b
		if err := s.writeFrame(frameBlock, 1, b); err != nil {
			return err
		}
	}
	if s.wait.n > 0 {
		s.index.waits += uint64(s.wait.n)
		s.body = s.wait.body(s.body[:0])
		if err := s.writeFrame(frameWaits, latest(frameWaits), s.body); err != nil {
			return err
		}
		s.wait.reset()
	}
	if s.calls > 0 {
		version := s.enc.version()
		s.body = s.enc.body(s.body[:0])
		if err := s.putCalls(version, s.body); err != nil {
			return err
		}
		s.enc.reset()
		s.calls = 0
	}
	for _, o := range s.others {
		if err := s.writeFrame(o.kind, o.version, o.body); err != nil {
			return err
		}
	}
	s.marks, s.others, s.pendingBytes = s.marks[:0], s.others[:0], 0
	return nil
}

// end writes the rest, and the index.
func (s *sealer) end() error {
	if s.hasRaw {
		if err := s.merge(nil); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	at := s.at
	s.body = appendIndex(s.body[:0], &s.index)
	if err := s.writeFrame(frameIndex, 1, s.body); err != nil {
		return err
	}
	if err := s.write(appendTail(nil, at)); err != nil {
		return err
	}
	return s.to.Flush()
}
