package clickhouse

import (
	"context"
	"slices"
	"time"

	"ingero/internal/export"
	"ingero/internal/query"
	"ingero/pkg/events"
)

// numbers is a bit set of the calls of a block that a cluster has.
type numbers [blockCalls / 64]uint64

func (n *numbers) has(i uint64) bool { return n[i/64]&(1<<(i%64)) != 0 }
func (n *numbers) set(i uint64)      { n[i/64] |= 1 << (i % 64) }

// calls sends the matching calls from next on.
func (x *copier) calls(ctx context.Context, s *query.Session) error {
	rows, err := export.NewRows(ctx, x.r, s)
	if err != nil {
		return err
	}
	there := map[uint64]uint64{}
	if !x.live {
		if there, err = x.counts(ctx, s); err != nil {
			return err
		}
	}
	t := tableNamed("calls")
	x.out.clear()
	var failed error
	var skip *numbers
	part, first := uint64(0), true
	cover, err := x.r.CallsFrom(ctx, x.f, x.next, func(e *events.Call, number uint64) bool {
		if number < x.next { // after damage, numbers may repeat
			return true
		}
		if x.live && number > x.next {
			x.deleted += number - x.next
		}
		if p := number / blockCalls; p != part || first {
			if failed = x.send(ctx, t); failed == nil {
				skip, failed = x.known(ctx, s, p, there[p])
			}
			if part, first = p, false; failed != nil {
				return false
			}
		}
		x.next = number + 1
		if skip != nil && skip.has(number%blockCalls) {
			x.existing++
			return true
		}
		x.out.room = rows.Append(x.out.room[:0], e, number)
		failed = x.out.add(x.out.room, e.Start/int64(time.Second))
		return failed == nil
	})
	if failed == nil {
		failed = err
	}
	if failed == nil {
		failed = x.send(ctx, t)
	}
	if failed != nil {
		x.next, x.deleted, x.existing = x.sent, 0, 0
	}
	x.cover(&cover)
	return failed
}

// send sends the block's calls.
func (x *copier) send(ctx context.Context, t *table) error {
	n := uint64(x.out.rows)
	if err := x.out.send(ctx, x.c, t); err != nil {
		return err
	}
	x.res.LostCalls, x.res.There = x.res.LostCalls+x.deleted, x.res.There+x.existing
	x.sent, x.deleted, x.existing = x.next, 0, 0
	if x.res.Calls += n; x.progress != nil && n > 0 {
		x.progress(x.res.Calls)
	}
	return nil
}

// cover records what could not be read. Several tables are made of the same log: damage is noted once.
func (x *copier) cover(c *query.Coverage) {
	if x.live { // each pass reads the damaged part again
		return
	}
	add := *c
	add.Damage = nil
	for _, d := range c.Damage {
		if !slices.Contains(x.res.Coverage.Damage, d) && !slices.Contains(add.Damage, d) {
			add.Damage = append(add.Damage, d)
		}
	}
	x.res.Coverage.Add(add)
}

// counts returns how many calls the cluster has of each block of a session.
func (x *copier) counts(ctx context.Context, s *query.Session) (map[uint64]uint64, error) {
	rows, err := x.c.query(ctx, 2, "SELECT intDiv(number, %d) AS part, count() FROM %s.calls WHERE session = %s GROUP BY part",
		blockCalls, quoteName(x.c.o.Database), quote(s.ID))
	out := map[uint64]uint64{}
	for _, r := range rows {
		n, err := naturals(r[0], r[1])
		if err != nil {
			return nil, err
		}
		out[n[0]] = n[1]
	}
	return out, err
}

// known returns which calls of a block the cluster has, nil for none.
func (x *copier) known(ctx context.Context, s *query.Session, part, count uint64) (*numbers, error) {
	if count == 0 {
		return nil, nil
	}
	rows, err := x.c.query(ctx, 1, "SELECT number FROM %s.calls WHERE session = %s AND number >= %d AND number < %d",
		quoteName(x.c.o.Database), quote(s.ID), part*blockCalls, (part+1)*blockCalls)
	if err != nil {
		return nil, err
	}
	out := &numbers{}
	for _, r := range rows {
		n, err := naturals(r[0])
		if err != nil {
			return nil, err
		}
		out.set(n[0] % blockCalls)
	}
	return out, nil
}
