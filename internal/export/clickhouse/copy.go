package clickhouse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"ingero/internal/export"
	"ingero/internal/query"
)

// Result describes what was copied.
type Result struct {
	export.Result        // sent calls
	There         uint64 // calls that the cluster already had
	Rollups       uint64 // sent rows of rollups
	Chains        uint64
	Requests      uint64
	Reads         uint64 // of inference servers' metrics
	Labels        uint64
	LostCalls     uint64 // calls removed from the recording before they could be sent
}

// copier copies one session.
type copier struct {
	c        *Cluster
	r        *query.Reader
	f        query.Filter
	res      *Result
	progress export.Progress
	out      block
	next     uint64 // number of the first unread call
	sent     uint64 // number of the first unconfirmed call: read again after an error
	deleted  uint64 // calls before next that are no longer in the recording
	existing uint64 // calls before next that the cluster had
	live     bool   // the cluster has exactly what this copier sent

	rolled  time.Time         // rollups are sent up to this time
	sums    map[sumKey]counts // of the rollups sent last
	causes  map[string]cause  // chains that the cluster has
	settled bool              // they are known

	sentUntil time.Time                  // reads and labels are sent up to this time
	seen      map[string]map[string]bool // keys of the reads and labels that the last pass found, by table; live only
	requested time.Time                  // requests of ticks up to this time are sent
}

type sumKey struct {
	start int64 // Unix s
	pid   uint32
	op    string
}

// counts are how much a rollup has. They only grow: a call can be counted in one rollup, its return in a
// later one, and its duration in the first one again.
type counts struct {
	calls uint64
	all   uint64 // calls, returns and durations
}

func countsOf(o *query.OpStat) counts {
	return counts{o.Sum.Calls, o.Sum.Calls + o.Sum.Done + o.Dur.Count()}
}

// Copy sends what a cluster lacks of the matching sessions.
func Copy(ctx context.Context, c *Cluster, r *query.Reader, f query.Filter, p export.Progress) (*Result, error) {
	res := &Result{}
	sessions, err := r.Chosen(ctx, f)
	if err != nil {
		return nil, err
	}
	for i := range sessions {
		x := newCopier(c, r, f, &sessions[i], res, p)
		before := res.Calls
		if err := x.pass(ctx, true); err != nil {
			return res, fmt.Errorf("session %s: %w", sessions[i].ID, err)
		}
		if res.Calls > before {
			res.Sessions++
		}
	}
	return res, nil
}

func newCopier(c *Cluster, r *query.Reader, f query.Filter, s *query.Session, res *Result, p export.Progress) *copier {
	f.Session = s.ID
	return &copier{c: c, r: r, f: f, res: res, progress: p, sums: map[sumKey]counts{}, causes: map[string]cause{}, seen: map[string]map[string]bool{}}
}

// pass sends everything new. last reports that no more comes.
func (x *copier) pass(ctx context.Context, last bool) error {
	s, err := x.r.Session(ctx, x.f.Session)
	if err != nil {
		return err
	}
	if err := x.calls(ctx, &s); err != nil {
		return fmt.Errorf("calls: %w", err)
	}
	if err := x.rollups(ctx, &s, last); err != nil {
		return fmt.Errorf("rollups: %w", err)
	}
	if err := x.chains(ctx, &s); err != nil {
		return fmt.Errorf("chains: %w", err)
	}
	if err := x.facts(ctx, &s, last); err != nil {
		return fmt.Errorf("requests, inference servers and labels: %w", err)
	}
	return nil
}

// Length of rollups in seconds. Live ones are sent again within late of their end if more calls
// that began in them have ended.
const (
	rollupEvery = 10 * time.Second
	rollupLate  = time.Minute
	rollupPart  = time.Hour // period per query of the cluster's state
)

