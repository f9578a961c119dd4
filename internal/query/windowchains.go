package query

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"ingero/internal/store"
	"ingero/internal/tick"
)

// Statements about the window [?2, ?3) of session ?1. Each reads the window's rows by a key.
const (
	// lossRows begin at most their length before the window: after ?4 or ?5.
	lossRows = `FROM losses WHERE session = ?1 AND seconds = 60 AND start_ns > ?4 AND start_ns < ?3`
	hourRows = `FROM losses WHERE session = ?1 AND seconds = 3600 AND start_ns > ?5 AND start_ns < ?3`

	endedRows = `FROM episodes e WHERE session = ?1 AND to_ns >= ?2 AND from_ns < ?3 AND ended_ns IS NOT NULL`
	// openRows last until the last state of their chain: only reports update an episode.
	openRows = `FROM episodes e LEFT JOIN chains c ON c.session = ?1 AND c.id = e.chain
		WHERE e.session = ?1 AND e.ended_ns IS NULL AND e.from_ns < ?3 AND max(e.to_ns, coalesce(c.to_ns, e.to_ns)) >= ?2`

	windowEpisodes = `SELECT e.chain, e.severity, e.culprits, e.lost_ns, e.from_ns AS since, e.to_ns ` + endedRows + `
		UNION ALL SELECT e.chain, e.severity, e.culprits, e.lost_ns, e.from_ns, max(e.to_ns, coalesce(c.to_ns, e.to_ns)) ` + openRows + ` ORDER BY since`
	// A chain without times is included, since its time is unknown.
	windowChains = chainRows + ` AND id IN (SELECT chain ` + lossRows + ` UNION SELECT chain ` + hourRows + `
		UNION SELECT chain ` + endedRows + ` UNION SELECT e.chain ` + openRows + `
		UNION SELECT id FROM chains WHERE session = ?1 AND to_ns >= ?2 AND coalesce(from_ns, ?2) < ?3
		UNION SELECT id FROM chains INDEXED BY chains_time WHERE session = ?1 AND to_ns IS NULL AND coalesce(from_ns, ?2) < ?3)`
	chainLives  = `SELECT id, from_ns, to_ns FROM chains WHERE session = ?1 AND to_ns >= ?2 AND from_ns < ?3`
	chainLosses = `SELECT id, rule, pid, from_ns, to_ns, lost_ns, culprits FROM chains c WHERE session = ?1 AND to_ns >= ?2 AND from_ns < ?3 AND lost_ns > 0
		AND NOT EXISTS (SELECT 1 FROM losses l WHERE l.session = ?1 AND seconds = 60 AND start_ns > c.from_ns - 60000000000 AND start_ns <= c.to_ns AND chain = c.id)
		AND NOT EXISTS (SELECT 1 FROM losses l WHERE l.session = ?1 AND seconds = 3600 AND start_ns > c.from_ns - 3600000000000 AND start_ns <= c.to_ns AND chain = c.id)`
	windowLosses = `SELECT seconds, start_ns, chain, culprit, rule, pid, lost_ns ` + lossRows + `
		UNION ALL SELECT seconds, start_ns, chain, culprit, rule, pid, lost_ns ` + hourRows
)

// windowArgs returns the arguments of these statements.
func windowArgs(s *Session, from, to int64) []any {
	return []any{s.id, from, to, before(from, time.Minute), before(from, time.Hour)}
}

// before returns the time that is d before ns.
func before(ns int64, d time.Duration) int64 {
	if ns < math.MinInt64+int64(d) {
		return math.MinInt64
	}
	return ns - int64(d)
}

// after returns the time that is d after ns.
func after(ns int64, d time.Duration) int64 {
	if ns > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return ns + int64(d)
}

// occurrence is an episode of a chain.
type occurrence struct {
	span
	severity string
	culprits []byte // JSON
	lost     time.Duration
}

