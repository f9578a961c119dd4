package segment

import (
	"encoding/json"
	"slices"

	"ingero/internal/stats"
	"ingero/internal/store/log"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Writer appends to a log. It is not safe for concurrent use. Unwritten entries are lost only if
// the process is killed.
type Writer struct {
	file      *log.Writer
	enc       *encoder
	waits     *waitEncoder
	lives     []tick.ProcEvent
	functions []events.Function
	stacks    []events.Stack
	ranges    []tick.Range
	labels    []tick.Label
	batches   []batchSize // batch sizes of the pending entries
	body      []byte
	changed   []byte // encoded operations of a tick
	ops       map[opKey]*opState
	procs     map[uint32]Process
	others    map[uint32]Process
	libs      map[libKey]Library
	reports   map[tick.Report]bool
	threads   threadsWriter
	gpus      GPUChanges
	listed    listed // what the last tick listed
	places    stacksEncoder
	known     *known
	repeated  int64  // bytes that repeat what earlier segments have
	ticks     int    // of this segment
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

// NewWriter starts segment seq of a session in f, which must be empty. before is the writer of the
// previous segment, nil for none. The new segment repeats what before has collected, so that it can
// be read alone. If NewWriter fails, before can continue.
func NewWriter(f log.Output, s Session, seq int, before *Writer) (*Writer, error) {
	head := Head{Session: s, Seq: seq}
	if before != nil {
		head.First, head.Unkept = before.number, before.number-before.written
	}
	w, err := newWriter(f, &head)
	if err != nil {
		return nil, err
	}
	err = w.carry(before)
	w.repeated = w.end()
	return w, err
}

// newWriter starts a segment in f, which must be empty.
func newWriter(f log.Output, s *Head) (*Writer, error) {
	enc, err := newEncoder()
	if err != nil {
		return nil, err
	}
	waits, err := newWaitEncoder()
	if err != nil {
		return nil, err
	}
	w := &Writer{file: log.NewWriter(f), known: &known{}, enc: enc, waits: waits, threads: threadsWriter{}, gpus: GPUChanges{}, ops: map[opKey]*opState{}, procs: map[uint32]Process{}, others: map[uint32]Process{},
		libs: map[libKey]Library{}, reports: map[tick.Report]bool{}, number: s.First, written: s.First}
	if err := w.json(frameSession, s); err != nil {
		return nil, err
	}
	return w, w.Flush()
}

func (w *Writer) json(kind log.Kind, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.frame(kind, 1, body)
	return nil
}

func (w *Writer) frame(kind log.Kind, version uint8, body []byte) {
	w.file.Append(kind, version, body)
}

// Keep makes the next segments repeat a batch's names, stacks and labels, whether or not this one has them.
func (w *Writer) Keep(b *tick.Batch) {
	w.known.functions.add(b.Functions)
	w.known.stacks.add(b.Stacks)
	w.known.labels.Batch(b.Labels, b.Procs, func(tick.LabelSpan) {})
}

// known is what the next segment repeats of this and earlier ones.
type known struct {
	functions functionsKept
	stacks    stacksKept
	labels    tick.Labels
}

// Add appends a batch: its waits before its calls, the order in which readers need them.
func (w *Writer) Add(b *tick.Batch) {
	w.beginBatch(b)
	w.lives = append(w.lives, b.Procs...)
	w.functions = append(w.functions, b.Functions...)
	w.stacks = append(w.stacks, b.Stacks...)
	w.ranges, w.labels = append(w.ranges, b.Ranges...), append(w.labels, b.Labels...)
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

// Size returns the size of the file in bytes.
func (w *Writer) Size() int64 { return w.file.Size() }

// Repeated returns how many bytes of the file repeat what earlier segments have: its start, and its
// first tick, which is complete.
func (w *Writer) Repeated() int64 { return w.repeated }

// end returns the size of the file in bytes once the ended frames are written.
func (w *Writer) end() int64 { return w.file.Size() + int64(w.file.Pending()) }

// Buffered returns the size in bytes of the ended frames that are not in the file yet.
func (w *Writer) Buffered() int { return w.file.Pending() }

// Pending reports whether some entries are not in the file yet.
func (w *Writer) Pending() bool {
	return w.enc.n > 0 || w.waits.n > 0 || len(w.lives) > 0 || len(w.functions) > 0 || len(w.stacks) > 0 || len(w.ranges) > 0 || len(w.labels) > 0 || w.file.Pending() > 0
}

// Cut ends the open frames. The frame of waits directly precedes the frame of calls and has their
// relative order.
func (w *Writer) Cut() { w.cutAt(false) }

// cutAt is cut; within is set inside a batch.
func (w *Writer) cutAt(within bool) {
	w.putBatches(within)
	w.putFunctions(w.functions)
	w.putStacks(w.stacks)
	w.putRanges(w.ranges)
	w.putLabels(w.labels)
	w.functions, w.stacks, w.ranges, w.labels = w.functions[:0], w.stacks[:0], w.ranges[:0], w.labels[:0]
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

// Flush writes all pending entries.
func (w *Writer) Flush() error {
	w.Cut()
	return w.Write()
}

// Write writes the ended frames. If it fails, the file still ends with a whole frame.
func (w *Writer) Write() error {
	if w.file.Pending() == 0 {
		return nil
	}
	if err := w.file.Write(); err != nil {
		return err
	}
	w.unwritten, w.written = 0, w.number
	return nil
}

// Full reports whether the segment has many operations that the last tick no longer listed: half of
// them, or a quarter if readers accept no more. The next segment has more room then.
func (w *Writer) Full() bool {
	n := len(w.ops)
	past := n - len(w.listed.ops)
	return n >= fullOps && past >= n/2 || n >= maxOps && past >= maxOps/4
}

// fullOps is how many operations a segment has at least when it is full of them.
const fullOps = 1 << 13

// Drop discards unwritten entries, and returns how many calls and waits these were. Their numbers
// are not reused, so the next entries must be in another segment.
func (w *Writer) Drop() int {
	n := w.enc.n + w.waits.n + w.unwritten
	w.unwritten = 0
	w.enc.reset()
	w.waits.reset()
	w.lives, w.functions, w.stacks, w.ranges, w.labels, w.batches = w.lives[:0], w.functions[:0], w.stacks[:0], w.ranges[:0], w.labels[:0], w.batches[:0]
	w.file.Drop()
	return n
}

// Tick writes what is new in a tick. chains is a checksum of its chains, 0 for none, which a replay
// returns with the tick.
func (w *Writer) Tick(t *tick.Tick, chains uint64) error {
	w.Cut()
	from := w.end()
	if err := w.things(t); err != nil {
		return err
	}
	w.host(t)
	n := w.changedOps(t)
	if err := w.facts(t, chains); err != nil {
		return err
	}
	raw := appendTick(w.body[:0], t)
	raw = append(appendUvarint(raw, uint64(n)), w.changed...)
	w.body = w.threads.append(raw, t)
	w.frame(frameTick, latest(frameTick), w.enc.column(nil, w.body))
	if w.ticks++; w.ticks == 1 {
		w.repeated += w.end() - from
	}
	return nil
}

// changedOps encodes the operations that differ from the last written ones, and returns their number.
// Those without room wait for the next tick.
func (w *Writer) changedOps(t *tick.Tick) (n int) {
	w.changed = w.changed[:0]
	for i := range t.Ops {
		o := &t.Ops[i]
		k := opKey{o.PID, o.Op}
		s := w.ops[k]
		if s == nil && len(w.ops) >= maxOps || len(w.changed) > maxTick/2 {
			continue
		}
		switch {
		case s == nil:
			s = &opState{}
			w.ops[k] = s
			w.changed = appendOp(w.changed, o, nil)
		case t.Final: // complete, so that it alone gives the totals
			w.changed = appendOp(w.changed, o, nil)
		case s.sum != o.Sum || s.thinned != o.Thinned || changed(s.hist, o.Hist) || !w.listed.ops[k]:
			w.changed = appendOp(w.changed, o, s.hist)
		default:
			continue
		}
		n++
		s.sum, s.thinned = o.Sum, o.Thinned
		if o.Hist != nil {
			s.hist = o.Hist
		}
	}
	return n
}

// changed reports whether a histogram has grown since it was last written.
func changed(written, now *stats.Hist) bool {
	return now != nil && written != now && (written == nil || *written != *now)
}

// processes writes the processes that are new or have changed since known.
func (w *Writer) processes(kind log.Kind, all []tick.Process, known map[uint32]Process) error {
	for i := range all {
		p := ProcessOf(&all[i])
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
func (w *Writer) things(t *tick.Tick) error {
	if err := w.processes(frameProcess, t.Processes, w.procs); err != nil {
		return err
	}
	if err := w.processes(frameOther, t.Others, w.others); err != nil {
		return err
	}
	for i := range t.Libraries {
		l := LibraryOf(&t.Libraries[i])
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
	w.putRequests(t.Requests)
	if err := w.inference(t.Inference); err != nil {
		return err
	}
	return w.gpu(t)
}

// End writes the end marker.
func (w *Writer) End(e End) error {
	w.Cut()
	return w.json(frameEnd, e)
}
