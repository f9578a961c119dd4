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

	"ingero/internal/store"
)

// Loss is wall time that one process lost to one culprit in a stretch of time.
type Loss struct {
	Session  *Session
	From, To time.Time // the stretch: a minute or less, an hour where that was long ago
	Chain    string    // its ID
	Rule     string
	Culprit  string // name of a program, or what it was; "" where that has no name
	PID      uint32 // who lost
	Lost     time.Duration
}

// Losses returns what the filter's processes lost in its window, in the order of time,
// session, chain and culprit. Of a stretch that the window cuts it is the window's
// part. However long a chain went on and however often it was revised, each loss is
// there once; and they outlive the calls.
func (r *Reader) Losses(ctx context.Context, f Filter) ([]Loss, error) {
	sessions, err := r.chosen(ctx, f)
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

func (r *Reader) losses(ctx context.Context, s *Session, f Filter) (out []Loss, err error) {
	from, to := bounds(f)
	add := func(l Loss, start, end int64) {
		if a, b := max(start, from), min(end, to); f.wants(l.PID) && a < b && l.Lost > 0 {
			l.Session, l.From, l.To = s, at(a), at(b)
			l.Lost = time.Duration(math.Round(float64(l.Lost) * (float64(b-a) / float64(end-start))))
			out = append(out, l)
		}
	}
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var l Loss
		var seconds, start int64
		err := rows.Scan(&seconds, &start, &l.Chain, &l.Culprit, &l.Rule, &l.PID, &l.Lost)
		add(l, start, start+seconds*int64(time.Second))
		return err
	}, "SELECT seconds, start_ns, chain, culprit, rule, pid, lost_ns FROM losses WHERE session = ? AND seconds > 0", s.id)
	if err != nil {
		return nil, err
	}
	// Those of a recording that has no losses by time are where their chains are.
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var l Loss
		var start, end int64
		var culprits []byte
		if err := rows.Scan(&l.Chain, &l.Rule, &l.PID, &start, &end, &l.Lost, &culprits); err != nil {
			return err
		}
		var who []struct{ Comm, What string }
		if err := json.Unmarshal(culprits, &who); err != nil {
			return fmt.Errorf("chain %s: %w: %w", l.Chain, store.ErrCorrupt, err)
		}
		if len(who) > 0 {
			l.Culprit = cmp.Or(who[0].Comm, who[0].What)
		}
		add(l, start, max(end, start+1))
		return nil
	}, `SELECT id, rule, pid, from_ns, to_ns, lost_ns, culprits FROM chains c WHERE session = ? AND from_ns IS NOT NULL AND to_ns IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM losses l WHERE l.session = c.session AND l.chain = c.id)`, s.id)
	return out, err
}
