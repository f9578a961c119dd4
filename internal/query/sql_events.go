package query

import (
	"database/sql"
	"hash/maphash"
	"slices"

	"modernc.org/sqlite/vtab"

	"ingero/internal/symbols"
	"ingero/pkg/events"
)

// eventBatchRows is the number of calls passed to SQLite at a time.
const eventBatchRows = 512

// eventBatch is a run of calls of one session.
type eventBatch struct {
	session *Session
	calls   []events.Call
	numbers []uint64           // the calls' numbers in the session
	procs   map[uint32]process // the session's; empty unless requested
	names   names
	funcs   *symbols.Functions // the session's; empty unless requested
	stacks  *Stacks            // the session's; empty unless requested
	texts   readable
}

// process is the part of a call's row about its process.
type process struct {
	comm, cgroup vtab.Value
	where        []vtab.Value // of eventWhere
}

// names caches operations' names as values, so that each is boxed once.
type names map[events.Op]vtab.Value

// of returns an operation's name, NULL for none.
func (n names) of(o events.Op) vtab.Value {
	v, ok := n[o]
	if !ok && o != 0 {
		v = o.String()
		n[o] = v
	}
	return v
}

func (b *eventBatch) count() int { return len(b.calls) }

func (b *eventBatch) at(row, column int) vtab.Value {
	return eventColumns[column].of(b, row, &b.calls[row])
}

// eventColumn is a column of events, with its value's function.
type eventColumn = derived[func(b *eventBatch, row int, c *events.Call) vtab.Value]

// eventsTable has one row per call.
var eventsTable = &virtual{
	SQLTable: SQLTable{Name: "events", Columns: declared(eventColumns),
		About: "Every recorded call, of all sessions: one row each. Reading it goes through the logs, so bound it by timestamp, session, pid or op where you can; sums over all of it are quicker from op_stats. An operation may be named by any of its names: op = 'cudaStreamSync' finds cudaStreamSynchronize."},
	equal: []string{"id", "session", "node", "pid", "op"}, ranges: []string{"timestamp"}, exact: []string{"op", "id"},
	scan: scanEvents,
}

// scanEvents yields the matching calls.
func scanEvents(s *statement, a *asked, yield func(batch) bool) error {
	f, some := a.filter("timestamp")
	var ids []string
	for _, v := range a.all("id") {
		id, ok := v.(string)
		if some = some && ok; ok {
			ids = append(ids, id)
			f.Session = sessionOf(id, f.Session)
		}
	}
	if !some {
		return nil
	}
	b := &eventBatch{names: names{}, funcs: &symbols.Functions{}, stacks: &Stacks{}, texts: readable{}}
	var failed error
	flush := func() bool {
		more := len(b.calls) == 0 || yield(b)
		b.calls, b.numbers = b.calls[:0], b.numbers[:0]
		return more
	}
	cover, err := s.r.Each(s.ctx, f, func(of *Session, c *events.Call, number uint64) bool {
		if slices.ContainsFunc(ids, func(id string) bool { return !of.hasCall(id, number) }) {
			return true
		}
		if b.session == nil || b.session.ID != of.ID {
			if !flush() {
				return false
			}
			if failed = s.enter(b, of, a); failed != nil {
				return false
			}
		}
		b.calls, b.numbers = append(b.calls, *c), append(b.numbers, number)
		return len(b.calls) < eventBatchRows || flush()
	})
	s.note(cover)
	if failed != nil {
		return failed
	}
	if err != nil && !s.unread(f.Session, err) {
		return err
	}
	flush()
	return nil
}

// enter switches a batch to another session.
func (s *statement) enter(b *eventBatch, of *Session, a *asked) error {
	b.session = of
	if a.wants("function") || a.wants("symbol") {
		var err error
		if b.funcs, err = s.r.Functions(s.ctx, of); err != nil {
			return err
		}
	}
	if a.wants("site") {
		var err error
		if b.stacks, err = s.r.Stacks(s.ctx, of); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(append([]string{"comm", "cgroup"}, eventWhere...), a.wants) {
		return nil
	}
	b.procs = map[uint32]process{}
	return s.r.rows(s.ctx, func(rows *sql.Rows) error {
		pid, p, err := scanProcess(rows)
		b.procs[pid] = p
		return err
	}, sqlEventProcesses, of.id)
}

// sessionOf returns the session in a call's id, "node:session.number", or else otherwise. A node's
// name may contain any character, a session's name has no colon.
func sessionOf(id, otherwise string) string {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i] != '.' {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			if id[j] == ':' && j+1 < i {
				return id[j+1 : i]
			}
		}
		break
	}
	return otherwise
}

