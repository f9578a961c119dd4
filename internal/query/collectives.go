package query

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/track"
	"ingero/pkg/events"
)

// keptEntered is how many of a rank's collectives are returned, the latest.
const keptEntered = 1024

// RankLog lists the collectives that a rank of an NCCL communicator has entered, if they can be
// numbered. They cannot if the rank existed before the trace, has operations other than
// collectives, or lacks records of some calls.
type RankLog struct {
	Session *Session
	Comm    string // the id that its ranks share
	Rank    int32  // below 0: unknown
	Ranks   uint32 // 0: unknown
	PID     uint32
	State   string    // "active", ...
	Ended   time.Time // end of the process; zero: it is alive, or unknown
	Done    uint64    // number of collectives entered
	Entries []Entered // the last of them in the window, in order
}

// Entered is a rank's entry into a collective.
type Entered struct {
	Seq  uint64 // number in its communicator, from 1
	Op   events.Op
	Time int64 // Unix ns
}

// rankKey identifies a rank by its calls.
type rankKey struct {
	pid    uint32
	handle uint64
}

// ranked is a rank with the state for numbering its calls.
type ranked struct {
	RankLog
	began, ended int64 // the communicator's, Unix ns
	last         int64 // time of entering collective number Done
	calls        []Entered
}

// Collectives returns the collectives that ranks entered in the filter's window, ordered by
// communicator, rank and process.
func (r *Reader) Collectives(ctx context.Context, f Filter) ([]RankLog, error) {
	var out []RankLog
	err := r.eachSession(ctx, f, func(s *Session, _, to int64) error {
		ranks, err := r.ranks(ctx, s, &f)
		if err != nil || len(ranks) == 0 {
			return err
		}
		if err := r.entered(ctx, s, f, ranks); err != nil {
			return err
		}
		for _, all := range ranks {
			for _, x := range all {
				x.number(to)
				out = append(out, x.RankLog)
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b RankLog) int {
		return cmp.Or(cmp.Compare(a.Comm, b.Comm), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.PID, b.PID))
	})
	return out, err
}

// ranks returns a session's ranks whose collectives can be numbered.
func (r *Reader) ranks(ctx context.Context, s *Session, f *Filter) (map[rankKey][]*ranked, error) {
	out := map[rankKey][]*ranked{}
	err := r.rows(ctx, func(rows *sql.Rows) error {
		x := &ranked{RankLog: RankLog{Session: s, Rank: -1}}
		var handle int64
		var rank, size, end, ended sql.NullInt64
		var sequence, failed uint64
		err := rows.Scan(&x.PID, &handle, &x.Comm, &rank, &size, &x.State, &x.began, &end, &sequence, &failed, &x.last, &ended)
		if err != nil || !f.wants(x.PID) {
			return err
		}
		if rank.Valid {
			x.Rank = int32(rank.Int64)
		}
		x.Ranks, x.Ended, x.ended, x.Done = uint32(size.Int64), null(ended), math.MaxInt64, sequence-min(failed, sequence)
		if end.Valid {
			x.ended = end.Int64
		}
		k := rankKey{x.PID, uint64(handle)}
		out[k] = append(out[k], x)
		return nil
	}, `SELECT c.pid, c.handle, c.id, c.rank, c.ranks, c.state, c.began_ns, c.ended_ns, c.sequence, c.failed, c.last_ns, p.ended_ns
		FROM comms c LEFT JOIN processes p ON p.session = c.session AND p.pid = c.pid
		WHERE c.session = ?1 AND c.id IS NOT NULL AND c.began_ns IS NOT NULL AND c.last_ns IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM ops o WHERE o.session = ?1 AND o.pid = c.pid AND o.source = 'nccl' AND (o.thinned = 1 OR o.op IN (`+pairs+`)))`, s.id)
	if err != nil {
		return nil, fmt.Errorf("read the communicators of session %s: %w", s.ID, err)
	}
	return out, nil
}

// pairs are the operations that not all ranks enter, for SQL. If a process makes these too, its
// number of collectives is unknown.
var pairs = func() string {
	list := []string{"-1"}
	for i := range events.Catalog {
		if op := events.Catalog[i].Op; track.Pairs(op) {
			list = append(list, strconv.Itoa(int(op)))
		}
	}
	return strings.Join(list, ", ")
}()

// entered adds the ranks' calls from the window's start to the session's end, for numbering.
func (r *Reader) entered(ctx context.Context, s *Session, f Filter, ranks map[rankKey][]*ranked) error {
	f.Session, f.Ops, f.To = s.ID, nil, time.Time{}
	for i := range events.Catalog {
		if op := events.Catalog[i].Op; track.Meets(op) {
			f.Ops = append(f.Ops, op)
		}
	}
	_, err := r.scan(ctx, s, f, 0, func(c *events.Call, _ uint64) bool {
		handle, ok := c.Value(events.RoleComm)
		if !ok || c.Flags&(events.CallFailed|events.CallNested) != 0 {
			return true
		}
		for _, x := range ranks[rankKey{c.PID, handle}] {
			if c.Start >= x.began && c.Start <= x.ended {
				x.calls = append(x.calls, Entered{Op: c.Op, Time: c.Start})
			}
		}
		return true
	})
	return err
}

// number numbers the calls relative to the communicator's state, and drops those from time to on.
func (x *ranked) number(to int64) {
	slices.SortStableFunc(x.calls, func(a, b Entered) int { return cmp.Compare(a.Time, b.Time) })
	anchor := slices.IndexFunc(x.calls, func(e Entered) bool { return e.Time > x.last })
	if anchor < 0 {
		anchor = len(x.calls)
	}
	done := x.Done
	for i := range x.calls {
		seq := int64(x.Done) + int64(i) - int64(anchor) + 1
		if seq < 1 { // more than possible
			continue
		}
		x.calls[i].Seq = uint64(seq)
		done = max(done, uint64(seq))
		if x.calls[i].Time < to {
			x.Entries = append(x.Entries, x.calls[i])
		}
	}
	x.Done = done
	x.Entries = x.Entries[max(0, len(x.Entries)-keptEntered):]
}
