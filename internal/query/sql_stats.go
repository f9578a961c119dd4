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

func (b *statBatch) at(row, column int) vtab.Value { return b.columns[column].of(b, &b.stats[row]) }

func (b *statBatch) id(row int, seed maphash.Seed) uint64 {
	o := &b.stats[row]
	return maphash.Comparable(seed, statKey{node: o.Node, time: o.Time.UnixNano(), pid: o.PID, op: o.Op})
}

var (
	sinceUntil = []SQLColumn{
		{"since", "any", "calls from this time on: Unix ns, '5m' for so long ago, or '2026-11-21T15:04:05Z'; NULL: from the first"},
		{"until", "any", "calls before this time, likewise; NULL: to the last"},
	}
	opArgument = SQLColumn{"op", "TEXT", "an operation, by any of its names; NULL: each of them"}
)

var opStatsTable = &virtual{
	SQLTable: SQLTable{Name: "op_stats", Columns: declared(opStatColumns),
		Args:  append(slices.Clone(sinceUntil), SQLColumn{"by", "TEXT", "what is told apart beside the operation: 'pid' (node and process, as for NULL), 'node', or 'op' for nothing"}),
		About: "What the calls of each operation sum to: the kernel's counts, exact from a tick to a tick, also where records were thinned or lost. It is made without a row a call: ask it rather than events."},
	equal: []string{"op", "node", "pid"}, exact: []string{"op"},
	scan: func(s *statement, a *asked, yield func(batch) bool) error {
		b := &statBatch{columns: opStatColumns}
		switch by := a.arg("by"); by {
		case nil, "pid":
			b.by = Group{Node: true, PID: true}
		case "node":
			b.by = Group{Node: true}
		case "op":
		default:
			return &SQLError{What: fmt.Sprintf("op_stats cannot tell apart by %.40q", fmt.Sprint(by)), Do: "it can by 'pid', 'node' and 'op'"}
		}
		return s.scanStats(a, b, nil, yield)
	},
}

var quantileTable = &virtual{
	SQLTable: SQLTable{Name: "quantile", Columns: declared(quantileColumns),
		Args: append([]SQLColumn{{"operation", "TEXT", opArgument.About},
			{"q", "REAL", "share of the calls, 0 to 1: 0.99 (or 99) is the 99th percentile; NULL: the median"}}, sinceUntil...),
		About: "The duration that a share of the calls was not longer than: one row for each operation that the name stands for."},
	scan: func(s *statement, a *asked, yield func(batch) bool) error {
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
		Args: append([]SQLColumn{{"step", "any", "length of a part: ns, or '1s', '5m'; NULL: a minute"},
			{"operation", "TEXT", opArgument.About}}, sinceUntil...),
		About: "What the calls of each operation sum to in each part of the time that has any."},
	equal: []string{"op"}, exact: []string{"op"},
	scan: func(s *statement, a *asked, yield func(batch) bool) error {
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
			return &SQLError{What: "the step of timeline is no length of time", Do: "it is nanoseconds, or '1s', '5m', '1h'"}
		}
		return s.scanStats(a, b, a.arg("operation"), yield)
	},
}

// scanStats yields the requested sums; named is an operation given as an argument.
func (s *statement) scanStats(a *asked, b *statBatch, named any, yield func(batch) bool) error {
	f, some := a.filter("")
	if named != nil {
		text, _ := named.(string)
		ops := events.OpsNamed(text)
		if len(ops) == 0 {
			return &SQLError{What: fmt.Sprintf("there is no operation %.60q", fmt.Sprint(named)), Do: "docs/reference/operations.md has their names"}
		}
		f.Ops = both(f.Ops, ops)
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
		return &SQLError{What: fmt.Sprintf("%s has more than %d steps of %s", long.Round(time.Second), maxSteps, step), Do: "take a longer step, or a shorter time"}
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
		return 0, &SQLError{What: fmt.Sprintf("%.40q is no share", fmt.Sprint(v)), Do: "0.99, or 99, is the 99th percentile"}
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
	statCount = statColumn{SQLColumn{"count", "INTEGER", "calls, as the kernel counted them when they were entered"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Calls) }}
	statErrors = statColumn{SQLColumn{"errors", "INTEGER", "calls whose result was an error"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Errors) }}
	statTotal = statColumn{SQLColumn{"total_ns", "INTEGER", "ns of all calls; those inside of others count too"},
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
	{SQLColumn{"node", "TEXT", "machine, NULL where they are not told apart"},
		func(b *statBatch, o *OpStat) vtab.Value {
			if !b.by.Node {
				return nil
			}
			return o.Node
		}},
	{SQLColumn{"pid", "INTEGER", "process, NULL where they are not told apart"},
		func(b *statBatch, o *OpStat) vtab.Value {
			if !b.by.PID {
				return nil
			}
			return int64(o.PID)
		}},
	statCount, statErrors,
	{SQLColumn{"nested", "INTEGER", "calls that were made inside of another traced call"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Nested) }},
	{SQLColumn{"unmeasured", "INTEGER", "calls whose return was not watched: they are in count alone"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Unmeasured) }},
	statTotal,
	{SQLColumn{"oncpu_ns", "INTEGER", "of total_ns: on a CPU"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.OnCPU) }},
	{SQLColumn{"runnable_ns", "INTEGER", "of it: could run, but others had the CPU"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Runnable) }},
	{SQLColumn{"throttled_ns", "INTEGER", "of it: taken by a CPU quota"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Throttled) }},
	{SQLColumn{"blocked_ns", "INTEGER", "of it: waiting for something"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.Blocked()) }},
	{SQLColumn{"partial_ns", "INTEGER", "of it: on a CPU or blocked, it is not known which"},
		func(_ *statBatch, o *OpStat) vtab.Value { return int64(o.Sum.PartialNS) }},
	quantileColumn("min_ns", "shortest duration, exact", 0), statAvg,
	quantileColumn("p50_ns", "median duration, within 0.8 %", 0.5), quantileColumn("p90_ns", "90th percentile, likewise", 0.9),
	quantileColumn("p95_ns", "95th percentile", 0.95), quantileColumn("p99_ns", "99th percentile", 0.99),
	quantileColumn("p999_ns", "99.9th percentile", 0.999), statMax,
}

var quantileColumns = []statColumn{
	statOp,
	{SQLColumn{"duration_ns", "INTEGER", "the duration, within 0.8 %; NULL where none was measured"},
		func(b *statBatch, o *OpStat) vtab.Value { return o.over(b.q) }},
	statCount,
}

var timelineColumns = []statColumn{
	{SQLColumn{"timestamp", "INTEGER", "when the part began, Unix ns: a multiple of the step"},
		func(_ *statBatch, o *OpStat) vtab.Value { return o.Time.UnixNano() }},
	statOp, statCount, statErrors, statTotal, statAvg,
	quantileColumn("p50_ns", "median duration, within 0.8 %", 0.5), quantileColumn("p99_ns", "99th percentile, likewise", 0.99), statMax,
}
