package store

import (
	"encoding/json"
	"slices"

	"ingero/internal/stats"
	"ingero/internal/store/log"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// logWriter appends to a log. It is not safe for concurrent use. Unwritten entries are lost only if
// the process is killed.
type logWriter struct {
	file      *log.Writer
	enc       *encoder
	waits     *waitEncoder
	lives     []tick.ProcEvent
	functions []events.Function
	stacks    []events.Stack
	ranges    []tick.Range
	batches   []batchSize // batch sizes of the pending entries
	body      []byte
	ops       map[opKey]*opState
	procs     map[uint32]processJSON
	others    map[uint32]processJSON
	libs      map[libKey]libraryJSON
	reports   map[tick.Report]bool
	threads   threadsWriter
	gpus      gpuChanges
	listed    listed // what the last tick listed
	places    stacksEncoder
	number    uint64 // calls of the session so far, also from earlier segments
	written   uint64 // how many of these are in the file or precede it
	unwritten int    // calls and waits in frames that file has not written
}

type opKey struct {
	pid uint32
	op  events.Op
}

// opState is what a log has of an operation so far.
type opState struct {
	sum     tick.Counts
	hist    *stats.Hist // as of the tick; nil: none
	thinned bool
}

type libKey struct{ path, buildID string }

// newLogWriter starts a segment in f, which must be empty.
func newLogWriter(f log.Output, s *segmentJSON) (*logWriter, error) {
	enc, err := newEncoder()
	if err != nil {
		return nil, err
	}
	waits, err := newWaitEncoder()
	if err != nil {
		return nil, err
	}
	w := &logWriter{file: log.NewWriter(f), enc: enc, waits: waits, threads: threadsWriter{}, gpus: gpuChanges{}, ops: map[opKey]*opState{}, procs: map[uint32]processJSON{}, others: map[uint32]processJSON{},
		libs: map[libKey]libraryJSON{}, reports: map[tick.Report]bool{}, number: s.First, written: s.First}
	if err := w.json(frameSession, s); err != nil {
		return nil, err
	}
	return w, w.flush()
}

func (w *logWriter) json(kind log.Kind, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.frame(kind, 1, body)
	return nil
}

func (w *logWriter) frame(kind log.Kind, version uint8, body []byte) {
	w.file.Append(kind, version, body)
}

// add appends a batch: its waits before its calls, the order in which readers need them.
func (w *logWriter) add(b *tick.Batch) {
	w.beginBatch(b)
	w.lives = append(w.lives, b.Procs...)
	w.functions = append(w.functions, b.Functions...)
	w.stacks = append(w.stacks, b.Stacks...)
	w.ranges = append(w.ranges, b.Ranges...)
	for i := range b.Waits {
		w.waits.add(&b.Waits[i], w.enc.n)
		w.batch().Waits++
		if w.waits.n == frameWaitsMax {
			w.cutAt(true)
		}
	}
	w.number += uint64(len(b.Calls))
	for i := range b.Calls {
		w.enc.add(&b.Calls[i])
		w.batch().Calls++
		if w.enc.n == frameCallsMax {
			w.cutAt(true)
		}
	}
}

// pending reports whether some entries are not in the file yet.
func (w *logWriter) pending() bool {
	return w.enc.n > 0 || w.waits.n > 0 || len(w.lives) > 0 || len(w.functions) > 0 || len(w.stacks) > 0 || len(w.ranges) > 0 || w.file.Pending() > 0
}

// cut ends the open frames. The frame of waits directly precedes the frame of calls and has their
// relative order.
func (w *logWriter) cut() { w.cutAt(false) }

// cutAt is cut; within is set inside a batch.
func (w *logWriter) cutAt(within bool) {
	w.putBatches(within)
	w.putFunctions(w.functions)
	w.putStacks(w.stacks)
	w.putRanges(w.ranges)
	w.functions, w.stacks, w.ranges = w.functions[:0], w.stacks[:0], w.ranges[:0]
	for lives := range slices.Chunk(w.lives, maxLives) {
		version := livesVersion(lives)
		w.body = appendLives(w.body[:0], lives, version)
		w.frame(frameLives, version, w.body)
	}
	w.lives = w.lives[:0]
	if w.waits.n > 0 {
		w.body = w.waits.body(w.body[:0])
		w.frame(frameWaits, latest(frameWaits), w.body)
		w.unwritten += w.waits.n
		w.waits.reset()
	}
	if w.enc.n > 0 {
		version := w.enc.version()
		w.body = w.enc.body(w.body[:0])
		w.frame(frameCalls, version, w.body)
		w.unwritten += w.enc.n
		w.enc.reset()
	}
}

// flush writes all pending entries.
func (w *logWriter) flush() error {
	w.cut()
	return w.write()
}

// write writes the ended frames. If it fails, the file still ends with a whole frame.
func (w *logWriter) write() error {
	if w.file.Pending() == 0 {
		return nil
	}
	if err := w.file.Write(); err != nil {
		return err
	}
	w.unwritten, w.written = 0, w.number
	return nil
}

// full reports whether readers would need too much memory for more operations.
func (w *logWriter) full() bool { return len(w.ops) >= maxOps/2 }

// drop discards unwritten entries, and returns how many calls and waits these were. Their numbers
// are not reused, so the next entries must be in another segment.
func (w *logWriter) drop() int {
	n := w.enc.n + w.waits.n + w.unwritten
	w.unwritten = 0
	w.enc.reset()
	w.waits.reset()
	w.lives, w.functions, w.stacks, w.ranges, w.batches = w.lives[:0], w.functions[:0], w.stacks[:0], w.ranges[:0], w.batches[:0]
	w.file.Drop()
	return n
}

// tick writes what is new in a tick.
func (w *logWriter) tick(t *tick.Tick) error {
	w.cut()
	if err := w.things(t); err != nil {
		return err
	}
	w.host(t)
	var written []*tick.Op
	for i := range t.Ops {
		o := &t.Ops[i]
		k := opKey{o.PID, o.Op}
		s := w.ops[k]
		if s == nil || t.Final || s.sum != o.Sum || s.thinned != o.Thinned || changed(s.hist, o.Hist) || !w.listed.ops[k] {
			written = append(written, o)
		}
	}
	if err := w.facts(t); err != nil {
		return err
	}
	raw := appendTick(w.body[:0], t)
	raw = appendUvarint(raw, uint64(len(written)))
	for _, o := range written {
		k := opKey{o.PID, o.Op}
		s := w.ops[k]
		switch {
		case s == nil:
			s = &opState{}
			w.ops[k] = s
			raw = appendOp(raw, o, nil)
		case t.Final: // complete, so that it alone gives the totals
			raw = appendOp(raw, o, nil)
		default:
			raw = appendOp(raw, o, s.hist)
		}
		s.sum, s.thinned = o.Sum, o.Thinned
		if o.Hist != nil {
			s.hist = o.Hist
		}
	}
	w.body = w.threads.append(raw, t)
	w.frame(frameTick, latest(frameTick), w.enc.column(nil, w.body))
	return nil
}

// changed reports whether a histogram has grown since it was last written.
func changed(told, now *stats.Hist) bool {
	return now != nil && told != now && (told == nil || *told != *now)
}

// processes writes the processes that are new or have changed since known.
func (w *logWriter) processes(kind log.Kind, all []tick.Process, known map[uint32]processJSON) error {
	for i := range all {
		p := toProcessJSON(&all[i])
		if known[p.PID] == p {
			continue
		}
		known[p.PID] = p
		if err := w.json(kind, p); err != nil {
			return err
		}
	}
	return nil
}

// things writes the new and changed processes, libraries and reports.
func (w *logWriter) things(t *tick.Tick) error {
	if err := w.processes(frameProcess, t.Processes, w.procs); err != nil {
		return err
	}
	if err := w.processes(frameOther, t.Others, w.others); err != nil {
		return err
	}
	for i := range t.Libraries {
		l := toLibraryJSON(&t.Libraries[i])
		k := libKey{l.Path, l.BuildID}
		if w.libs[k] == l {
			continue
		}
		w.libs[k] = l
		if err := w.json(frameLibrary, l); err != nil {
			return err
		}
	}
	for _, r := range t.Reports {
		if w.reports[r] {
			continue
		}
		w.reports[r] = true
		if err := w.json(frameReport, reportJSON(r)); err != nil {
			return err
		}
	}
	return w.gpu(t)
}

// end writes the end marker.
func (w *logWriter) end(e End) error {
	w.cut()
	return w.json(frameEnd, e)
}
