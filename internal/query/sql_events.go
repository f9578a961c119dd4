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

// value returns an operation's name, NULL for none.
func (n names) value(o events.Op) vtab.Value {
	v, ok := n[o]
	if !ok && o != 0 {
		v = o.String()
		n[o] = v
	}
	return v
}

func (b *eventBatch) count() int { return len(b.calls) }

func (b *eventBatch) at(row, column int) vtab.Value {
	return eventColumns[column].table(b, row, &b.calls[row])
}

// eventColumn is a column of events, with its value's function.
type eventColumn = derived[func(b *eventBatch, row int, c *events.Call) vtab.Value]

// eventsTable has one row per call.
var eventsTable = &virtual{
	SQLTable: SQLTable{Name: "events", Columns: declared(eventColumns),
		About: "Every recorded call of all sessions, one row each. A query reads the logs: limit it by timestamp, session, pid or op if you can. For sums over all calls op_stats is faster. Any name of an operation works: op = 'cudaStreamSync' finds cudaStreamSynchronize."},
	equal: []string{"id", "session", "node", "pid", "op"}, ranges: []string{"timestamp"}, exact: []string{"op", "id"},
	scan: scanEvents,
}

// scanEvents yields the matching calls.
func scanEvents(s *statement, a *scanRequest, yield func(batch) bool) error {
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
	cover, err := s.r.Each(s.ctx, f, func(session *Session, c *events.Call, number uint64) bool {
		if slices.ContainsFunc(ids, func(id string) bool { return !session.hasCall(id, number) }) {
			return true
		}
		if b.session == nil || b.session.ID != session.ID {
			if !flush() {
				return false
			}
			if failed = s.enter(b, session, a); failed != nil {
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
func (s *statement) enter(b *eventBatch, session *Session, a *scanRequest) error {
	b.session = session
	if a.wants("function") || a.wants("symbol") {
		var err error
		if b.funcs, err = s.r.Functions(s.ctx, session); err != nil {
			return err
		}
	}
	if a.wants("site") {
		var err error
		if b.stacks, err = s.r.Stacks(s.ctx, session); err != nil {
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
	}, sqlEventProcesses, session.id)
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

// splitValue returns v if on-CPU and blocked time were measured separately, else NULL.
func splitValue(c *events.Call, v int64) vtab.Value {
	if c.Flags&events.CallLedgerPartial != 0 {
		return nil
	}
	return measured(c, v)
}

func gapValue(c *events.Call, v int64) vtab.Value {
	if c.Flags&events.CallGapPartial != 0 {
		return nil
	}
	return v
}

// stackValue returns a stack's ID, NULL if none was taken.
func stackValue(id uint32) vtab.Value {
	if id == 0 {
		return nil
	}
	return int64(id)
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
	{SQLColumn{"id", "TEXT", "identity of the call, node:session.number; copies of the recording keep it"},
		func(b *eventBatch, row int, _ *events.Call) vtab.Value { return b.name(row) }},
	{SQLColumn{"number", "INTEGER", "number of the call in its session, from 0: notable.number"},
		func(b *eventBatch, row int, _ *events.Call) vtab.Value { return int64(b.numbers[row]) }},
	{SQLColumn{"node", "TEXT", "machine that made the recording"},
		func(b *eventBatch, _ int, _ *events.Call) vtab.Value { return b.session.Node }},
	{SQLColumn{"session", "TEXT", "recording: sessions.uid"},
		func(b *eventBatch, _ int, _ *events.Call) vtab.Value { return b.session.ID }},
	{SQLColumn{"source", "TEXT", "layer: cudart, driver, graph, nccl"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return c.Op.Source().String() }},
	{SQLColumn{"op", "TEXT", "operation: the function's name"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value { return b.names.value(c.Op) }},
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
	{SQLColumn{"duration_ns", "INTEGER", "duration, ns; NULL, like its parts, if the return was not traced"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return measured(c, c.Duration) }},
	{SQLColumn{"oncpu_ns", "INTEGER", "part of duration_ns: on a CPU; NULL if not separable from blocked_ns"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return splitValue(c, c.OnCPU) }},
	{SQLColumn{"runnable_ns", "INTEGER", "part of duration_ns: runnable, while others had the CPU"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return measured(c, c.Runnable) }},
	{SQLColumn{"throttled_ns", "INTEGER", "part of duration_ns: throttled by the CPU quota of the control group"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return measured(c, c.Throttled) }},
	{SQLColumn{"blocked_ns", "INTEGER", "part of duration_ns: blocked; NULL if not separable from oncpu_ns"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return splitValue(c, c.Blocked) }},
	{SQLColumn{"gap_ns", "INTEGER", "ns between the return of the thread's previous recorded outermost call and this call; 0 for a nested call"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return c.Gap }},
	{SQLColumn{"gap_oncpu_ns", "INTEGER", "part of gap_ns: on a CPU"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return gapValue(c, c.GapOnCPU) }},
	{SQLColumn{"gap_runnable_ns", "INTEGER", "part of gap_ns: runnable, while others had the CPU"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return c.GapRunnable }},
	{SQLColumn{"gap_throttled_ns", "INTEGER", "part of gap_ns: throttled by the CPU quota"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return c.GapThrottled }},
	{SQLColumn{"gap_blocked_ns", "INTEGER", "part of gap_ns: blocked"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return gapValue(c, c.GapBlocked) }},
	{SQLColumn{"gap_stack", "INTEGER", "stack in which the thread spent most of gap_oncpu_ns: stacks.id; sampled, from 1 ms after the last call on; NULL if none was taken"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return stackValue(c.GapStack) }},
	{SQLColumn{"result", "INTEGER", "return value: cudaError_t, CUresult or ncclResult_t"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return measured(c, int64(c.Result)) }},
	{SQLColumn{"failed", "INTEGER", "1 if the result is an error, else 0"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return flag(c, events.CallFailed) }},
	{SQLColumn{"error", "TEXT", "name of the error; NULL if the call succeeded"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value {
			if c.Flags&events.CallFailed == 0 {
				return nil
			}
			return events.ErrorName(c.Op, c.Result)
		}},
	{SQLColumn{"weight", "INTEGER", "calls that the record stands for: 1, or more if records were sampled. sum(weight) estimates calls, with a standard error of sqrt(sum(weight * (weight - 1)))"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return int64(c.Weight) }},
	{SQLColumn{"stack", "INTEGER", "stack of the call: stacks.id; NULL if none was captured"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return stackValue(c.Stack) }},
	{SQLColumn{"stack_weight", "INTEGER", "calls that the stack stands for: 1, or more if stacks were sampled; NULL if none was captured"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value {
			if c.Stack == 0 {
				return nil
			}
			return int64(c.StackWeight())
		}},
	{SQLColumn{"site", "TEXT", "line of code or function that made the call: 'train.py:142 in forward()'; NULL if unknown"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value {
			if site := b.stacks.Site(c.Stack); site != "" {
				return site
			}
			return nil
		}},
	{SQLColumn{"nested", "INTEGER", "1 if another traced call made this call, else 0: sums of time count such a call twice"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return flag(c, events.CallNested) }},
	{SQLColumn{"parent", "TEXT", "operation of the enclosing call; NULL for an outermost call"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value { return b.names.value(c.Parent) }},
	{SQLColumn{"device", "INTEGER", "ordinal of the current device, as numbered by the process; NULL if unknown"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value {
			if c.Device == 0 {
				return nil
			}
			return int64(c.Device) - 1
		}},
	{SQLColumn{"arg0", "INTEGER", "values kept from the call, listed in docs/reference/operations.md: unsigned 64 bits, shown signed"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return kept(c, 0) }},
	{SQLColumn{"arg1", "INTEGER", "likewise"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return kept(c, 1) }},
	{SQLColumn{"arg2", "INTEGER", "likewise"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return kept(c, 2) }},
	{SQLColumn{"arg3", "INTEGER", "likewise"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return kept(c, 3) }},
	{SQLColumn{"tag", "INTEGER", "one more value of 32 bits: a kind, a direction or flags"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return int64(c.Tag) }},
	{SQLColumn{"args_partial", "INTEGER", "1 if some of arg0, arg1 and so on could not be read and are 0; else 0"},
		func(_ *eventBatch, _ int, c *events.Call) vtab.Value { return flag(c, events.CallArgsPartial) }},
	{SQLColumn{"function", "TEXT", "kernel (GPU) that the call launched, as written in the source; NULL if unknown or if the call launched none"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value { return b.texts.value(b.funcs.Name(c)) }},
	{SQLColumn{"symbol", "TEXT", "kernel (GPU) that the call launched, by its linker name (mangled)"},
		func(b *eventBatch, _ int, c *events.Call) vtab.Value {
			if name := b.funcs.Name(c); name != "" {
				return name
			}
			return nil
		}},
}
