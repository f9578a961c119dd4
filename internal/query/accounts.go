package query

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"

	"ingero/internal/store"
	"ingero/internal/tick"
)

// Account is where the time of a process went in a window of one recording.
type Account struct {
	tick.Breakdown
	From, To int64 // Unix ns: what it is of, which is about the window
}

// Accounts returns where the time of the filter's processes went in its window, in the
// order of their numbers: the rows of which the middle lies in it. They are of ten
// seconds, and of ten minutes where the finer are not kept any more or there would be
// many. They outlive the calls.
func (r *Reader) Accounts(ctx context.Context, f Filter) ([]Account, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, err
	}
	rows, err := r.accountRows(ctx, &s, f)
	if err != nil {
		return nil, fmt.Errorf("read the accounts of session %s: %w", s.ID, err)
	}
	at := map[uint32]int{}
	var out []Account
	for i := range rows {
		x := &rows[i]
		j, known := at[x.PID]
		if !known {
			at[x.PID] = len(out)
			out = append(out, *x)
			continue
		}
		sum := &out[j]
		sum.Breakdown = sum.Plus(&x.Breakdown)
		sum.From, sum.To = min(sum.From, x.From), max(sum.To, x.To)
	}
	slices.SortFunc(out, func(a, b Account) int { return cmp.Compare(a.PID, b.PID) })
	return out, nil
}

// longAccounts is the length of windows whose middle is of the coarser rows, ns.
const longAccounts = 3 * 3600e9

// accountRows returns the rows that make up a window: coarse ones in the middle of a
// long one, fine ones at its ends and where there are no others.
func (r *Reader) accountRows(ctx context.Context, s *Session, f Filter) ([]Account, error) {
	from, to := bounds(f)
	from = max(from, s.Started.UnixNano())
	if to == math.MaxInt64 {
		to = max(s.Updated.UnixNano(), s.Ended.UnixNano()) + 1
	}
	var coarse []Account
	if to-from > longAccounts {
		var err error
		if coarse, err = r.accountsOf(ctx, s, f, 600, from, to); err != nil {
			return nil, err
		}
		coarse = slices.DeleteFunc(coarse, func(x Account) bool { return x.From < from || x.To > to })
	}
	if len(coarse) == 0 {
		return r.fineOrCoarse(ctx, s, f, from, to)
	}
	first, last := coarse[0].From, coarse[len(coarse)-1].To
	before, err := r.fineOrCoarse(ctx, s, f, from, first)
	if err != nil {
		return nil, err
	}
	after, err := r.fineOrCoarse(ctx, s, f, last, to)
	return slices.Concat(before, coarse, after), err
}

func (r *Reader) fineOrCoarse(ctx context.Context, s *Session, f Filter, from, to int64) ([]Account, error) {
	fine, err := r.accountsOf(ctx, s, f, 10, from, to)
	if err != nil || len(fine) > 0 {
		return fine, err
	}
	return r.accountsOf(ctx, s, f, 600, from, to)
}

// accountsOf returns the rows of one length whose middle lies in [from, to), in the
// order of time.
func (r *Reader) accountsOf(ctx context.Context, s *Session, f Filter, seconds, from, to int64) (out []Account, err error) {
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var x Account
		err := store.ScanAccount(rows.Scan, &x.Breakdown, &x.From, &x.To)
		if middle := x.From + (x.To-x.From)/2; err == nil && f.wants(x.PID) && middle >= from && middle < to {
			out = append(out, x)
		}
		return err
	}, "SELECT start_ns, end_ns, "+store.AccountColumns+" FROM accounts WHERE session = ? AND seconds = ? AND end_ns > ? AND start_ns < ? ORDER BY end_ns, pid",
		s.id, seconds, from, to)
	return out, err
}