// rollups sends sums by time.
func (x *copier) rollups(ctx context.Context, s *query.Session, last bool) error {
	from, to := s.Started.Truncate(rollupEvery), s.Updated.Add(rollupEvery).Truncate(rollupEvery)
	if !last {
		to = s.Updated.Add(-rollupEvery).Truncate(rollupEvery)
	}
	if x.f.From.After(from) {
		from = x.f.From.Truncate(rollupEvery)
	}
	if !x.f.To.IsZero() && x.f.To.Before(to) {
		to = x.f.To.Truncate(rollupEvery)
	}
	if back := x.rolled.Add(-rollupLate).Truncate(rollupEvery); back.After(from) {
		from = back
	}
	for ; from.Before(to); from = from.Add(rollupPart) {
		end := from.Add(rollupPart)
		if end.After(to) {
			end = to
		}
		x.out.clear()
		if err := x.rollupsIn(ctx, s, from, end, last && !x.live); err != nil {
			return err
		}
	}
	x.rolled = to
	return nil
}

// rollupsIn sends the rollups of a period that the cluster lacks.
func (x *copier) rollupsIn(ctx context.Context, s *query.Session, from, to time.Time, ask bool) error {
	t := tableNamed("rollups")
	f := x.f
	f.From, f.To = from, to
	all, cover, err := x.r.OpStats(ctx, f, query.Group{PID: true, Every: rollupEvery})
	if err != nil && !errors.Is(err, query.ErrNoCalls) || len(all) == 0 {
		return err
	}
	x.cover(&query.Coverage{Damage: cover.Damage})
	if ask {
		rows, err := x.c.query(ctx, 5, "SELECT start, pid, op, max(calls), max(calls + done + arraySum(bucket_calls)) FROM %s.rollups WHERE session = %s AND start >= %d AND start < %d GROUP BY start, pid, op",
			quoteName(x.c.o.Database), quote(s.ID), from.Unix(), to.Unix())
		if err != nil {
			return err
		}
		for _, r := range rows {
			n, err := naturals(r[0], r[1], r[3], r[4])
			if err != nil {
				return err
			}
			x.sums[sumKey{int64(n[0]), uint32(n[1]), r[2]}] = counts{n[2], n[3]}
		}
	}
	fresh, sent := map[sumKey]counts{}, uint64(0)
	for i := range all {
		o := &all[i]
		k, n := sumKey{o.Time.Unix(), o.PID, o.Op.String()}, countsOf(o)
		had := x.sums[k]
		fresh[k] = had
		// Records count a return where its call began: they only complete a rollup that lacks calls.
		if n.all <= had.all || had.all > 0 && cover.Records && n.calls <= had.calls {
			continue
		}
		fresh[k] = n
		x.out.room = appendRollup(x.out.room[:0], s, o)
		if err := x.out.add(x.out.room, o.Time.Unix()); err != nil {
			return err
		}
		sent++
	}
	if err := x.out.send(ctx, x.c, t); err != nil {
		return err
	}
	maps.DeleteFunc(x.sums, func(k sumKey, _ counts) bool { return k.start < to.Add(-2*rollupLate).Unix() })
	maps.Copy(x.sums, fresh)
	x.res.Rollups += sent
	return nil
}

// appendRollup appends a row in the order of the table's columns.
func appendRollup(b []byte, s *query.Session, o *query.OpStat) []byte {
	b = appendText(appendText(b, s.ID), s.Node)
	b = binary.LittleEndian.AppendUint32(b, uint32(o.Time.Unix()))
	b = appendText(binary.LittleEndian.AppendUint32(b, o.PID), o.Op.String())
	n := &o.Sum
	for _, v := range [...]uint64{n.Calls, n.Done, n.Errors, n.Total, n.OnCPU, n.Runnable, n.Throttled, n.Blocked(),
		uint64(o.Dur.Quantile(0.5)), uint64(o.Dur.Quantile(0.99)), uint64(o.Dur.Max())} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	var middles, counts []byte
	buckets := uint64(0)
	for at, n := range o.Dur.Middles() {
		middles, counts = binary.LittleEndian.AppendUint64(middles, uint64(at)), binary.LittleEndian.AppendUint64(counts, n)
		buckets++
	}
	b = append(binary.AppendUvarint(b, buckets), middles...)
	return append(binary.AppendUvarint(b, buckets), counts...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// naturals parses unsigned numbers of an answer.
func naturals(all ...string) ([]uint64, error) {
	out := make([]uint64, len(all))
	for i, s := range all {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("ClickHouse answered %.100q instead of a number", s)
		}
		out[i] = n
	}
	return out, nil
}
