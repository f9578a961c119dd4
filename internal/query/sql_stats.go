package query

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"modernc.org/sqlite/vtab"

	"ingero/pkg/events"
)

// maxSteps bounds the steps of timeline.
const maxSteps = 5000

// statColumn is a column of a sum, with its value's function.
type statColumn = derived[func(b *statBatch, o *OpStat) vtab.Value]

// statBatch holds sums, and their grouping.
type statBatch struct {
	stats   []OpStat
	by      Group
	q       float64
	columns []statColumn
}

func (b *statBatch) count() int { return len(b.stats) }

func (b *statBatch) at(row, column int) vtab.Value { return b.columns[column].table(b, &b.stats[row]) }

func (b *statBatch) id(row int, seed maphash.Seed) uint64 {
	o := &b.stats[row]
	return maphash.Comparable(seed, statKey{node: o.Node, time: o.Time.UnixNano(), pid: o.PID, op: o.Op})
}

var (
	sinceUntil = []SQLColumn{
		{"since", "any", "calls from this time on: Unix ns, '5m' (5 minutes ago) or '2026-11-21T15:04:05Z'; NULL: from the first call"},
		{"until", "any", "calls before this time, in the same formats; NULL: to the last call"},
	}
	opArgument = SQLColumn{"op", "TEXT", "an operation, by any of its names; NULL: all operations"}
)

var opStatsTable = &virtual{
	SQLTable: SQLTable{Name: "op_stats", Columns: declared(opStatColumns),
		Args:  append(slices.Clone(sinceUntil), SQLColumn{"by", "TEXT", "grouping beside the operation: 'pid' (node and process; the default for NULL), 'node', or 'op' (none)"}),
		About: "Sums of the calls of each operation, from the kernel's counts. They are exact between ticks, even when records are sampled or lost. Prefer op_stats to events: it does not read single calls."},
	equal: []string{"op", "node", "pid"}, exact: []string{"op"},
	scan: func(s *statement, a *scanRequest, yield func(batch) bool) error {
		b := &statBatch{columns: opStatColumns}
		switch by := a.arg("by"); by {
		case nil, "pid":
			b.by = Group{Node: true, PID: true}
		case "node":
			b.by = Group{Node: true}
		case "op":
		default:
			return &SQLError{What: fmt.Sprintf("op_stats cannot group by %.40q", fmt.Sprint(by)), Do: "use 'pid', 'node' or 'op'"}
		}
		return s.scanStats(a, b, nil, yield)
	},
}

var quantileTable = &virtual{
	SQLTable: SQLTable{Name: "quantile", Columns: declared(quantileColumns),
		Args: append([]SQLColumn{{"operation", "TEXT", opArgument.About},
			{"q", "REAL", "quantile, 0 to 1: 0.99 (or 99) is the 99th percentile; NULL: the median"}}, sinceUntil...),
		About: "A quantile of the durations of calls: one row for each operation with that name."},
	scan: func(s *statement, a *scanRequest, yield func(batch) bool) error {
		b := &statBatch{columns: quantileColumns, q: 0.5}
		if q := a.arg("q"); q != nil {
			var err error
			if b.q, err = share(q); err != nil {
				return err
			}
		}
		return s.scanStats(a, b, a.arg("operation"), yield)
	},
}

var timelineTable = &virtual{
	SQLTable: SQLTable{Name: "timeline", Columns: declared(timelineColumns),
		Args: append([]SQLColumn{{"step", "any", "length of a step: ns, or '1s', '5m'; NULL: one minute"},
			{"operation", "TEXT", opArgument.About}}, sinceUntil...),
		About: "Sums of the calls of each operation, in each step of time that has calls."},
	equal: []string{"op"}, exact: []string{"op"},
	scan: func(s *statement, a *scanRequest, yield func(batch) bool) error {
		b := &statBatch{columns: timelineColumns, by: Group{Every: time.Minute}}
		switch step := a.arg("step").(type) {
		case nil:
		case int64:
			b.by.Every = time.Duration(step)
		case string:
			b.by.Every, _ = duration(step) // 0 if invalid
		default:
			b.by.Every = 0
		}
		if b.by.Every <= 0 {
			return &SQLError{What: "the step of timeline is not a duration", Do: "write nanoseconds, or '1s', '5m', '1h'"}
		}
		return s.scanStats(a, b, a.arg("operation"), yield)
	},
}

// scanStats yields the requested sums; named is an operation given as an argument.
func (s *statement) scanStats(a *scanRequest, b *statBatch, named any, yield func(batch) bool) error {
	f, some := a.filter("")
	if named != nil {
		text, _ := named.(string)
		ops := events.OpsNamed(text)
		if len(ops) == 0 {
			return &SQLError{What: fmt.Sprintf("unknown operation %.60q", fmt.Sprint(named)), Do: "see docs/reference/operations.md for names"}
		}
		f.Ops = intersect(f.Ops, ops)
		some = some && len(f.Ops) > 0
	}
	f, err := a.between(s, f)
	if err != nil || !some {
		return err
	}
	if b.by.Every > 0 {
		if err := s.checkSteps(f, b.by.Every); err != nil {
			return err
		}
	}
	stats, cover, err := s.r.OpStats(s.ctx, f, b.by)
	s.note(cover)
	if err != nil {
		return err
	}
	b.stats = stats
	yield(b)
	return nil
}

