package query

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Counts are what the kernel counted in a window: calls and their classes by entry time, returns
// and times by return time. They cover whole ticks, and are exact even when records were dropped.
type Counts struct {
	From, To time.Time // the covered period, from a tick to a tick
	ByKey    map[CountKey]tick.Counts

	// known reports whether the recording has the kernel's counts. Recordings of other programs and
	// of ingero before 1.0 have none.
	known    bool
	complete bool       // cover the whole recording
	deleted  bool       // a part has been deleted
	since    int64      // start of the rows that are short enough for a step, Unix ns; MaxInt64: none are left
	cut      bool       // earlier ones were deleted
	rows     []countRow // unless complete
}

// CountKey is an operation of a process.
type CountKey struct {
	PID uint32
	Op  events.Op
}

// countRow holds the counts from one tick to another.
type countRow struct {
	CountKey
	tick.Counts
	from, to int64
}

func (c *countRow) middle() int64 { return c.from + (c.to-c.from)/2 }

// Counts returns what the kernel counted of the filter's processes and operations in its window:
// from the tick nearest to its start to the one nearest to its end, and at least one tick. Older
// counts have rows of ten seconds, then of a minute. Adjacent windows count each call once. All
// answers about numbers of calls come from here.
func (r *Reader) Counts(ctx context.Context, s *Session, f Filter) (*Counts, error) {
	return r.counts(ctx, s, f, 0)
}

// shareOfStep is the least number of rows per step, which bounds the error at the step's edges.
const shareOfStep = 10

// counts implements [Reader.Counts] with rows short enough for a step, 0 for none.
func (r *Reader) counts(ctx context.Context, s *Session, f Filter, step time.Duration) (*Counts, error) {
	c := &Counts{From: s.Started, To: later(s.Updated, s.Ended), ByKey: map[CountKey]tick.Counts{}}
	if s.Mode == store.Imported {
		return c, nil
	}
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // a consistent state of one tick
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	x := counted{ctx: ctx, tx: tx, session: s.id, lengths: store.CountSeconds(), apart: step > 0}
	began, err := x.begin()
	if c.known = began != math.MaxInt64; err != nil || !c.known {
		return c, err
	}
	if c.complete = !f.cuts(c.From, c.To); c.complete && step == 0 {
		return c, c.all(ctx, tx, s, f)
	}
	from, to := bounds(f)
	from, to = max(from, c.From.UnixNano()), min(to, c.To.UnixNano())
	c.From, c.To = unixTime(from), unixTime(max(from, to))
	if from >= to {
		return c, nil
	}
	if c.deleted, err = x.forgotten(from); err != nil {
		return nil, err
	}
	x.lengths = slices.DeleteFunc(x.lengths, func(l int64) bool { return l > 1 && step > 0 && l*shareOfStep > int64(step/time.Second) })
	if c.since, err = x.begin(); err != nil {
		return nil, err
	}
	c.cut = c.since > began
	if from, to, err = x.snap(from, to); err != nil {
		return nil, err
	}
	c.From, c.To = unixTime(from), unixTime(to)
	rows, err := x.rows(len(x.lengths)-1, from, to)
	for i := range rows {
		if k := rows[i].CountKey; f.matches(k.PID, k.Op) {
			sum := c.ByKey[k]
			sum.Add(&rows[i].Counts)
			c.ByKey[k], c.rows = sum, append(c.rows, rows[i])
		}
	}
	return c, err
}

// all reads the counts of a whole recording.
func (c *Counts) all(ctx context.Context, tx *sql.Tx, s *Session, f Filter) error {
	return eachRow(ctx, tx, func(rows *sql.Rows) error {
		var k CountKey
		var n tick.Counts
		err := store.ScanCounts(rows.Scan, &n, &k.PID, &k.Op)
		if f.matches(k.PID, k.Op) {
			c.ByKey[k] = n
		}
		return err
	}, "SELECT pid, op, calls, done, errors, nested, unmeasured, abandoned, total_ns, oncpu_ns, runnable_ns, coalesce(throttled_ns, 0), inner_ns, partial, partial_ns FROM ops WHERE session = ?", s.id)
}

// counted reads a session's counts.
type counted struct {
	ctx     context.Context
	tx      *sql.Tx
	session int64
	lengths []int64 // of rows, finest first
	apart   bool    // one row per period; else rows are summed by operation and length
}

