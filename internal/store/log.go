package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of what a reader makes room for.
const (
	maxTick    = 8 << 20 // bytes of a tick
	maxOps     = 1 << 14 // operations of processes; a writer starts a segment at half of it
	maxThreads = 1 << 14
	maxDrops   = 1 << 10
	maxLives   = 1 << 16 // of a frame
	maxFrames  = 1 << 18 // of calls, in a segment that has an index
	maxJSON    = 1 << 20 // bytes of an entry
	maxOpen    = 16      // open calls of a thread
	maxComm    = 64      // bytes of a thread's name, of which the kernel keeps 15
)

// Log is a recording that is read from its beginning to its end. It is for one
// goroutine; many may read one, also while it is being written, and each sees
// what was there when it came to a segment.
type Log struct {
	session Session
	files   Files
	segs    []Segment
	at      int  // of segs: the one that seg reads
	file    File // of seg; nil when somebody else's
	seg     *segment
	view    view
	torn    int64
	gone    int // segments that were removed before they were reached
	number  uint64
	sure    bool    // number is that of the call behind the last segment
	told    []error // of segments that could not be opened, for Next to return
}

// view says what of a log is wanted.
type view struct {
	from, to  int64 // frames of calls and waits that lie outside are passed over
	every     int64 // of each such time from from on, the first of it is wanted; 0: all
	first     int64
	callsOnly bool
	after     uint64 // calls before this one in the session are passed over
	dec       *decoder
	waits     *waitDecoder
}

// part says that some calls and waits may be passed over.
func (v *view) part() bool { return v.callsOnly || v.from != math.MinInt64 || v.to != math.MaxInt64 }

// Entry is one entry of a log: calls, waits and calls, or one of the other
// fields. Its memory is the log's, valid until the next call of Next.
type Entry struct {
	Calls []events.Call
	First uint64 // the number of Calls[0] in its session, from 0
	// Waits came before Calls or among them: before Waits[i], the first After[i] of
	// Calls did, or all where that is more than there are.
	Waits []events.Wait
	After []int
	Lives []tick.ProcEvent
	// Functions are names of GPU functions. Each segment repeats those that it needs.
	Functions []events.Function
	// Stacks are those of calls that mostly came before. Each segment repeats many.
	Stacks []events.Stack
	Ranges []tick.Range
	// Tick has those Ops that changed, with the counts of then, and all Threads.
	Tick    *tick.Tick
	Process *tick.Process
	Other   *tick.Process // one that is not traced
	Library *tick.Library
	Report  *tick.Report
	Xid     *tick.Xid
	GPU     *tick.GPU
	End     *End

	batches []batchSize // what follows, up to the next of these or a tick, came in
	open    bool        // the last of them goes on in the next batches
	facts   *facts      // of the tick that follows
}

// OpenLog reads the beginning of a log that is one segment, of size bytes.
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

// OpenSession opens the log of a session, which is to be closed. The error wraps
// [fs.ErrNotExist] when there is none.
func OpenSession(files Files, session string) (*Log, error) {
	segs, err := SessionSegments(files, session)
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
		case Unreadable(err): // the next one may be whole
			l.told = append(l.told, err)
		case err != nil:
			return nil, errors.Join(err, l.Close())
		case l.seg == nil && len(l.told) > 0:
			return nil, l.told[0]
		case l.seg == nil:
			return nil, fmt.Errorf("the log of session %s: %w", session, fs.ErrNotExist)
		}
	}
	l.session = l.seg.session.Session
	return l, nil
}

// Unreadable says whether an error is about what a recording holds, and not about
// the reading of it: what is behind may be read all the same.
func Unreadable(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) || errors.Is(err, ErrNotLog)
}

