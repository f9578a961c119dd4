package store

import (
	"context"
	"errors"
	"io"

	"ingero/internal/stats"
	"ingero/internal/store/retention"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/internal/track"
	"ingero/pkg/events"
)

// Restore writes a session's rows from its log to the SQLite file at path, as they were written
// during the recording, for a repair. It writes no chains: a log has none. It reports the number of
// calls read so far to calls.
func Restore(ctx context.Context, path string, l *segment.Log, calls func(uint64)) (err error) {
	h := &Held{}
	if h.SQL, err = openSQL(path, Schema(), func() error { return nil }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	s := l.Session()
	v, err := newSaver(h.SQL, &s)
	if err != nil {
		return err
	}
	r := &restorer{saver: v, track: track.New(), sketches: map[opID]*stats.Sketch{}, ops: map[opID]int{}, calls: calls}
	if err := errors.Join(r.play(ctx, l), v.close()); err != nil {
		return err
	}
	return h.Settle()
}

type restorer struct {
	*saver
	track    *track.Tracker
	lives    []tick.ProcEvent // those before the next calls
	changes  []tick.Label     // of labels, before the next tick
	exits    []tick.ProcEvent // before the next tick
	sketches map[opID]*stats.Sketch
	ops      map[opID]int // indexes in next.Ops
	next     tick.Tick    // what has come since the last tick
	begun    bool         // calls have come
	cut      bool         // calls are missing
	ended    bool
	calls    func(uint64)
}

// play applies a log. It skips damaged parts.
func (r *restorer) play(ctx context.Context, l *segment.Log) error {
	var e segment.Entry
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.Next(&e)
		switch {
		case errors.Is(err, io.EOF):
			if r.ended {
				return nil
			}
			_, err := r.db.Exec(sqlStale) // the writer was killed
			return err
		case segment.Unreadable(err):
			continue
		case err != nil:
			return err
		}
		if err := r.take(&e); err != nil {
			return err
		}
	}
}

// take applies one entry.
func (r *restorer) take(e *segment.Entry) error {
	r.records(e)
	r.changes, r.exits = append(r.changes, e.Labels...), append(r.exits, e.Lives...)
	if r.lives = append(r.lives, e.Lives...); len(e.Calls) > 0 || e.Tick != nil { // a log has them before their calls
		r.track.Batch(e.Calls, r.lives)
		r.lives = r.lives[:0]
	}
	for pid, op := range e.Removed() {
		r.drop(opID{pid, op})
	}
	switch t := &r.next; {
	case e.Functions != nil:
		r.addFunctions(e.Functions)
	case e.Stacks != nil:
		r.addStacks(e.Stacks)
	case e.Process != nil:
		t.Processes = append(t.Processes, *e.Process)
	case e.Library != nil:
		t.Libraries = append(t.Libraries, *e.Library)
	case e.Report != nil:
		t.Reports = append(t.Reports, *e.Report)
	case e.Xid != nil:
		t.Xids = append(t.Xids, *e.Xid)
	case e.GPU != nil:
		t.GPUs = append(t.GPUs, *e.GPU)
	case e.Inference != nil:
		t.Inference = append(t.Inference, e.Inference...)
	case e.End != nil:
		r.ended = true
		return r.end(e.End)
	case e.Tick != nil:
		return r.write(e.Tick)
	}
	return nil
}

// records adds calls.
func (r *restorer) records(e *segment.Entry) {
	if len(e.Calls) == 0 {
		return
	}
	if !r.begun && e.First > 0 { // earlier calls were pruned: rollups cover later ones only
		r.cut = true
		for i := range retention.Rollups {
			length := int64(retention.Rollups[i].Length)
			r.rows.Kept[i] = stats.Floor(e.Calls[0].End()+int64(rollLate), length) + length
		}
	}
	r.cut = r.cut || e.First != r.rollup.rolled
	r.begun, r.rollup.rolled = true, e.First
	r.add(e.Calls)
	r.calls(r.rollup.rolled)
	for i := range e.Calls {
		c := &e.Calls[i]
		if c.Flags&events.CallUnmeasured != 0 {
			continue
		}
		k := opID{c.PID, c.Op}
		s := r.sketches[k]
		if s == nil {
			s = &stats.Sketch{}
			r.sketches[k] = s
		}
		s.Add(c.Duration, c.Weight)
	}
}

// drop removes an operation that ticks no longer list.
func (r *restorer) drop(k opID) {
	i, ok := r.ops[k]
	if !ok {
		return
	}
	last := len(r.next.Ops) - 1
	r.next.Ops[i] = r.next.Ops[last]
	r.ops[opID{r.next.Ops[i].PID, r.next.Ops[i].Op}] = i
	r.next.Ops = r.next.Ops[:last]
	delete(r.ops, k)
	delete(r.sketches, k)
}

// write writes a tick. A log's tick has its changed operations only; the file needs all, since
// further calls may have come.
func (r *restorer) write(t *tick.Tick) error {
	for _, o := range t.Ops {
		k := opID{o.PID, o.Op}
		if hist := o.Hist; hist != nil { // the log keeps changing it
			own := *hist
			o.Hist = &own
		}
		if i, ok := r.ops[k]; ok {
			r.next.Ops[i] = o
			continue
		}
		r.ops[k] = len(r.next.Ops)
		r.next.Ops = append(r.next.Ops, o)
	}
	for i := range r.next.Ops {
		o := &r.next.Ops[i]
		if o.Dur = r.sketches[opID{o.PID, o.Op}]; o.Dur == nil {
			o.Dur = &stats.Sketch{}
		}
		o.Thinned = o.Thinned || r.cut && o.Dur.Count() != o.Sum.Done
	}
	r.addLabels(r.changes, r.exits)
	r.changes, r.exits = r.changes[:0], r.exits[:0]
	now := *t
	now.Ops, now.Processes, now.Libraries, now.Reports = r.next.Ops, r.next.Processes, r.next.Libraries, r.next.Reports
	now.Xids, now.GPUs, now.Inference = r.next.Xids, r.next.GPUs, r.next.Inference
	r.track.Threads(now.Threads)
	now.States = r.track.Tick(now.Processes, now.Ops)
	if err := r.note(&now); err != nil {
		return err
	}
	if err := errors.Join(r.tick(&now), r.rows.Trim(now.Time)); err != nil {
		return err
	}
	r.next.Processes, r.next.Libraries, r.next.Reports = nil, nil, nil
	r.next.Xids, r.next.GPUs, r.next.Inference = nil, nil, nil
	return nil
}
