package query

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"ingero/internal/store/log"
	"ingero/internal/tick"
)

// Loss is the wall time that one process lost to one culprit in a period.
type Loss struct {
	Session  *Session
	From, To time.Time // a minute or less; an hour if long ago
	Slot     time.Time // start of that minute or hour, equal for what is lost in parallel
	Chain    string    // chain ID
	Rule     string
	Culprit  string // program name, or a description; "": unnamed
	PID      uint32 // the victim
	Lost     time.Duration
}

// Losses returns what the filter's processes lost in its window, ordered by time, session, chain
// and culprit. A period that the window cuts contributes proportionally. Each loss is counted once,
// however long its chain lasted and however often it was revised. Losses outlive the calls.
func (r *Reader) Losses(ctx context.Context, f Filter) ([]Loss, error) {
	sessions, err := r.Chosen(ctx, f)
	if err != nil {
		return nil, err
	}
	var out []Loss
	for i := range sessions {
		list, err := r.losses(ctx, &sessions[i], f)
		if err != nil {
			return nil, fmt.Errorf("read the losses of session %s: %w", sessions[i].ID, err)
		}
		out = append(out, list...)
	}
	slices.SortStableFunc(out, func(a, b Loss) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Culprit, b.Culprit))
	})
	return out, nil
}

// span is a period in Unix ns.
type span struct{ from, to int64 }

// lives returns the period in which each chain of a session cost something, of those chains and
// episodes that overlap [from, to).
func (r *Reader) lives(ctx context.Context, s *Session, from, to int64) (map[string]span, error) {
	lives := map[string]span{}
	add := func(chain string, x span) {
		if was, ok := lives[chain]; ok {
			x = span{min(x.from, was.from), max(x.to, was.to)}
		}
		lives[chain] = x
	}
	if err := r.occurrences(ctx, s, from, to, func(chain string, o *occurrence) { add(chain, o.span) }); err != nil {
		return nil, err
	}
	return lives, r.rows(ctx, func(rows *sql.Rows) error {
		var chain string
		var x span
		err := rows.Scan(&chain, &x.from, &x.to)
		add(chain, x)
		return err
	}, chainLives, s.id, from, to)
}

func (r *Reader) losses(ctx context.Context, s *Session, f Filter) (out []Loss, err error) {
	from, to := bounds(f)
	lives, err := r.lives(ctx, s, before(from, time.Hour), after(to, time.Hour)) // a row may begin or end outside the window
	if err != nil {
		return nil, err
	}
	add := func(l Loss, start, end int64) {
		if a, b := max(start, from), min(end, to); f.wants(l.PID) && a < b && l.Lost > 0 {
			l.Session, l.From, l.To = s, unixTime(a), unixTime(b)
			if l.Slot.IsZero() {
				l.Slot = unixTime(start).Truncate(time.Minute)
			}
			l.Lost = time.Duration(math.Round(float64(l.Lost) * (float64(b-a) / float64(end-start))))
			out = append(out, l)
		}
	}
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var l Loss
		var seconds, start int64
		err := rows.Scan(&seconds, &start, &l.Chain, &l.Culprit, &l.Rule, &l.PID, &l.Lost)
		end := start + seconds*int64(time.Second)
		l.Slot = unixTime(start)
		if life, ok := lives[l.Chain]; ok && max(start, life.from) < min(end, life.to) { // it cost nothing before and after
			start, end = max(start, life.from), min(end, life.to)
		}
		add(l, start, end)
		return err
	}, windowLosses, windowArgs(s, from, to)...)
	if err != nil {
		return nil, err
	}
	// For a recording without losses by time, use its chains.
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var l Loss
		var start, end int64
		var culprits []byte
		if err := rows.Scan(&l.Chain, &l.Rule, &l.PID, &start, &end, &l.Lost, &culprits); err != nil {
			return err
		}
		var who []struct{ Comm, What string }
		if err := json.Unmarshal(culprits, &who); err != nil {
			return fmt.Errorf("chain %s: %w: %w", l.Chain, log.ErrCorrupt, err)
		}
		if len(who) > 0 {
			l.Culprit = cmp.Or(who[0].Comm, who[0].What)
		}
		add(l, start, max(end, start+1))
		return nil
	}, chainLosses, s.id, from, to)
	return out, err
}

// Observed is a process that used CUDA while it was recorded.
type Observed struct {
	Session  *Session
	Process  tick.Process
	From, To time.Time // clipped to the filter's window
	GPUs     int       // GPUs used, by streams and allocations; at least one
}

// Observed returns the filter's processes, ordered by session and pid.
func (r *Reader) Observed(ctx context.Context, f Filter) (out []Observed, err error) {
	sessions, err := r.Chosen(ctx, f)
	if err != nil {
		return nil, err
	}
	for i := range sessions {
		s := &sessions[i]
		all, err := r.processes(ctx, s.id)
		if err != nil {
			return nil, err
		}
		gpus, err := r.gpusOf(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			o := Observed{Session: s, Process: p, From: later(later(s.Started, p.Attached), f.From), To: later(s.Ended, s.Updated), GPUs: max(gpus[p.PID], 1)}
			if !p.Ended.IsZero() {
				o.To = earlier(o.To, p.Ended)
			}
			if !f.To.IsZero() {
				o.To = earlier(o.To, f.To)
			}
			if f.wants(p.PID) && o.From.Before(o.To) && !p.Attached.IsZero() {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// gpusOf counts the devices that each process of a session used.
func (r *Reader) gpusOf(ctx context.Context, s *Session) (map[uint32]int, error) {
	out := map[uint32]int{}
	return out, r.rows(ctx, func(rows *sql.Rows) error {
		var pid uint32
		var n int
		err := rows.Scan(&pid, &n)
		out[pid] = n
		return err
	}, `SELECT pid, count(*) FROM (SELECT pid, device FROM held WHERE session = ?1 AND device >= 0 UNION
		SELECT pid, device FROM streams WHERE session = ?1 AND device IS NOT NULL) GROUP BY pid`, s.id)
}
