package store

import (
	"database/sql"
	"errors"
	"strings"
	"unicode/utf8"

	"ingero/internal/stats"
	"ingero/internal/store/retention"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// saver keeps a session's SQLite part up to date. It writes what has changed since its last write.
type saver struct {
	db        *sql.DB
	id        int64 // the session's, in this database
	stmts     map[*string]*sql.Stmt
	ops       map[opID]savedOp
	procs     map[uint32]segment.Process
	pods      map[string]tick.Pod
	libs      map[libID]segment.Library
	reports   map[tick.Report]bool
	drops     map[string]uint64
	gaps      map[uint32]*savedGap
	chains    map[string]chainRow // the last tick's chains, as written
	waiting   map[string]chainRow // to be written
	revised   map[string]bool     // to be deleted
	lost      losses
	episodes  []pendingEpisode // to be written
	last      *savedGap        // the previous call's: most calls have the same
	lastPID   uint32
	blob      []byte
	rollup    *rollup
	rows      *retention.Rows
	latest    int64 // latest end of a call: no tick is earlier, whatever the clock says
	notable   notable
	host      savedHost
	stated    map[stateKey]any  // written rows of states
	named     []events.Function // to be written
	labels    tick.Labels
	spans     []tick.LabelSpan        // to be written
	dropped   map[tick.LabelSpan]bool // spans that began while the queue was full, without their ends
	leftOut   uint64                  // names, spans and reads that are in no row
	gpus      segment.GPUChanges
	xids      []tick.Xid       // to be written
	gpuStates []tick.GPU       // to be written
	inference []tick.Inference // to be written
	steps     engineSteps
	stacks    savedStacks
	spent     [len(retention.Accounts)]savedAccounts
	counted   [len(retention.Counted)]counting
	derived   bool // the ticks' counts are derived from records, not the kernel's
}

// opID identifies an operation of a process.
type opID struct {
	pid uint32
	op  events.Op
}

type libID struct{ path, buildID string }

type savedOp struct {
	sum     tick.Counts
	seen    uint64 // durations in the sketch
	thinned bool
}

type savedGap struct {
	tick.Gap
	saved tick.Gap
}

var (
	sqlSession = `INSERT INTO sessions (uid, node, started_ns, updated_ns, state, problem, mono_offset_ns, version, kernel, mode, target, agent_pid, agent_cpu_ns, records)
		VALUES (?, ?, ?, ?, 'running', '', ?, ?, ?, ?, ?, ?, 0, 0)`
	sqlStale   = `UPDATE sessions SET state = 'interrupted', ended_ns = updated_ns WHERE state = 'running'`
	sqlTick    = `UPDATE sessions SET updated_ns = ?, records = ?, agent_cpu_ns = ?, rolled = ?, state = 'running', problem = '', ended_ns = NULL WHERE id = ?`
	sqlEnd     = `UPDATE sessions SET ended_ns = ?, state = ?, problem = ? WHERE id = ?`
	sqlLibrary = `REPLACE INTO libraries VALUES (?, ?, ?, ?, ?, ?)`
	sqlReport  = `INSERT OR IGNORE INTO reports VALUES (?, ?, ?, ?)`
	sqlDrop    = `REPLACE INTO drops VALUES (?, ?, ?)`
	sqlGap     = `REPLACE INTO gaps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlOp      = `REPLACE INTO ops VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// newSaver starts a session in the database. It marks sessions that are still marked running as
// interrupted: this process has the lock.
func newSaver(db *sql.DB, s *segment.Session) (*saver, error) {
	v := &saver{db: db, stmts: map[*string]*sql.Stmt{}, ops: map[opID]savedOp{}, procs: map[uint32]segment.Process{}, pods: map[string]tick.Pod{}, libs: map[libID]segment.Library{},
		reports: map[tick.Report]bool{}, drops: map[string]uint64{}, gaps: map[uint32]*savedGap{},
		chains: map[string]chainRow{}, waiting: map[string]chainRow{}, revised: map[string]bool{}, rollup: newRollup(), stated: map[stateKey]any{}, lost: losses{}, dropped: map[tick.LabelSpan]bool{}, gpus: segment.GPUChanges{}, derived: s.Mode == Imported}
	for i := range v.counted {
		v.counted[i].since = s.Started
	}
	if _, err := db.Exec(sqlStale); err != nil {
		return nil, err
	}
	at := s.Started.UnixNano()
	r, err := db.Exec(sqlSession, s.ID, s.Node, at, at, s.MonoOffset, s.Version, s.Kernel, s.Mode, s.Target, s.PID)
	if err != nil {
		return nil, err
	}
	if v.id, err = r.LastInsertId(); err != nil {
		return nil, err
	}
	v.rows = retention.NewRows(db, v.id)
	if _, err := db.Exec(waitShort); err != nil {
		return nil, err
	}
	for _, q := range []*string{&sqlTick, &sqlOther, &sqlProcess, &sqlLibrary, &sqlReport, &sqlDrop, &sqlGap, &sqlOp, &sqlPod, &sqlChain, &sqlRevised, &sqlLossGone, &sqlLoss, &sqlEpisode, &sqlNoEpisode, &sqlAccount, &sqlCounted, &sqlRoll, &sqlFirstRoll, &sqlGet, &sqlTier, &sqlNotable, &sqlSnapshot,
		&sqlMemory, &sqlLedger, &sqlDevice, &sqlHeld, &sqlStream, &sqlGraph, &sqlComm, &sqlCopy, &sqlError, &sqlName, &sqlFunction, &sqlLabel, &sqlHost, &sqlXid, &sqlGPU, &sqlGPUState, &sqlInference, &sqlEngineSteps, &sqlFrame, &sqlStack} {
		if v.stmts[q], err = db.Prepare(*q); err != nil {
			return nil, errors.Join(err, v.close())
		}
	}
	return v, nil
}

func (v *saver) close() error {
	var errs []error
	for _, s := range v.stmts {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// add adds calls, and the gaps before them.
func (v *saver) add(calls []events.Call) {
	v.notable.add(calls, v.rollup.rolled)
	v.rollup.add(calls)
	for i := range calls {
		c := &calls[i]
		v.latest = max(v.latest, c.End())
		if v.last == nil || v.lastPID != c.PID {
			g := v.gaps[c.PID]
			if g == nil {
				g = &savedGap{}
				v.gaps[c.PID] = g
			}
			v.last, v.lastPID = g, c.PID
		}
		v.last.Add(c)
	}
}

// null returns NULL for 0, an unknown time.
func null(ns int64) any {
	if ns == 0 {
		return nil
	}
	return ns
}

// saving is one transaction.
type saving struct {
	*saver
	tx   *sql.Tx
	inTx map[*string]*sql.Stmt // the statements in the transaction
	done []func()              // run after the commit
}

// stmt returns a statement in the transaction.
func (v *saving) stmt(q *string) *sql.Stmt {
	s := v.inTx[q]
	if s == nil {
		s = v.tx.Stmt(v.stmts[q])
		v.inTx[q] = s
	}
	return s
}

func (v *saving) exec(q *string, args ...any) error {
	for i, a := range args {
		if s, ok := a.(string); ok && !utf8.ValidString(s) { // a path may have any bytes
			args[i] = strings.ToValidUTF8(s, "?")
		}
	}
	_, err := v.stmt(q).Exec(args...)
	return err
}

// maxFacts bounds each of: faults, events of episodes, and changed chains that are queued while the disk
// is full or another process locks the database.
const maxFacts = 1 << 14

// queue appends a fact to a queue, or counts it if the queue is full.
func queue[T any](v *saver, to []T, fact T) []T {
	if len(to) >= maxFacts {
		v.leftOut++
		return to
	}
	return append(to, fact)
}

// note queues what no other tick has, until it is written.
func (v *saver) note(t *tick.Tick) error {
	chains := t.AllChains()
	if err := v.noteChains(chains, t.Time); err != nil {
		return err
	}
	if err := v.noteEpisodes(t); err != nil {
		return err
	}
	v.lost.note(chains, t.Time)
	v.noteGPU(t)
	v.noteHost(t)
	v.noteAccounts(t)
	v.noteInference(t)
	v.steps.add(t)
	return nil
}

// tick writes a session's state, and what is queued. It remembers what it wrote only after the commit.
func (v *saver) tick(t *tick.Tick) error {
	if t.Final { // there is no later tick
		if _, err := v.db.Exec(waitLong); err != nil {
			return err
		}
	}
	tx, err := v.db.Begin()
	if err != nil {
		return err
	}
	s := &saving{saver: v, tx: tx, inTx: map[*string]*sql.Stmt{}}
	if err := s.all(t); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	for _, f := range s.done {
		f()
	}
	v.disremember(t)
	return nil
}

func (v *saving) all(t *tick.Tick) error {
	if err := v.exec(&sqlTick, max(t.Time.UnixNano(), v.latest), int64(t.Records), int64(t.Self.CPU), int64(v.rollup.rolled), v.id); err != nil {
		return err
	}
	if err := v.things(t); err != nil {
		return err
	}
	for pid, g := range v.gaps {
		if err := v.gap(pid, g); err != nil {
			return err
		}
	}
	for id := range v.revised {
		if err := v.revise(id); err != nil {
			return err
		}
	}
	for _, r := range v.waiting {
		if err := v.chain(r); err != nil {
			return err
		}
	}
	if err := v.countTick(t); err != nil {
		return err
	}
	for i := range t.Ops {
		if err := v.op(&t.Ops[i]); err != nil {
			return err
		}
	}
	return errors.Join(v.losses(), v.saveEpisodes(), v.accounts(t), v.functions(), v.saveLabels(), v.saveStacks(), v.notables(t), v.snapshot(t), v.states(t), v.hostSums(t), v.gpu(), v.reads(), v.engines(), v.roll(t.Time, t.Final))
}

// processes writes new and changed processes, and deletes the rows of those whose pids are reused.
func (v *saving) processes(t *tick.Tick) error {
	again := map[uint32]bool{}
	for i := range t.Processes {
		p := segment.ProcessOf(&t.Processes[i])
		if v.procs[p.PID] == p {
			continue
		}
		other, err := v.another(&p)
		if err != nil {
			return err
		}
		if other {
			again[p.PID] = true
		}
		if err := v.process(&p); err != nil {
			return err
		}
		v.done = append(v.done, func() { v.procs[p.PID] = p })
	}
	return v.succeed(again, t.Ops)
}

// things writes new and changed processes, libraries, reports and drops.
func (v *saving) things(t *tick.Tick) error {
	if err := v.processes(t); err != nil {
		return err
	}
	for i := range t.Libraries {
		l := segment.LibraryOf(&t.Libraries[i])
		if k := (libID{l.Path, l.BuildID}); v.libs[k] != l {
			if err := v.exec(&sqlLibrary, v.id, l.Path, l.BuildID, l.Lib, l.Number, l.Probes); err != nil {
				return err
			}
			v.done = append(v.done, func() { v.libs[k] = l })
		}
	}
	if err := v.podsOf(t); err != nil {
		return err
	}
	for _, r := range t.Reports {
		if !v.reports[r] {
			if err := v.exec(&sqlReport, v.id, r.Kind, r.Object, r.Why); err != nil {
				return err
			}
			v.done = append(v.done, func() { v.reports[r] = true })
		}
	}
	for _, d := range t.Drops {
		if seen, ok := v.drops[d.Reason]; !ok || seen != d.Count {
			if err := v.exec(&sqlDrop, v.id, d.Reason, int64(d.Count)); err != nil {
				return err
			}
			v.done = append(v.done, func() { v.drops[d.Reason] = d.Count })
		}
	}
	return nil
}

func (v *saving) gap(pid uint32, g *savedGap) error {
	if g.saved == g.Gap {
		return nil
	}
	now := g.Gap
	if err := v.exec(&sqlGap, v.id, pid, int64(now.Calls), int64(now.Count), int64(now.Total),
		int64(now.OnCPU), int64(now.Runnable), int64(now.Blocked), int64(now.Partial), int64(now.Throttled)); err != nil {
		return err
	}
	v.done = append(v.done, func() { g.saved = now })
	return nil
}

func (v *saving) op(o *tick.Op) error {
	now := savedOp{sum: o.Sum, thinned: o.Thinned}
	if o.Dur != nil {
		now.seen = o.Dur.Count()
	}
	k := opID{o.PID, o.Op}
	if saved, ok := v.ops[k]; ok && saved == now {
		return nil
	}
	s := &o.Sum
	args := []any{v.id, o.PID, uint16(o.Op), o.Op.String(), o.Op.Source().String(),
		int64(s.Calls), int64(s.Done), int64(s.Errors), int64(s.Nested), int64(s.Unmeasured), int64(s.Abandoned),
		int64(s.Total), int64(s.OnCPU), int64(s.Runnable), int64(s.Blocked()), int64(s.Inner), int64(s.Partial), int64(s.PartialNS)}
	durations := stats.Durations{Seen: o.Dur, All: o.Hist, Thinned: o.Thinned}
	for _, q := range []float64{0.5, 0.9, 0.95, 0.99, 1} {
		var value any
		if ns, ok := durations.Quantile(q); ok {
			value = ns
		}
		args = append(args, value)
	}
	sketch := o.Dur
	if sketch == nil {
		sketch = &stats.Sketch{}
	}
	var err error
	if v.blob, err = sketch.AppendBinary(v.blob[:0]); err != nil {
		return err
	}
	cut := len(v.blob)
	v.blob = segment.AppendHist(v.blob, o.Hist, nil)
	if err := v.exec(&sqlOp, append(args, o.Thinned, v.blob[:cut:cut], v.blob[cut:], int64(s.Throttled))...); err != nil {
		return err
	}
	v.done = append(v.done, func() { v.ops[k] = now })
	return nil
}

// end writes how a session ended.
func (v *saver) end(e *segment.End) error {
	if _, err := v.db.Exec(waitLong); err != nil {
		return err
	}
	_, err := v.db.Exec(sqlEnd, max(e.Time.UnixNano(), v.latest), e.State, e.Problem, v.id)
	return err
}
