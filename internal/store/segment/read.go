package segment

import (
	"errors"
	"fmt"
	"io"

	"ingero/internal/stats"
	"ingero/internal/store/log"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// segmentReader reads one file of a log.
type segmentReader struct {
	session  Head
	frames   log.Reader
	index    *index // nil: unsealed, or lost
	seek     int    // next in the index's frames
	sealed   bool   // by its name
	complete bool   // a sealed segment's end exists, or its loss was reported
	ops      map[opKey]*tick.Op
	threads  threadsReader
	number   uint64 // number of the next call
	block    block
	calls    []events.Call
	waits    []events.Wait
	after    []int
	lives    []tick.ProcEvent
	host     []tick.HostSum // of the next tick
}

// Head is a segment's first frame.
type Head struct {
	Session
	Seq   int    `json:"seq,omitempty"`
	First uint64 `json:"first_call,omitempty"` // number of its first call in the session
	// Unkept is how many calls before it have numbers and were not written, for lack of disk space.
	Unkept uint64 `json:"unkept_calls,omitempty"`
}

// openSegment reads a segment's start, and its index if it has one.
func openSegment(r io.ReaderAt, size int64) (*segmentReader, error) {
	s := &segmentReader{frames: log.Reader{From: r, Size: size}, ops: map[opKey]*tick.Op{}, threads: threadsReader{}}
	var head [len(log.Magic)]byte
	if size < int64(len(log.Magic)) {
		return nil, fmt.Errorf("%w: it has only %d bytes", log.ErrNotLog, size)
	}
	if err := s.frames.Fill(head[:], 0); err != nil {
		return nil, err
	}
	if string(head[:]) != log.Magic {
		return nil, log.ErrNotLog
	}
	s.frames.Offset = int64(len(log.Magic))
	kind, version, body, err := s.frames.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: its first frame is incomplete", log.ErrNotLog)
	case err != nil:
		return nil, err
	case kind != frameSession:
		return nil, fmt.Errorf("%w: its first frame is of kind %d", log.ErrCorrupt, kind)
	case version != latest(kind):
		return nil, fmt.Errorf("%w (version %d)", log.ErrVersion, version)
	}
	if s.session, err = unmarshal[Head](body, "session"); err != nil {
		return nil, err
	}
	s.number = s.session.First
	if s.index, err = readIndex(&s.frames); err != nil {
		return nil, err
	}
	return s, nil
}

