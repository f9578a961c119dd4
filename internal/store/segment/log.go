package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"

	"ingero/internal/store/log"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of a reader's memory.
const (
	maxTick    = 8 << 20 // bytes per tick
	maxOps     = 1 << 14 // operations of processes; a writer leaves out further ones
	maxThreads = 1 << 14
	maxDrops   = 1 << 10
	maxLives   = 1 << 16 // per frame
	maxFrames  = 1 << 18 // frames of calls in a segment's index
	maxJSON    = 1 << 20 // bytes per entry
	maxOpen    = 16      // open calls per thread
	maxComm    = 64      // bytes of a thread's name; the kernel keeps 15
)

// Log reads a recording from start to end. It is not safe for concurrent use. A recording may have
// several Logs, also while it is written; each sees a segment as it is when it opens it.
type Log struct {
	session    Session
	files      log.Files
	segs       []Info
	at         int      // index in segs of seg
	file       log.File // seg's file; nil if the caller owns it
	seg        *segmentReader
	view       view
	torn       int64
	deleted    int  // segments deleted before they were reached
	skipped    bool // SkipTo found that no earlier segment has calls of its time
	number     uint64
	sure       bool    // number is known: it follows the previous segment's last call
	openErrors []error // errors of unopenable segments, for Next to return
}

// view selects parts of a log.
type view struct {
	from, to  int64 // frames of calls and waits outside are skipped
	every     int64 // of each such period after from, only the first part is wanted; 0: all
	first     int64
	callsOnly bool
	after     uint64 // calls with lower numbers in the session are skipped
	dec       *decoder
	waits     *waitDecoder
}

// partial reports whether some calls and waits may be skipped.
func (v *view) partial() bool { return v.callsOnly || v.from != math.MinInt64 || v.to != math.MaxInt64 }

// Entry is one entry of a log: calls, waits and calls, or one of the other fields. The Log owns its
// memory, which is valid until the next call of Next.
type Entry struct {
	Calls []events.Call
	First uint64 // number of Calls[0] in its session, from 0
	// Waits came before or among Calls: After[i] of the Calls precede Waits[i], or all Calls if
	// After[i] is larger.
	Waits []events.Wait
	After []int
	Lives []tick.ProcEvent
	// Functions are names of GPU functions. Each segment repeats those that it needs.
	Functions []events.Function
	// Stacks mostly follow their calls. Each segment repeats many.
	Stacks []events.Stack
	Ranges []tick.Range
	// Requests are those of the next tick.
	Requests []tick.Request
	// Labels are changes of labels. Each segment repeats those that last.
	Labels []tick.Label
	// Tick has the changed Ops, with their counts at that time, and all Threads.
	Tick    *tick.Tick
	Process *tick.Process
	Other   *tick.Process // an untraced process
	Library *tick.Library
	Report  *tick.Report
	Xid     *tick.Xid
	GPU     *tick.GPU
	// Inference are the next tick's reads of inference servers.
	Inference []tick.Inference
	End       *End

	batches []batchSize // batch sizes of the entries up to the next batches or tick
	open    bool        // the last batch continues in the next batches
	facts   *facts      // the next tick's facts
}

// Removed returns the operations that the next tick no longer lists.
func (e *Entry) Removed() iter.Seq2[uint32, events.Op] {
	return func(yield func(pid uint32, op events.Op) bool) {
		if e.facts == nil {
			return
		}
		for _, k := range e.facts.ops {
			if !yield(k.pid, k.op) {
				return
			}
		}
	}
}

// OpenLog opens a log of one segment of size bytes.
func OpenLog(r io.ReaderAt, size int64) (*Log, error) {
	l, err := newLog()
	if err != nil {
		return nil, err
	}
	if l.seg, err = openSegment(r, size); err != nil {
		return nil, err
	}
	l.session = l.seg.session.Session
	return l, nil
}

func newLog() (*Log, error) {
	dec, err := newDecoder()
	if err != nil {
		return nil, err
	}
	waits, err := newWaitDecoder()
	if err != nil {
		return nil, err
	}
	return &Log{view: view{from: math.MinInt64, to: math.MaxInt64, dec: dec, waits: waits}}, nil
}

// OpenSession opens a session's log; the caller must close it. The error wraps [fs.ErrNotExist] if
// there is none.
func OpenSession(files log.Files, session string) (*Log, error) {
	segs, err := OfSession(files, session)
	if err != nil {
		return nil, err
	}
	if segs, err = unlisted(files, session, segs); err != nil {
		return nil, err
	}
	l, err := newLog()
	if err != nil {
		return nil, err
	}
	l.files, l.segs = files, segs
	for l.seg == nil {
		switch err := l.open(); {
		case Unreadable(err): // the next one may be intact
			l.openErrors = append(l.openErrors, err)
		case err != nil:
			return nil, errors.Join(err, l.Close())
		case l.seg == nil && len(l.openErrors) > 0:
			return nil, l.openErrors[0]
		case l.seg == nil:
			return nil, fmt.Errorf("the log of session %s: %w", session, fs.ErrNotExist)
		}
	}
	l.session = l.seg.session.Session
	return l, nil
}

// Unreadable reports whether an error is about a recording's content rather than reading it. The
// rest may still be readable.
func Unreadable(err error) bool {
	return errors.Is(err, log.ErrCorrupt) || errors.Is(err, log.ErrVersion) || errors.Is(err, log.ErrNotLog)
}

