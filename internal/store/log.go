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
	maxTick = 4 << 20 // bytes of a tick
	maxOps  = 1 << 15 // operations of processes
)

// Log is a recording that is read from its beginning to its end. It is for one
// goroutine; many may read one file, also while it is being written, and each
// sees what was there when it was opened.
type Log struct {
	frames  frames
	session Session
	dec     *decoder
	ops     map[opKey]*tick.Op
	from    int64 // frames of calls that lie outside are passed over
	to      int64
}

// Entry is one entry of a log. One of its fields is set. Its memory is the
// log's, valid until the next call of Next.
type Entry struct {
	Calls   []events.Call
	Lives   []tick.ProcEvent
	Tick    *tick.Tick // its Ops are those that changed, with the counts of then
	Process *tick.Process
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
	l := &Log{frames: frames{r: r, size: size}, dec: dec}
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
	case version != frameVersion:
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
	l.ops = map[opKey]*tick.Op{}
	l.Window(math.MinInt64, math.MaxInt64)
}

// Window lets Next pass over calls of frames in which none began before to and
// ended at from or later (Unix nanoseconds). It spares decoding them; those of
// other frames are all returned.
func (l *Log) Window(from, to int64) { l.from, l.to = from, to }

// Torn returns how many bytes behind the last whole frame read so far are in
// the log. At the end that is what a crash cut off.
func (l *Log) Torn() int64 { return l.frames.size - l.frames.at }

// Next reads the next entry into e. It returns io.EOF at the end, also where
// that is cut off, and an error that wraps [ErrCorrupt] or [ErrVersion] where
// it cannot read on.
func (l *Log) Next(e *Entry) error {
	*e = Entry{Calls: e.Calls[:0], Lives: e.Lives[:0]}
	for {
		kind, version, body, err := l.frames.next()
		if err != nil {
			return err
		}
		if kind == frameSession || kind > frameEnd || kind == 0 {
			continue // the first, or of a kind that came later
		}
		if version != frameVersion {
			return fmt.Errorf("%w (frame of kind %d, version %d)", ErrVersion, kind, version)
		}
		if kind == frameCalls {
			if _, first, last := span(body); first >= l.to || last < l.from {
				continue
			}
		}
		if err := l.entry(e, kind, body); err != nil {
			return fmt.Errorf("before byte %d: %w", l.frames.at, err)
		}
		return nil
	}
}

func (l *Log) entry(e *Entry, kind frameKind, body []byte) (err error) {
	switch kind {
	case frameCalls:
		e.Calls, err = l.dec.calls(e.Calls, body)
	case frameLives:
		e.Lives, err = readLives(e.Lives, body)
	case frameTick:
		e.Tick, err = l.tick(body)
	case frameProcess:
		j, err := unmarshal[processJSON](body, "process")
		p := j.process()
		e.Process = &p
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

// tick reads a tick. The operations' counts continue those of the ticks before.
func (l *Log) tick(body []byte) (*tick.Tick, error) {
	r := reader{b: body}
	raw, err := l.dec.column(&r, columns, maxTick)
	if err != nil {
		return nil, err
	}
	var changed []*tick.Op
	t, err := readTick(&raw, func(pid uint32, op events.Op) *tick.Op {
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
	if err != nil {
		return nil, err
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