// open opens the segment at l.at, or the first after it that is still there. Where
// others are missing before it, it is open and the error says so.
func (l *Log) open() error {
	for ; l.at < len(l.segs); l.at++ {
		s := &l.segs[l.at]
		file, err := OpenSegment(l.files, s)
		if errors.Is(err, fs.ErrNotExist) {
			l.gone++
			l.sure = false
			continue
		}
		if err != nil {
			return err
		}
		if l.seg, err = openSegment(file, file.Size()); err != nil {
			l.at++ // Next goes on behind it
			l.sure = false
			return errors.Join(fmt.Errorf("%s: %w", s.Name, err), file.Close())
		}
		l.file, l.seg.sealed = file, s.Sealed
		return l.hole()
	}
	return nil
}

// hole says what is missing between the segment that was opened and the one before.
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
		return fmt.Errorf("%w before %s: %d of its segments are missing, with %s", ErrCorrupt, s.Name, n, calls)
	case n > 0:
		return fmt.Errorf("%w before %s: %d of its segments are missing", ErrCorrupt, s.Name, n)
	case calls != "":
		return fmt.Errorf("%w: %s is cut short; %s are lost", ErrCorrupt, before.Name, calls)
	}
	return nil
}

// Close closes what is open of the log's files. The reader that OpenLog was given
// is its owner's.
func (l *Log) Close() error {
	l.at, l.told = len(l.segs), nil
	return l.leave()
}

// leave closes the segment that is open.
func (l *Log) leave() (err error) {
	if l.seg != nil {
		l.torn += l.seg.frames.size - l.seg.frames.at
		l.number, l.sure = l.seg.number, !l.seg.frames.damaged
	}
	if l.file != nil {
		err = l.file.Close()
	}
	l.seg, l.file = nil, nil
	return err
}

// Session returns what the recording is of.
func (l *Log) Session() Session { return l.session }

// Window lets Next pass over calls and waits of frames in which none began before
// to and ended at from or later (Unix nanoseconds). It spares decoding them; those
// of other frames are all returned.
func (l *Log) Window(from, to int64) { l.view.from, l.view.to = from, to }

// Slices lets Next pass over calls and waits but for the first of each every from the
// window's beginning on (nanoseconds), as [Log.Window] does over those outside.
func (l *Log) Slices(every, first int64) { l.view.every, l.view.first = every, first }

// wants says whether something of a frame is wanted whose calls or waits began before
// last and ended at first or later.
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

// CallsOnly lets Next pass over all but calls, and over the frames whose calls all
// came before call number after of the session. In a sealed segment what is passed
// over is not even read.
func (l *Log) CallsOnly(after uint64) { l.view.callsOnly, l.view.after = true, after }

// Torn returns how many bytes behind the last whole frame read so far are in
// the log. At the end that is what a crash cut off.
func (l *Log) Torn() int64 {
	if l.seg != nil {
		return l.torn + l.seg.frames.size - l.seg.frames.at
	}
	return l.torn
}

// Cut says whether the first segments were removed before the log was opened.
func (l *Log) Cut() bool { return len(l.segs) > 0 && l.segs[0].Seq > 0 }

// Gone returns how many segments were removed before they were reached, of those
// that were there when the log was opened.
func (l *Log) Gone() int { return l.gone }

// Number returns the number in its session of the call that would come next. It is
// not known behind damage, nor where segments are gone.
func (l *Log) Number() (n uint64, known bool) {
	if l.seg != nil {
		return l.seg.number, !l.seg.frames.damaged
	}
	return l.number, l.sure
}

// Next reads the next entry into e. It returns io.EOF at the end, also where
// that is cut off, and an error that wraps [ErrCorrupt] or [ErrVersion] for what
// it cannot read; the call after goes on behind that.
func (l *Log) Next(e *Entry) error {
	if len(l.told) > 0 {
		err := l.told[0]
		l.told = l.told[1:]
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
		if l.files == nil { // its one segment, which may be read again
			return io.EOF
		}
		if err := l.leave(); err != nil {
			return err
		}
		l.at++
	}
}
