package store

import (
	"errors"
	"strings"
	"time"

	"ingero/internal/tick"
)

// Imported is the [Session.Mode] of a recording that another program made. Its counts are derived
// from its records.
const Imported = "import"

var sqlCounted = `INSERT INTO counted VALUES (?, ?, ?, ?` + strings.Repeat(", ?", 15) + `)`

// countTiers are the row lengths of the table counted and their retention times. The finest rows
// hold one tick each.
var countTiers = [...]tier{{time.Second, 6 * time.Hour}, {10 * time.Second, 48 * time.Hour}, {time.Minute, 0}}

// counting holds the counts since a tier's last rows.
type counting struct {
	since time.Time
	sum   map[opID]tick.Counts
}

// countTick writes what the kernel counted since the previous tick. Call it before the rows of
// operations are updated.
func (v *saving) countTick(t *tick.Tick) error {
	if v.derived || len(t.Ops) == 0 {
		return nil
	}
	from := v.counted[0].since
	added := map[opID]tick.Counts{}
	for i := range t.Ops {
		o := &t.Ops[i]
		k := opID{o.PID, o.Op}
		was := v.ops[k].sum
		if d := o.Sum.Since(&was); d != (tick.Counts{}) {
			added[k] = d
			if err := v.countRow(countTiers[0], from, t.Time, k, &d); err != nil {
				return err
			}
		}
	}
	v.done = append(v.done, func() { v.counted[0].since = t.Time })
	for i := 1; i < len(countTiers); i++ {
		if err := v.countTier(i, t, added); err != nil {
			return err
		}
	}
	return nil
}

// countTier adds a tick's counts to a coarser tier, and writes it once the tier's length has
// elapsed.
func (v *saving) countTier(i int, t *tick.Tick, added map[opID]tick.Counts) error {
	c := &v.counted[i]
	since := c.since
	over := t.Time.Sub(since) >= countTiers[i].length // a session's rest has finer rows only
	sum := func(k opID) tick.Counts {
		x, d := c.sum[k], added[k]
		x.Add(&d)
		return x
	}
	if over {
		for k := range added {
			if _, had := c.sum[k]; had {
				continue
			}
			x := sum(k)
			if err := v.countRow(countTiers[i], since, t.Time, k, &x); err != nil {
				return err
			}
		}
		for k := range c.sum {
			x := sum(k)
			if err := v.countRow(countTiers[i], since, t.Time, k, &x); err != nil {
				return err
			}
		}
		v.done = append(v.done, func() { *c = counting{since: t.Time} })
		return nil
	}
	v.done = append(v.done, func() {
		if c.sum == nil {
			c.sum = make(map[opID]tick.Counts, len(added))
		}
		for k := range added {
			c.sum[k] = sum(k)
		}
	})
	return nil
}

func (v *saving) countRow(of tier, from, to time.Time, k opID, c *tick.Counts) error {
	args := []any{v.id, of.seconds(), to.UnixNano(), from.UnixNano(), k.pid, uint16(k.op)}
	for _, n := range c.Sums() {
		args = append(args, int64(*n))
	}
	return v.exec(&sqlCounted, args...)
}

// sweepCounted deletes expired rows that coarser rows cover. If over is set, it also deletes the
// oldest other rows that coarser ones cover, a few at a time.
func (v *saver) sweepCounted(now time.Time, over bool) error {
	for i, fine := range countTiers[:len(countTiers)-1] {
		coarse := countTiers[i+1]
		before, err := v.countedUpTo("SELECT id, (SELECT max(end_ns) FROM counted WHERE session = id AND seconds = ?1 AND end_ns < ?2) AS at FROM sessions WHERE at IS NOT NULL",
			coarse.seconds(), now.Add(-fine.keep).UnixNano())
		if err == nil && over {
			before, err = v.countedUpTo(`SELECT id, (SELECT min(end_ns) FROM counted WHERE session = id AND seconds = ?1
				AND end_ns >= (SELECT min(end_ns) FROM counted WHERE session = id AND seconds = ?2)) AS at FROM sessions WHERE at IS NOT NULL`, coarse.seconds(), fine.seconds())
		}
		if err != nil {
			return err
		}
		for session, at := range before {
			if _, err := v.db.Exec("DELETE FROM counted WHERE session = ? AND seconds = ? AND end_ns <= ?", session, fine.seconds(), at); err != nil {
				return err
			}
		}
	}
	return nil
}

// countedUpTo returns the times that a statement selects, by session.
func (v *saver) countedUpTo(text string, args ...any) (out map[int64]int64, err error) {
	rows, err := v.db.Query(text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = map[int64]int64{}
	for rows.Next() {
		var session, at int64
		if err := rows.Scan(&session, &at); err != nil {
			return nil, err
		}
		out[session] = at
	}
	return out, rows.Err()
}

// CountColumns are the columns of the table counted that [ScanCounts] reads.
const CountColumns = `calls, done, errors, nested, unmeasured, abandoned, total_ns, oncpu_ns, runnable_ns, throttled_ns, inner_ns, partial, partial_ns`

// ScanCounts reads a row whose last columns are [CountColumns]; more receives the columns before.
func ScanCounts(scan func(...any) error, c *tick.Counts, more ...any) error {
	for _, v := range c.Sums() {
		more = append(more, v)
	}
	return scan(more...)
}

// CountSeconds returns the row lengths of the table counted, finest first.
func CountSeconds() (out []int64) {
	for _, t := range countTiers {
		out = append(out, t.seconds())
	}
	return out
}
