package legacy

import (
	"context"
	"database/sql"

	"ingero/internal/stats"
)

const minute = 60_000_000_000

type sumKey struct {
	bucket   int64
	code     code
	pid      uint32
	anything bool // all processes together: 0.9 uses pid 0
}

// sums adds the calls that 0.9 kept as sums of a minute.
func (d *DB) sums(ctx context.Context, s *session, of int, w *writer, r *Report) error {
	const t = "event_aggregates"
	if !d.has(t, "bucket", "source", "op", "pid", "count", "stored", "sum_dur", "min_dur", "max_dur") {
		return nil
	}
	var nodes int
	if err := d.sql.QueryRowContext(ctx, "SELECT count(DISTINCT "+d.column("events", "node", "''")+") FROM events").Scan(&nodes); err != nil || nodes > 1 && of > 1 {
		return err // their machine is unknown
	}
	stored := map[sumKey]int64{}
	err := d.rows(ctx, func(rows *sql.Rows) error {
		var k sumKey
		var ns int64
		err := rows.Scan(&k.bucket, &k.code.source, &k.code.op, &k.pid, &ns)
		stored[k] += ns
		stored[sumKey{k.bucket, k.code, 0, true}] += ns
		return err
	}, "SELECT timestamp / ?1 * ?1, source, op, pid, sum(duration) FROM events WHERE timestamp >= ?2 AND timestamp < ?3 AND source IN (?4, ?5, ?6) GROUP BY 1, 2, 3, 4",
		minute, s.from, s.to, sourceRuntime, sourceDriver, sourceGraph)
	if err != nil {
		return err
	}
	// A minute belongs to the latest session that began before its end.
	from, to := s.from, s.to
	if from > -1<<62 {
		from -= from % minute
	}
	if to < 1<<62 {
		to -= to % minute
	}
	return d.rows(ctx, func(rows *sql.Rows) error {
		var k sumKey
		var count, kept, sum, least, most int64
		if err := rows.Scan(&k.bucket, &k.code.source, &k.code.op, &k.pid, &count, &kept, &sum, &least, &most); err != nil {
			return err
		}
		k.anything = k.pid == 0
		if op, ok := isCall(k.code); ok && count > kept {
			if !k.anything {
				w.proc(k.pid)
			}
			o := w.op(k.pid, op)
			n := uint64(count - kept)
			total := uint64(max(sum-stored[k], 0))
			o.Sum.Calls, o.Sum.Done, o.Thinned = o.Sum.Calls+n, o.Sum.Done+n, true
			o.Sum.Total, o.Sum.Partial, o.Sum.PartialNS = o.Sum.Total+total, o.Sum.Partial+n, o.Sum.PartialNS+total
			spread(o.Hist, n, total, least, most)
			w.unstored += n
			r.Summed += n
		}
		return nil
	}, "SELECT bucket, source, op, pid, count, stored, sum_dur, min_dur, max_dur FROM event_aggregates WHERE bucket >= ? AND bucket < ?", from, to)
}

// spread adds n calls to a histogram, given their sum, minimum and maximum: one takes the minimum,
// one the maximum, and the others the mean.
func spread(h *stats.Hist, n, total uint64, least, most int64) {
	mean := int64(total / n)
	if n > 2 {
		h.Record(least, 1)
		h.Record(most, 1)
		n -= 2
	}
	for n > 0 {
		weight := uint32(min(n, 1<<31))
		h.Record(mean, weight)
		n -= uint64(weight)
	}
}