// begin returns the start of the first row; MaxInt64: nothing was counted.
func (x *counted) begin() (int64, error) {
	first := int64(math.MaxInt64)
	for _, length := range x.lengths {
		at := first
		err := x.tx.QueryRowContext(x.ctx, "SELECT start_ns FROM counted WHERE session = ? AND seconds = ? ORDER BY end_ns LIMIT 1", x.session, length).Scan(&at)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, err
		}
		first = min(first, at)
	}
	return first, nil
}

// exactFrom returns the start of the first period whose calls all have a row that is short enough,
// Unix ns.
func (c *Counts) exactFrom(every time.Duration) int64 {
	at := stats.Floor(c.since, int64(every))
	if c.cut && at < c.since && c.since < math.MaxInt64 {
		at += int64(every)
	}
	return at
}

// forgotten reports whether rows after a time were deleted without coarser ones.
func (x *counted) forgotten(from int64) (deleted bool, err error) {
	err = x.tx.QueryRowContext(x.ctx, "SELECT EXISTS (SELECT 1 FROM tiers WHERE session = ? AND seconds = 3600 AND kept_ns > ?)", x.session, from).Scan(&deleted)
	return deleted, err
}

// snap moves a window's ends to the nearest ticks, or to the nearest ends of coarser rows. A window
// between two ticks becomes the period between them.
func (x *counted) snap(from, to int64) (int64, int64, error) {
	a, err := x.nearest(from)
	if err != nil {
		return from, to, err
	}
	b, err := x.nearest(to)
	if err != nil {
		return from, to, err
	}
	if a < b {
		return a, b, nil
	}
	row, err := x.around(from + (to-from)/2)
	if row == nil {
		return from, to, err
	}
	return row.from, row.to, err
}

// nearest returns the row boundary nearest to a time, or the time itself if nothing was counted.
func (x *counted) nearest(at int64) (int64, error) {
	row, err := x.around(at)
	switch {
	case row == nil:
		return at, err
	case at-row.from < row.to-at:
		return row.from, err
	}
	return row.to, err
}

// around returns the finest row that contains a time; nil if nothing was counted then.
func (x *counted) around(at int64) (*countRow, error) {
	for i, length := range x.lengths {
		var row countRow
		err := x.tx.QueryRowContext(x.ctx, "SELECT start_ns, end_ns FROM counted WHERE session = ? AND seconds = ? AND end_ns > ? ORDER BY end_ns LIMIT 1",
			x.session, length, at).Scan(&row.from, &row.to)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil || row.from < at && i == 0 {
			return &row, err
		}
		if row.from >= at {
			continue
		}
		var finer bool // then nothing was counted in its tick
		err = x.tx.QueryRowContext(x.ctx, "SELECT EXISTS (SELECT 1 FROM counted WHERE session = ? AND seconds = ? AND end_ns > ? AND end_ns <= ?)",
			x.session, x.lengths[i-1], row.from, row.to).Scan(&finer)
		if err != nil || finer {
			return nil, err
		}
		return &row, nil
	}
	return nil, nil
}

// rows returns rows of at most the given length that cover a period: the longest that fit, and
// shorter ones at the ends.
func (x *counted) rows(length int, from, to int64) (out []countRow, err error) {
	if length < 0 || from >= to {
		return nil, nil
	}
	first, last := to, to
	what, by := store.CountColumns, "ORDER BY end_ns, pid, op"
	head := "start_ns, end_ns"
	if !x.apart {
		head, by = "min(start_ns), max(end_ns)", "GROUP BY pid, op"
		what = "sum(" + strings.ReplaceAll(what, ", ", "), sum(") + ")"
	}
	err = eachRow(x.ctx, x.tx, func(rows *sql.Rows) error {
		var r countRow
		err := store.ScanCounts(rows.Scan, &r.Counts, &r.from, &r.to, &r.PID, &r.Op)
		if len(out) == 0 {
			first, last = r.from, r.to
		}
		first, last, out = min(first, r.from), max(last, r.to), append(out, r)
		return err
	}, "SELECT "+head+", pid, op, "+what+" FROM counted WHERE session = ? AND seconds = ? AND end_ns <= ? AND end_ns > ? AND start_ns >= ? "+by,
		x.session, x.lengths[length], to, from, from)
	if err != nil {
		return nil, err
	}
	before, err := x.rows(length-1, from, first)
	if err != nil {
		return nil, err
	}
	after, err := x.rows(length-1, last, to)
	return slices.Concat(before, out, after), err
}

// window returns the filter with the window of the counts.
func (c *Counts) window(f Filter) Filter {
	if !c.known || c.complete {
		return f
	}
	if f.From = c.From; !f.To.IsZero() {
		f.To = c.To
	}
	return f
}