// checkSteps rejects a step that would cut the recordings into too many parts.
func (s *statement) checkSteps(f Filter, step time.Duration) error {
	sessions, err := s.r.Chosen(s.ctx, f)
	if err != nil {
		return err
	}
	var long time.Duration
	for i := range sessions {
		from, to := sessions[i].Started, sessions[i].Updated
		if f.From.After(from) {
			from = f.From
		}
		if !f.To.IsZero() && f.To.Before(to) {
			to = f.To
		}
		long += max(to.Sub(from), 0)
	}
	if long/step > maxSteps {
		return &SQLError{What: fmt.Sprintf("%s has more than %d steps of %s", long.Round(time.Second), maxSteps, step), Do: "use a longer step or a shorter time range"}
	}
	return nil
}

// share parses a quantile.
func share(v any) (float64, error) {
	q := -1.0
	switch v := v.(type) {
	case int64:
		q = float64(v)
	case float64:
		q = v
	}
	if q > 1 {
		q /= 100
	}
	if !(q >= 0 && q <= 1) {
		return 0, &SQLError{What: fmt.Sprintf("%.40q is not a quantile", fmt.Sprint(v)), Do: "write 0.99 or 99 for the 99th percentile"}
	}
	return q, nil
}

// over returns a quantile of the durations, NULL if none is known.
func (o *OpStat) over(q float64) vtab.Value {
	if o.Dur.Count() == 0 {
		return nil
	}
	return o.Dur.Quantile(q)
}

// The columns, each once.
var (
	statOp = statColumn{SQLColumn{"op", "TEXT", "operation"},
		func(_ *statBatch, o *OpStat) vtab.Value { return o.Op.String() }}
	statSource = statColumn{SQLColumn{"source", "TEXT", "layer: cudart, driver, graph, nccl"},
		func(_ *statBatch, o *OpStat) vtab.Value { return o.Op.Source().String() }}
	statCount = statColumn{SQLColumn{"count", "INTEGER", "calls entered, counted by the kernel"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Calls) }}
	statErrors = statColumn{SQLColumn{"errors", "INTEGER", "calls that returned an error"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Errors) }}
	statTotal = statColumn{SQLColumn{"total_ns", "INTEGER", "total ns of all calls, including nested calls"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Total) }}
	statAvg = statColumn{SQLColumn{"avg_ns", "INTEGER", "mean duration"},
		func(_ *statBatch, o *OpStat) vtab.Value {
			if o.Sum.Done > 0 {
				return int64(o.Sum.Total / o.Sum.Done)
			}
			return nil
		}}
	statMax = quantileColumn("max_ns", "longest duration, exact", 1)
)

func quantileColumn(name, about string, q float64) statColumn {
	return statColumn{SQLColumn{name, "INTEGER", about}, func(_ *statBatch, o *OpStat) vtab.Value { return o.over(q) }}
}

var opStatColumns = []statColumn{
	statOp, statSource,
	{SQLColumn{"node", "TEXT", "machine; NULL if not grouped by node"},
		func(b *statBatch, o *OpStat) vtab.Value {
			if !b.by.Node {
				return nil
			}
			return o.Node
		}},
	{SQLColumn{"pid", "INTEGER", "process; NULL if not grouped by process"},
		func(b *statBatch, o *OpStat) vtab.Value {
			if !b.by.PID {
				return nil
			}
			return int64(o.PID)
		}},
	statCount, statErrors,
	{SQLColumn{"nested", "INTEGER", "calls made inside another traced call"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Nested) }},
	{SQLColumn{"unmeasured", "INTEGER", "calls whose return was not traced: they are only in count"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Unmeasured) }},
	statTotal,
	{SQLColumn{"oncpu_ns", "INTEGER", "part of total_ns: on a CPU"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.OnCPU) }},
	{SQLColumn{"runnable_ns", "INTEGER", "part of total_ns: runnable, while others had the CPU"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Runnable) }},
	{SQLColumn{"throttled_ns", "INTEGER", "part of total_ns: throttled by a CPU quota"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Throttled) }},
	{SQLColumn{"blocked_ns", "INTEGER", "part of total_ns: blocked"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Blocked()) }},
	{SQLColumn{"partial_ns", "INTEGER", "part of total_ns: on a CPU or blocked, unknown which"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.PartialNS) }},
	quantileColumn("min_ns", "shortest duration, exact", 0), statAvg,
	quantileColumn("p50_ns", "median duration, within 0.8 %", 0.5), quantileColumn("p90_ns", "90th percentile, within 0.8 %", 0.9),
	quantileColumn("p95_ns", "95th percentile", 0.95), quantileColumn("p99_ns", "99th percentile", 0.99),
	quantileColumn("p999_ns", "99.9th percentile", 0.999), statMax,
}

var quantileColumns = []statColumn{
	statOp,
	{SQLColumn{"duration_ns", "INTEGER", "duration, within 0.8 %; NULL if no duration was measured"},
		func(b *statBatch, o *OpStat) vtab.Value { return o.over(b.q) }},
	statCount,
}

var timelineColumns = []statColumn{
	{SQLColumn{"timestamp", "INTEGER", "start of the step, Unix ns: a multiple of its length"},
		func(_ *statBatch, o *OpStat) vtab.Value { return o.Time.UnixNano() }},
	statOp, statCount, statErrors, statTotal, statAvg,
	quantileColumn("p50_ns", "median duration, within 0.8 %", 0.5), quantileColumn("p99_ns", "99th percentile, within 0.8 %", 0.99), statMax,
}