// Parts of a call that are unknown by its flags are NULL.

func measured(c *events.Call, v int64) vtab.Value {
	if c.Flags&events.CallUnmeasured != 0 {
		return nil
	}
	return v
}

// told returns v if on-CPU and blocked time were measured separately, else NULL.
func told(c *events.Call, v int64) vtab.Value {
	if c.Flags&events.CallLedgerPartial != 0 {
		return nil
	}
	return measured(c, v)
}

func gapTold(c *events.Call, v int64) vtab.Value {
	if c.Flags&events.CallGapPartial != 0 {
		return nil
	}
	return v
}

// flag returns 1 or 0.
func flag(c *events.Call, f events.CallFlags) vtab.Value {
	if c.Flags&f != 0 {
		return int64(1)
	}
	return int64(0)
}

// kept returns an argument that the operation keeps.
func kept(c *events.Call, i int) vtab.Value {
	if r := c.Op.Row(); r == nil || i >= len(r.Keep) {
		return nil
	}
	return int64(c.Args[i])
}

func (b *eventBatch) id(row int, seed maphash.Seed) uint64 {
	return maphash.Comparable(seed, struct {
		session string
		number  uint64
	}{b.session.ID, b.numbers[row]})
}

// name returns a call's id.
func (b *eventBatch) name(row int) string {
	return string(b.session.AppendCallID(make([]byte, 0, 64), b.numbers[row]))
}