// occurrences calls visit with each episode that overlaps [from, to), in order of their starts.
func (r *Reader) occurrences(ctx context.Context, s *Session, from, to int64, visit func(chain string, o *occurrence)) error {
	return r.rows(ctx, func(rows *sql.Rows) error {
		var chain string
		var o occurrence
		err := rows.Scan(&chain, &o.severity, &o.culprits, &o.lost, &o.from, &o.to)
		visit(chain, &o)
		return err
	}, windowEpisodes, windowArgs(s, from, to)[:3]...)
}

// windowChains returns the filter's chains that overlap its window.
func (r *Reader) windowChains(ctx context.Context, s *Session, f Filter) (out []tick.Chain, err error) {
	from, to := bounds(f)
	var earlier []tick.Chain // whose last state does not overlap the window
	err = r.rows(ctx, func(rows *sql.Rows) error {
		c, err := scanChain(rows)
		switch {
		case !f.wants(c.PID):
		case c.To.IsZero() || c.To.UnixNano() >= from && (c.From.IsZero() || c.From.UnixNano() < to):
			out = append(out, c)
		default:
			earlier = append(earlier, c)
		}
		return err
	}, windowChains, windowArgs(s, from, to)...)
	if err != nil || len(earlier) == 0 {
		return out, err
	}
	last := map[string]occurrence{}
	err = r.occurrences(ctx, s, from, to, func(chain string, o *occurrence) { last[chain] = *o })
	if err != nil {
		return nil, err
	}
	losses, err := r.losses(ctx, s, f)
	if err != nil {
		return nil, err
	}
	for i := range earlier {
		c := &earlier[i]
		o, ok := last[c.ID]
		if !ok {
			o, ok = lostIn(losses, c)
		}
		if !ok {
			continue
		}
		if err := o.onto(c); err != nil {
			return nil, err
		}
		out = append(out, *c)
	}
	return out, nil
}

// lostIn returns what a chain without an episode lost in a window, if it lost anything.
func lostIn(losses []Loss, c *tick.Chain) (o occurrence, ok bool) {
	o.severity = c.Severity.String()
	for i := range losses {
		l := &losses[i]
		if l.Chain != c.ID {
			continue
		}
		from, to := l.From.UnixNano(), l.To.UnixNano()
		if !ok {
			o.span = span{from, to}
		}
		o.span = span{min(o.from, from), max(o.to, to)}
		o.lost += l.Lost
		ok = true
	}
	return o, ok
}

// onto replaces a chain's last state with the occurrence, as far as that is known.
func (o *occurrence) onto(c *tick.Chain) error {
	c.From, c.To = unixTime(o.from), unixTime(o.to)
	c.Severity, _ = tick.ParseSeverity(o.severity)
	c.Timeline = slices.DeleteFunc(c.Timeline, func(m tick.Moment) bool { return m.Time.Before(c.From) || m.Time.After(c.To) })
	named := culpritsLost(c.Culprits) // part of Lost
	if o.culprits != nil {
		var was tick.Chain
		if err := store.UnmarshalChain(&was, o.culprits, []byte("[]"), []byte("[]")); err != nil {
			return err
		}
		c.Culprits = was.Culprits
	}
	times := 1.0
	if c.Lost > 0 {
		times = float64(o.lost) / float64(c.Lost)
	}
	scale := func(d *time.Duration, times float64) { *d = time.Duration(math.Round(times * float64(*d))) }
	if c.Lost > 0 {
		c.Lost = o.lost
		scale(&c.LostMin, times)
		scale(&c.LostMax, times)
		c.Window, c.Steps, c.Slow, c.Excess = c.To.Sub(c.From), 0, 0, 0
	}
	if lost := culpritsLost(c.Culprits); lost > 0 {
		times *= float64(named) / float64(lost)
	}
	for i := range c.Culprits {
		scale(&c.Culprits[i].Lost, times)
	}
	return nil
}

func culpritsLost(all []tick.Culprit) (sum time.Duration) {
	for i := range all {
		sum += all[i].Lost
	}
	return sum
}