// next reads the next entry, or returns io.EOF.
func (s *segmentReader) next(e *Entry, v *view) error {
	*e = Entry{}
	for {
		if s.block.live && s.deliver(e) {
			return nil
		}
		if v.callsOnly && s.index != nil && !s.jump(v) {
			return io.EOF
		}
		kind, version, body, err := s.frame()
		if err != nil {
			return err
		}
		if s.block.live && kind != frameLost {
			s.block.next++
		}
		if kind == frameSession || kind >= frameKinds || kind == 0 {
			continue // the first frame, or of a newer kind
		}
		if version > latest(kind) {
			return fmt.Errorf("%w (frame of kind %d, version %d)", log.ErrVersion, kind, version)
		}
		if kind == frameIndex { // the last
			s.frames.Offset, s.complete = s.frames.Size, true
			return io.EOF
		}
		switch {
		case kind == frameLost:
			err = s.lost(body)
		case kind == frameBlock && !v.callsOnly:
			err = s.open(body, v)
		case kind == frameCalls:
			if err = s.readCalls(body, v); err == nil && len(s.calls) > 0 {
				e.Calls, e.First = s.calls, s.number-uint64(len(s.calls))
				return nil
			}
		case v.callsOnly, kind == frameBatches && v.partial():
		case kind == frameWaits:
			if err = s.readWaits(body, v); err == nil {
				if s.readJoined(v); len(s.waits)+len(s.calls) > 0 {
					e.Calls, e.First, e.Waits, e.After = s.calls, s.number-uint64(len(s.calls)), s.waits, s.after
					return nil
				}
			}
		default:
			if err = s.entry(e, kind, version, body, v.dec); err == nil {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("before byte %d: %w", s.frames.Offset, err)
		}
	}
}

// frame reads the next frame.
func (s *segmentReader) frame() (kind log.Kind, version uint8, body []byte, err error) {
	at := s.frames.Offset
	kind, version, body, err = s.frames.Next()
	switch {
	case errors.Is(err, io.EOF):
		err = s.cut()
	case errors.Is(err, log.ErrCorrupt):
		switch k, known := log.HeadKind(s.frames.From, at); {
		case !s.block.live || known && k == frameCalls:
		case known:
			s.block.next++
		default: // how many of the block's frames are unreadable is unknown: deliver the rest now
			s.block.next = len(s.block.marks)
		}
		err = s.unread(at, err)
	}
	return kind, version, body, err
}

// cut returns io.EOF at a segment's end. If a sealed segment has lost its end, it reports that
// once.
func (s *segmentReader) cut() error {
	if !s.sealed || s.complete || s.frames.Damaged {
		return io.EOF
	}
	s.complete = true
	return fmt.Errorf("%w at byte %d: the rest of the segment is missing", log.ErrCorrupt, s.frames.Offset)
}

// lostJSON describes unreadable parts of a segment that a repair removed.
type lostJSON struct {
	Bytes int64  `json:"bytes"`
	Calls uint64 `json:"calls,omitempty"` // if known
}

// lost skips lost frames. Later ticks may add to what was in them.
func (s *segmentReader) lost(body []byte) error {
	l, err := unmarshal[lostJSON](body, "loss marker")
	s.number += l.Calls
	s.frames.Damaged = true
	return err
}

// jump goes to the next wanted frame of calls.
func (s *segmentReader) jump(v *view) bool {
	for ; s.seek < len(s.index.calls); s.seek++ {
		if f := &s.index.calls[s.seek]; v.wants(f.first, f.last) && f.number+uint64(f.n) > v.after {
			s.frames.Offset, s.number = f.at, f.number
			s.seek++
			return true
		}
	}
	s.frames.Offset = s.frames.Size
	if n := len(s.index.calls); n > 0 {
		s.number = s.index.calls[n-1].number + uint64(s.index.calls[n-1].n)
	}
	return false
}

// readCalls decodes a frame of calls, unless it may be skipped.
func (s *segmentReader) readCalls(body []byte, v *view) (err error) {
	n, first, last := span(body)
	s.calls = s.calls[:0]
	s.number = s.numberAt(s.frames.Offset-log.HeadSize-int64(len(body))) + uint64(n)
	if !v.wants(first, last) || s.number <= v.after {
		return nil
	}
	s.calls, err = v.dec.calls(s.calls, body)
	return err
}

// numberAt returns the number of the first call of the frame at an offset. The index has it even if
// earlier frames are lost.
func (s *segmentReader) numberAt(at int64) uint64 {
	if s.index == nil {
		return s.number
	}
	calls := s.index.calls
	for i := max(s.seek-1, 0); i < len(calls) && calls[i].at <= at; i++ {
		if s.seek = i + 1; calls[i].at == at {
			return calls[i].number
		}
	}
	return s.number
}

func (s *segmentReader) readWaits(body []byte, v *view) (err error) {
	_, first, last := span(body)
	s.waits, s.after = s.waits[:0], s.after[:0]
	if !v.wants(first, last) {
		return nil
	}
	s.waits, s.after, err = v.waits.waits(s.waits, s.after, body)
	return err
}

// readJoined reads the calls of a frame of waits: those of the next frame, if it has calls.
func (s *segmentReader) readJoined(v *view) {
	s.calls = s.calls[:0]
	at, number := s.frames.Offset, s.number
	kind, version, body, err := s.frames.Next()
	if err != nil || kind != frameCalls || version > latest(kind) || s.readCalls(body, v) != nil {
		s.frames.Offset, s.number = at, number // the next call reports the error
	}
}

func (s *segmentReader) entry(e *Entry, kind log.Kind, version uint8, body []byte, dec *decoder) (err error) {
	switch kind {
	case frameLives:
		s.lives, err = readLives(s.lives[:0], body, version)
		e.Lives = s.lives
	case frameFunctions:
		e.Functions, err = readFunctions(body, dec)
	case frameStacks:
		e.Stacks, err = readStacks(body, dec)
	case frameTick:
		e.Tick, err = s.tick(body, version, dec)
		if err == nil {
			e.Tick.HostSums, s.host = s.host, nil
		}
	case frameBatches:
		e.batches, e.open, err = readBatches(body, version)
	case frameRanges:
		e.Ranges, err = readRanges(body, dec)
	case frameLabels:
		e.Labels, err = readLabels(body, dec)
	case frameFacts:
		e.facts, err = readFacts(body, dec)
	case frameRequests:
		e.Requests, err = readRequests(body, version, dec)
	case frameHost:
		s.host, err = readHost(body, dec)
	case frameProcess:
		j, err := unmarshal[Process](body, "process")
		p := j.process()
		e.Process = &p
		return err
	case frameOther:
		j, err := unmarshal[Process](body, "process")
		p := j.process()
		e.Other = &p
		return err
	case frameLibrary:
		j, err := unmarshal[Library](body, "library")
		lib := j.library()
		e.Library = &lib
		return err
	case frameReport:
		j, err := unmarshal[reportJSON](body, "report")
		r := tick.Report(j)
		e.Report = &r
		return err
	case frameXid:
		e.Xid, err = readXid(body)
	case frameGPU:
		e.GPU, err = readGPU(body)
	case frameInference:
		e.Inference, err = readInference(body, dec)
	case frameEnd:
		end, err := unmarshal[End](body, "end")
		e.End = &end
		return err
	}
	return err
}

// tick reads a tick. The operations' counts and the threads' accounts are sums that continue those
// of the previous ticks.
func (s *segmentReader) tick(body []byte, version uint8, dec *decoder) (*tick.Tick, error) {
	r := reader{b: body}
	raw, err := dec.column(&r, columns, maxTick)
	if err != nil {
		return nil, err
	}
	var changed []*tick.Op
	t := readTick(&raw, version, func(pid uint32, op events.Op) *tick.Op {
		k := opKey{pid, op}
		o := s.ops[k]
		if o == nil && len(s.ops) == maxOps {
			return nil
		}
		if o == nil {
			o = &tick.Op{PID: pid, Op: op, Hist: &stats.Hist{}}
			s.ops[k] = o
		}
		changed = append(changed, o)
		return o
	})
	if version > 1 && !raw.bad {
		t.Threads = s.threads.read(&raw, t)
		if raw.bad && s.frames.Damaged { // what they add to is unknown
			s.threads, raw = threadsReader{}, reader{}
		}
	}
	if raw.bad || len(raw.b) != 0 {
		return nil, fmt.Errorf("%w: invalid tick", log.ErrCorrupt)
	}
	for _, o := range changed {
		t.Ops = append(t.Ops, *o)
	}
	return t, nil
}
