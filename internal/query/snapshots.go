package query

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Snapshot is the state of the machine and the agent at one time.
type Snapshot struct {
	Session string // ID
	Node    string
	Time    time.Time
	Host    tick.Host
	Records uint64 // calls since the session's start
	Self    tick.Self
}

// Snapshots returns the snapshots of the filter's sessions and window, one a second, ordered by
// time. It ignores the filter's processes and operations.
func (r *Reader) Snapshots(ctx context.Context, f Filter) ([]Snapshot, error) {
	var out []Snapshot
	err := r.eachSession(ctx, f, func(s *Session, from, to int64) error {
		return r.rows(ctx, func(rows *sql.Rows) error {
			x := Snapshot{Session: s.ID, Node: s.Node}
			h := &x.Host
			var ns int64
			err := rows.Scan(&ns, &h.CPU, &h.Load[0], &h.Load[1], &h.Load[2], &h.CPUs, &h.MemTotal, &h.MemAvail, &h.SwapTotal, &h.SwapUsed,
				&x.Records, &x.Self.CPU, &x.Self.RSS)
			x.Time = unixTime(ns)
			out = append(out, x)
			return err
		}, `SELECT time_ns, cpu, load1, load5, load15, cpus, mem_total, mem_avail, swap_total, swap_used, records, agent_cpu_ns, agent_rss
			FROM snapshots WHERE session = ? AND time_ns >= ? AND time_ns < ? ORDER BY time_ns`, s.id, from, to)
	})
	return out, err
}

// Notable is a call that failed or was slow.
type Notable struct {
	Session string // ID
	Number  uint64 // the call's in its session
	Why     string // "failed", "slow"
	Call    events.Call
}

// Notable returns the matching notable calls, ordered by number. They outlive the other calls. Each
// has its times, result and arguments, but not the gap before it.
func (r *Reader) Notable(ctx context.Context, f Filter) ([]Notable, error) {
	var out []Notable
	err := r.eachSession(ctx, f, func(s *Session, from, to int64) error {
		return r.rows(ctx, func(rows *sql.Rows) error {
			x := Notable{Session: s.ID}
			c := &x.Call
			var on, blocked sql.NullInt64
			var args [events.MaxArgs]int64
			err := rows.Scan(&x.Number, &x.Why, &c.Start, &c.PID, &c.TID, &c.Op, &c.Result, &c.Duration, &on, &c.Runnable, &c.Throttled, &blocked,
				&args[0], &args[1], &args[2], &args[3])
			c.Weight, c.OnCPU, c.Blocked = 1, on.Int64, blocked.Int64
			if !on.Valid {
				c.Flags |= events.CallLedgerPartial
			}
			if x.Why == "failed" {
				c.Flags |= events.CallFailed
			}
			for i, a := range args {
				c.Args[i] = uint64(a)
			}
			if f.matches(c.PID, c.Op) {
				out = append(out, x)
			}
			return err
		}, `SELECT number, why, start_ns, pid, tid, op, result, duration_ns, oncpu_ns, runnable_ns, throttled_ns, blocked_ns, arg0, arg1, arg2, arg3
			FROM notable WHERE session = ? AND start_ns >= ? AND start_ns < ? ORDER BY number`, s.id, from, to)
	})
	return out, err
}

// eachSession calls read for each session that a filter selects, oldest first.
func (r *Reader) eachSession(ctx context.Context, f Filter, read func(s *Session, from, to int64) error) error {
	sessions, err := r.Chosen(ctx, f)
	if err != nil {
		return err
	}
	from, to := bounds(f)
	for i := range sessions {
		if err := read(&sessions[i], from, to); err != nil {
			return fmt.Errorf("session %s: %w", sessions[i].ID, err)
		}
	}
	return nil
}