// callColumns are the columns of events that depend on the call only.
var callColumns = []eventColumn{
	{SQLColumn{"id", "TEXT", "node:session.number: the call, the same wherever the recording is copied to"},
		func(b *eventBatch, row int, _ *events.Call) vtab.Value { return b.name(row) }},
	{SQLColumn{"number", "INTEGER", "number in its session, from 0: notable.number"},
		func(b *eventBatch, row int, _ *events.Call) vtab.Value { return int64(b.numbers[row]) }},
	{SQLColumn{"node", "TEXT", "machine on which it was recorded"},
		func(b *eventBatch, _ int, _ *events.Call) vtab.Value { return b.session.Node }},
	{SQLColumn{"session", "TEXT", "recording: sessions.uid"},
		func(b *eventBatch, _ int, _ *events.Call) vtab.Value { return b.session.ID }},
	{SQLColumn{"source", "TEXT", "layer: cudart, driver, graph, nccl"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return c.Op.Source().String() }},
	{SQLColumn{"op", "TEXT", "operation: the function's name"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value { return b.names.of(c.Op) }},
	{SQLColumn{"pid", "INTEGER", "process, in the root PID namespace"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return int64(c.PID) }},
	{SQLColumn{"tid", "INTEGER", "thread"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return int64(c.TID) }},
	{SQLColumn{"comm", "TEXT", "name of the process"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value { return b.procs[c.PID].comm }},
	{SQLColumn{"cgroup", "TEXT", "control group of the process"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value { return b.procs[c.PID].cgroup }},
	{SQLColumn{"timestamp", "INTEGER", "start, Unix ns"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return c.Start }},
	{SQLColumn{"duration_ns", "INTEGER", "ns; NULL where the return was not watched, as all its parts are then"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return measured(c, c.Duration) }},
	{SQLColumn{"oncpu_ns", "INTEGER", "of it: on a CPU; NULL where it is not known apart from blocked_ns"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return told(c, c.OnCPU) }},
	{SQLColumn{"runnable_ns", "INTEGER", "of it: could run, but others had the CPU"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return measured(c, c.Runnable) }},
	{SQLColumn{"throttled_ns", "INTEGER", "of it: taken by the CPU quota of the control group"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return measured(c, c.Throttled) }},
	{SQLColumn{"blocked_ns", "INTEGER", "of it: waiting for something; NULL where it is not known apart from oncpu_ns"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return told(c, c.Blocked) }},
	{SQLColumn{"gap_ns", "INTEGER", "ns between the return of the thread's previous outermost call that has a record and this one; 0 for a nested call"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return c.Gap }},
	{SQLColumn{"gap_oncpu_ns", "INTEGER", "of the gap, as oncpu_ns is of the call"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return gapTold(c, c.GapOnCPU) }},
	{SQLColumn{"gap_runnable_ns", "INTEGER", "of the gap, as runnable_ns"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return c.GapRunnable }},
	{SQLColumn{"gap_throttled_ns", "INTEGER", "of the gap, as throttled_ns"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return c.GapThrottled }},
	{SQLColumn{"gap_blocked_ns", "INTEGER", "of the gap, as blocked_ns"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return gapTold(c, c.GapBlocked) }},
	{SQLColumn{"result", "INTEGER", "what it returned: cudaError_t, CUresult or ncclResult_t"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return measured(c, int64(c.Result)) }},
	{SQLColumn{"failed", "INTEGER", "1 where the result is an error, else 0"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return flag(c, events.CallFailed) }},
	{SQLColumn{"error", "TEXT", "name of the error, NULL where there is none"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value {
			if c.Flags&events.CallFailed == 0 {
				return nil
			}
			return events.ErrorName(c.Op, c.Result)
		}},
	{SQLColumn{"weight", "INTEGER", "calls that the record stands for: 1, more where records were thinned out. sum(weight) estimates calls, with a standard error of sqrt(sum(weight * (weight - 1)))"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return int64(c.Weight) }},
	{SQLColumn{"stack", "INTEGER", "its stack: stacks.id, NULL where none was taken"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value {
			if c.Stack == 0 {
				return nil
			}
			return int64(c.Stack)
		}},
	{SQLColumn{"stack_weight", "INTEGER", "calls that the stack stands for: 1, or as many as it is a sample of; NULL where none was taken"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value {
			if c.Stack == 0 {
				return nil
			}
			return int64(c.StackWeight())
		}},
	{SQLColumn{"site", "TEXT", "line of code that it was made from, or function: 'train.py:142 in forward()'; NULL where that is not known"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value {
			if site := b.stacks.Site(c.Stack); site != "" {
				return site
			}
			return nil
		}},
	{SQLColumn{"nested", "INTEGER", "1 where another traced call made it, else 0: sums of time count such a call twice"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return flag(c, events.CallNested) }},
	{SQLColumn{"parent", "TEXT", "operation of the call around it, NULL for an outermost one"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value { return b.names.of(c.Parent) }},
	{SQLColumn{"device", "INTEGER", "ordinal of the device that was current, as the process counts; NULL where it is not known"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value {
			if c.Device == 0 {
				return nil
			}
			return int64(c.Device) - 1
		}},
	{SQLColumn{"arg0", "INTEGER", "the values that are kept of it, as docs/reference/operations.md lists them: unsigned 64 bits, shown signed"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return kept(c, 0) }},
	{SQLColumn{"arg1", "INTEGER", "likewise"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return kept(c, 1) }},
	{SQLColumn{"arg2", "INTEGER", "likewise"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return kept(c, 2) }},
	{SQLColumn{"arg3", "INTEGER", "likewise"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return kept(c, 3) }},
	{SQLColumn{"tag", "INTEGER", "one value of 32 bits more: a kind, a direction, flags"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return int64(c.Tag) }},
	{SQLColumn{"args_partial", "INTEGER", "1 where some of these could not be read, and are 0, else 0"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return flag(c, events.CallArgsPartial) }},
	{SQLColumn{"function", "TEXT", "the GPU function (kernel) that it launched, as it stands in the source; NULL where that is not known, or it is no launch of one"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value { return b.texts.of(b.funcs.Name(c)) }},
	{SQLColumn{"symbol", "TEXT", "the same as it is linked: mangled"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value {
			if name := b.funcs.Name(c); name != "" {
				return name
			}
			return nil
		}},
}
