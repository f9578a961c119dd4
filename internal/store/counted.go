package store

import (
	"strings"
	"time"

	"ingero/internal/store/retention"
	"ingero/internal/tick"
)

// Imported is the [Session.Mode] of a recording that another program made. Its counts are derived
// from its records.
const Imported = "import"

var sqlCounted = `INSERT INTO counted VALUES (?, ?, ?, ?` + strings.Repeat(", ?", 15) + `)`

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
			if err := v.countRow(retention.Counted[0], from, t.Time, k, &d); err != nil {
				return err
			}
		}
	}
	v.done = append(v.done, func() { v.counted[0].since = t.Time })
	for i := 1; i < len(retention.Counted); i++ {
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
	over := t.Time.Sub(since) >= retention.Counted[i].Length // a session's rest has finer rows only
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
			if err := v.countRow(retention.Counted[i], since, t.Time, k, &x); err != nil {
				return err
			}
		}
		for k := range c.sum {
			x := sum(k)
			if err := v.countRow(retention.Counted[i], since, t.Time, k, &x); err != nil {
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

func (v *saving) countRow(of retention.Tier, from, to time.Time, k opID, c *tick.Counts) error {
	args := []any{v.id, of.Seconds(), to.UnixNano(), from.UnixNano(), k.pid, uint16(k.op)}
	for _, n := range c.Sums() {
		args = append(args, int64(*n))
	}
	return v.exec(&sqlCounted, args...)
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
	for _, t := range retention.Counted {
		out = append(out, t.Seconds())
	}
	return out
}