// open opens the segment at l.at, or the first existing one after it. If segments are missing
// before it, the segment is open and open returns an error.
func (l *Log) open() error {
	for ; l.at < len(l.segs); l.at++ {
		s := &l.segs[l.at]
		file, err := OpenSegment(l.files, s)
		if errors.Is(err, fs.ErrNotExist) {
			l.deleted++
			l.sure = false
			continue
		}
		if err != nil {
			return err
		}
		if l.seg, err = openSegment(file, file.Size()); err != nil {
			l.at++ // Next continues after it
			l.sure = false
			return errors.Join(fmt.Errorf("%s: %w", s.Name, err), file.Close())
		}
		l.file, l.seg.sealed = file, s.Sealed
		return l.hole()
	}
	return nil
}

// hole returns an error that describes what is missing between the previous and the opened segment.
func (l *Log) hole() error {
	if l.at == 0 {
		return nil
	}
	s, before := &l.segs[l.at], &l.segs[l.at-1]
	first := l.seg.session.First - min(l.seg.session.Unkept, l.seg.session.First)
	calls := ""
	if l.sure && first > l.number {
		calls = fmt.Sprintf("calls %d to %d of the session", l.number, first-1)
	}
	switch n := s.Seq - before.Seq - 1; {
	case n > 0 && calls != "":
		return fmt.Errorf("%w before %s: %d of its segments are missing, with %s", log.ErrCorrupt, s.Name, n, calls)
	case n > 0:
		return fmt.Errorf("%w before %s: %d of its segments are missing", log.ErrCorrupt, s.Name, n)
	case calls != "":
		return fmt.Errorf("%w: %s is truncated; %s are lost", log.ErrCorrupt, before.Name, calls)
	}
	return nil
}

// Close closes the log's own files. The caller of OpenLog owns its reader.
func (l *Log) Close() error {
	l.at, l.openErrors = len(l.segs), nil
	return l.leave()
}

// leave closes the open segment.
func (l *Log) leave() (err error) {
	if l.seg != nil {
		l.torn += l.seg.frames.Size - l.seg.frames.Offset
		l.number, l.sure = l.seg.number, !l.seg.frames.Damaged
	}
	if l.file != nil {
		err = l.file.Close()
	}
	l.seg, l.file = nil, nil
	return err
}

// Session returns the recorded session.
func (l *Log) Session() Session { return l.session }

// Window lets Next skip frames of calls and waits in which none began before to and ended at or
// after from (Unix nanoseconds), without decoding them. Other frames are returned in full.
func (l *Log) Window(from, to int64) { l.view.from, l.view.to = from, to }

// Slices lets Next skip calls and waits outside the first nanoseconds of each period of every
// nanoseconds. Periods begin at the window's start. As for [Log.Window], Next skips whole frames.
func (l *Log) Slices(every, first int64) { l.view.every, l.view.first = every, first }

// wants reports whether a frame is wanted whose calls or waits began before last and ended at or
// after first.
func (v *view) wants(first, last int64) bool {
	if first >= v.to || last < v.from {
		return false
	}
	if v.every <= 0 || first < v.from {
		return true
	}
	into := (first - v.from) % v.every
	return into < v.first || last-first >= v.every-into
}

// CallsOnly lets Next skip everything but calls, and frames whose calls all precede call number
// after of the session. In a sealed segment, skipped frames are not even read.
func (l *Log) CallsOnly(after uint64) { l.view.callsOnly, l.view.after = true, after }

// Torn returns how many bytes follow the last whole frame read so far. At the end of the log, a
// crash truncated them.
func (l *Log) Torn() int64 {
	if l.seg != nil {
		return l.torn + l.seg.frames.Size - l.seg.frames.Offset
	}
	return l.torn
}

// Cut reports whether the first segments were deleted before the log was opened. It is false if
// [Log.SkipTo] would have skipped them.
func (l *Log) Cut() bool { return len(l.segs) > 0 && l.segs[0].Seq > 0 && !l.skipped }

// Deleted returns how many segments were deleted after the log was opened and before they were
// reached.
func (l *Log) Deleted() int { return l.deleted }

// Number returns the number in its session of the next call. It is unknown after damage and after
// missing segments.
func (l *Log) Number() (n uint64, known bool) {
	if l.seg != nil {
		return l.seg.number, !l.seg.frames.Damaged
	}
	return l.number, l.sure
}

// Next reads the next entry into e. It returns io.EOF at the end, even a truncated one, and an
// error that wraps [log.ErrCorrupt] or [log.ErrVersion] for unreadable parts. The next call continues after
// these.
func (l *Log) Next(e *Entry) error {
	if len(l.openErrors) > 0 {
		err := l.openErrors[0]
		l.openErrors = l.openErrors[1:]
		return err
	}
	for {
		if l.seg == nil {
			if l.at < len(l.segs) {
				if err := l.open(); err != nil {
					return err
				}
			}
			if l.seg == nil {
				return io.EOF
			}
		}
		err := l.seg.next(e, &l.view)
		if !errors.Is(err, io.EOF) {
			if err != nil && l.at < len(l.segs) {
				err = fmt.Errorf("%s: %w", l.segs[l.at].Name, err)
			}
			return err
		}
		if l.files == nil { // its only segment, which may be read again
			return io.EOF
		}
		if err := l.leave(); err != nil {
			return err
		}
		l.at++
	}
}
