package store

import (
	"errors"
	"fmt"
	"io"
	"math"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of what a reader makes room for.
const (
	maxTick    = 8 << 20 // bytes of a tick
	maxOps     = 1 << 15 // operations of processes
	maxThreads = 1 << 15
	maxOpen    = 16 // open calls of a thread
	maxComm    = 64 // bytes of a thread's name, of which the kernel keeps 15
)

// Log is a recording that is read from its beginning to its end. It is for one
// goroutine; many may read one file, also while it is being written, and each
// sees what was there when it was opened.
type Log struct {
	frames  frames
	session Session
	dec     *decoder
	waits   *waitDecoder
	ops     map[opKey]*tick.Op
	threads threadsReader
	from    int64 // frames of calls that lie outside are passed over
	to      int64
}

// Entry is one entry of a log: calls, waits and calls, or one of the other
// fields. Its memory is the log's, valid until the next call of Next.
type Entry struct {
	Calls []events.Call
	// Waits came before Calls or among them: before Waits[i], the first After[i] of
	// Calls did, or all where that is more than there are.
	Waits []events.Wait
	After []int
	Lives []tick.ProcEvent
	// Tick has those Ops that changed, with the counts of then, and all Threads.
	Tick    *tick.Tick
	Process *tick.Process
	Other   *tick.Process // one that is not traced
	Library *tick.Library
	Report  *tick.Report
	End     *End
}

// OpenLog reads the beginning of a log of size bytes.
func OpenLog(r io.ReaderAt, size int64) (*Log, error) {
	dec, err := newDecoder()
	if err != nil {
		return nil, err
	}
	waits, err := newWaitDecoder()
	if err != nil {
		return nil, err
	}
	l := &Log{frames: frames{r: r, size: size}, dec: dec, waits: waits}
	l.Rewind()
	var head [len(magic)]byte
	if size < int64(len(magic)) {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrNotLog, size)
	}
	if err := l.frames.read(head[:], 0); err != nil {
		return nil, err
	}
	if string(head[:]) != magic {
		return nil, ErrNotLog
	}
	kind, version, body, err := l.frames.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it ends before it begins", ErrNotLog)
	case err != nil:
		return nil, err
	case kind != frameSession:
		return nil, fmt.Errorf("%w: its first frame is of kind %d", ErrCorrupt, kind)
	case version != kind.version():
		return nil, fmt.Errorf("%w (version %d)", ErrVersion, version)
	}
	if l.session, err = unmarshal[Session](body, "session"); err != nil {
		return nil, err
	}
	l.Rewind()
	return l, nil
}

// Session returns what the recording is of.
func (l *Log) Session() Session { return l.session }

// Rewind goes back to the first entry.
func (l *Log) Rewind() {
	l.frames.at = int64(len(magic))
	l.ops, l.threads = map[opKey]*tick.Op{}, threadsReader{}
	l.Window(math.MinInt64, math.MaxInt64)
}

// Window lets Next pass over calls and waits of frames in which none began before
// to and ended at from or later (Unix nanoseconds). It spares decoding them; those
// of other frames are all returned.
func (l *Log) Window(from, to int64) { l.from, l.to = from, to }

// Torn returns how many bytes behind the last whole frame read so far are in
// the log. At the end that is what a crash cut off.
func (l *Log) Torn() int64 { return l.frames.size - l.frames.at }

// Next reads the next entry into e. It returns io.EOF at the end, also where
// that is cut off, and an error that wraps [ErrCorrupt] or [ErrVersion] where
// it cannot read on.
func (l *Log) Next(e *Entry) error {
	*e = Entry{Calls: e.Calls[:0], Waits: e.Waits[:0], After: e.After[:0], Lives: e.Lives[:0]}
	for {
		kind, version, body, err := l.frames.next()
		if err != nil {
			return err
		}
		if kind == frameSession || kind >= frameKinds || kind == 0 {
			continue // the first, or of a kind that came later
		}
		if version > kind.version() {
			return fmt.Errorf("%w (frame of kind %d, version %d)", ErrVersion, kind, version)
		}
		if l.outside(kind, body) {
			continue
		}
		if err := l.entry(e, kind, version, body); err != nil {
			return fmt.Errorf("before byte %d: %w", l.frames.at, err)
		}
		if kind == frameWaits {
			l.join(e)
		}
		return nil
	}
}

