package query

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"ingero/internal/store"
	"ingero/internal/tick"
)

// Account is where a process's time went in a window of one recording.
type Account struct {
	tick.Breakdown
	From, To int64         // Unix ns: the covered period, which is approximately the window
	Covered  time.Duration // the sum of the rows' lengths
}

// Accounts returns where the time of the filter's processes went in its window, ordered by pid. It
// sums the rows whose middle lies in the window: rows of ten seconds, and of ten minutes where the
// finer ones are deleted or too many. With labels, it sums the rows that lie in one of their ranges.
// Accounts outlive the calls.
func (r *Reader) Accounts(ctx context.Context, f Filter) ([]Account, error) {
	s, within, err := r.labelled(ctx, f)
	if err != nil {
		return nil, err
	}
	rows, err := r.accountRows(ctx, &s, f)
	rows = slices.DeleteFunc(rows, func(x Account) bool { return !within.Contains(x.PID, x.From, x.To) })
	if err != nil {
		return nil, fmt.Errorf("read the accounts of session %s: %w", s.ID, err)
	}
	at := map[uint32]int{}
	var out []Account
	for i := range rows {
		x := &rows[i]
		x.Covered = time.Duration(x.To - x.From)
		j, known := at[x.PID]
		if !known {
			at[x.PID] = len(out)
			out = append(out, *x)
			continue
		}
		sum := &out[j]
		sum.Breakdown = sum.Plus(&x.Breakdown)
		sum.From, sum.To = min(sum.From, x.From), max(sum.To, x.To)
		sum.Covered += x.Covered
	}
	slices.SortFunc(out, func(a, b Account) int { return cmp.Compare(a.PID, b.PID) })
	return out, nil
}

// longAccounts is the length, in ns, from which a window's middle uses the coarser rows.
const longAccounts = 3 * 3600e9

// accountRows returns the rows that make up a window: coarse ones in the middle of a long window,
// fine ones at its ends and where no coarse ones exist.
func (r *Reader) accountRows(ctx context.Context, s *Session, f Filter) ([]Account, error) {
	from, to := bounds(f)
	from = max(from, s.Started.UnixNano())
	if to == math.MaxInt64 {
		to = max(s.Updated.UnixNano(), s.Ended.UnixNano()) + 1
	}
	if len(f.Labels) > 0 {
		return r.finestAccounts(ctx, s, f, from, to)
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
		return r.finestAccounts(ctx, s, f, from, to)
	}
	first, last := coarse[0].From, coarse[len(coarse)-1].To
	before, err := r.finestAccounts(ctx, s, f, from, first)
	if err != nil {
		return nil, err
	}
	after, err := r.finestAccounts(ctx, s, f, last, to)
	return slices.Concat(before, coarse, after), err
}

// finestAccounts returns the fine rows of a window, and the coarse ones from the time before them: the
// older part of a window may have these only.
func (r *Reader) finestAccounts(ctx context.Context, s *Session, f Filter, from, to int64) ([]Account, error) {
	fine, err := r.accountsOf(ctx, s, f, 10, from, to)
	if err != nil || len(fine) > 0 && fine[0].From <= from {
		return fine, err
	}
	if len(fine) == 0 {
		return r.accountsOf(ctx, s, f, 600, from, to)
	}
	to = fine[0].From
	coarse, err := r.accountsOf(ctx, s, f, 600, from, to)
	coarse = slices.DeleteFunc(coarse, func(x Account) bool { return x.To > to })
	return append(coarse, fine...), err
}

// accountsOf returns the rows of one length whose middle lies in [from, to), ordered by time.
func (r *Reader) accountsOf(ctx context.Context, s *Session, f Filter, seconds, from, to int64) (out []Account, err error) {
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var x Account
		if err := rows.Scan(accountHead(&x.From, &x.To, &x.PID)...); err != nil {
			return err
		}
		if middle := x.From + (x.To-x.From)/2; !f.wants(x.PID) || middle < from || middle >= to {
			return nil
		}
		k := accountKey{s.id, seconds, x.To, x.PID}
		if b, ok := r.accounts.get(k); ok {
			x.Breakdown = b
		} else if err := store.ScanAccount(rows.Scan, &x.Breakdown, &x.From, &x.To); err != nil {
			return err
		} else {
			r.accounts.put(k, &x.Breakdown)
		}
		out = append(out, x)
		return nil
	}, "SELECT start_ns, end_ns, "+store.AccountColumns+" FROM accounts WHERE session = ? AND seconds = ? AND end_ns > ? AND start_ns < ? ORDER BY end_ns, pid",
		s.id, seconds, from, to)
	return out, err
}

// accountHead returns scan targets for an account's row that discard all other columns.
func accountHead(from, to *int64, pid *uint32) []any {
	into := []any{from, to, pid}
	var rest any
	for range strings.Count(store.AccountColumns, ",") {
		into = append(into, &rest)
	}
	return into
}

// accountCache caches rows of accounts. Reading a row takes most of an answer's time, and
// consecutive answers use the same rows, which never change.
type accountCache struct {
	mu   sync.Mutex
	rows map[accountKey]*tick.Breakdown
}

// accountKey is a row's key.
type accountKey struct {
	session, seconds, end int64
	pid                   uint32
}

// maxAccounts bounds the cached rows: some tens of megabytes.
const maxAccounts = 4096

// get returns a copy of a row.
func (c *accountCache) get(k accountKey) (tick.Breakdown, bool) {
	c.mu.Lock()
	b := c.rows[k]
	c.mu.Unlock()
	if b == nil {
		return tick.Breakdown{}, false
	}
	return ownAccount(b), true
}

// put caches a copy of a row.
func (c *accountCache) put(k accountKey, b *tick.Breakdown) {
	own := ownAccount(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil || len(c.rows) >= maxAccounts {
		c.rows = map[accountKey]*tick.Breakdown{}
	}
	c.rows[k] = &own
}

// ownAccount returns a deep copy of an account.
func ownAccount(b *tick.Breakdown) tick.Breakdown {
	out := *b
	out.RunnableBy, out.BlockedOn, out.ByThread = slices.Clone(b.RunnableBy), slices.Clone(b.BlockedOn), slices.Clone(b.ByThread)
	for i := range out.ByThread {
		for p := range out.ByThread[i].In {
			x := &out.ByThread[i].In[p]
			x.RunnableBy, x.BlockedOn = slices.Clone(x.RunnableBy), slices.Clone(x.BlockedOn)
		}
	}
	if b.Lengths != nil {
		out.Lengths = b.Lengths.Clone()
	}
	if b.Loop != nil {
		loop := *b.Loop
		out.Loop = &loop
	}
	return out
}