// outside says whether a frame may be passed over.
func (l *Log) outside(kind frameKind, body []byte) bool {
	if kind != frameCalls && kind != frameWaits {
		return false
	}
	_, first, last := span(body)
	return first >= l.to || last < l.from
}

// join adds to waits the calls of the frame behind, if it is one and can be read.
// If not, that is the next entry's business.
func (l *Log) join(e *Entry) {
	at := l.frames.at
	kind, version, body, err := l.frames.next()
	if err == nil && kind == frameCalls && version <= kind.version() && !l.outside(kind, body) {
		if err = l.entry(e, kind, version, body); err == nil {
			return
		}
	}
	l.frames.at = at
}

func (l *Log) entry(e *Entry, kind frameKind, version uint8, body []byte) (err error) {
	switch kind {
	case frameCalls:
		e.Calls, err = l.dec.calls(e.Calls, body)
	case frameWaits:
		e.Waits, e.After, err = l.waits.waits(e.Waits, e.After, body)
	case frameLives:
		e.Lives, err = readLives(e.Lives, body)
	case frameTick:
		e.Tick, err = l.tick(body, version)
	case frameProcess:
		j, err := unmarshal[processJSON](body, "process")
		p := j.process()
		e.Process = &p
		return err
	case frameOther:
		j, err := unmarshal[processJSON](body, "process")
		p := j.process()
		e.Other = &p
		return err
	case frameLibrary:
		j, err := unmarshal[libraryJSON](body, "library")
		lib := j.library()
		e.Library = &lib
		return err
	case frameReport:
		j, err := unmarshal[reportJSON](body, "report")
		r := tick.Report(j)
		e.Report = &r
		return err
	case frameEnd:
		end, err := unmarshal[End](body, "end")
		e.End = &end
		return err
	}
	return err
}

// tick reads a tick. The operations' counts continue those of the ticks before,
// and so do the threads' accounts.
func (l *Log) tick(body []byte, version uint8) (*tick.Tick, error) {
	r := reader{b: body}
	raw, err := l.dec.column(&r, columns, maxTick)
	if err != nil {
		return nil, err
	}
	var changed []*tick.Op
	t := readTick(&raw, version, func(pid uint32, op events.Op) *tick.Op {
		k := opKey{pid, op}
		o := l.ops[k]
		if o == nil && len(l.ops) == maxOps {
			return nil
		}
		if o == nil {
			o = &tick.Op{PID: pid, Op: op, Hist: &stats.Hist{}}
			l.ops[k] = o
		}
		changed = append(changed, o)
		return o
	})
	if version > 1 {
		t.Threads = l.threads.read(&raw, t)
	}
	if raw.bad || len(raw.b) != 0 {
		return nil, fmt.Errorf("%w: a tick", ErrCorrupt)
	}
	for _, o := range changed {
		t.Ops = append(t.Ops, *o)
	}
	return t, nil
}

func readLives(dst []tick.ProcEvent, body []byte) ([]tick.ProcEvent, error) {
	r := reader{b: body}
	at := int64(0)
	for range r.count() {
		var e tick.ProcEvent
		at += r.int()
		e.Time = at
		if kind := r.bytes(1); kind != nil {
			e.Kind = tick.ProcKind(kind[0])
		}
		e.PID, e.TID, e.Peer, e.Comm = r.small(), r.small(), r.small(), r.string()
		if r.bad {
			break
		}
		dst = append(dst, e)
	}
	if r.bad || len(r.b) != 0 {
		return dst[:0], fmt.Errorf("%w: events of processes", ErrCorrupt)
	}
	return dst, nil
}
