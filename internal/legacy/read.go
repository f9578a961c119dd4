package legacy

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// host is the machine's state at a time, Unix ns.
type host struct {
	time int64
	tick.Host
}

// hosts reads the machine's states in a session's time. They name no machine, so with several
// machines none has any.
func (d *DB) hosts(ctx context.Context, s *session) (out []host, err error) {
	const t = "system_snapshots"
	if !d.has(t, "timestamp", "cpu_pct") {
		return nil, nil
	}
	var nodes int
	if err := d.sql.QueryRowContext(ctx, "SELECT count(DISTINCT "+d.column("events", "node", "''")+") FROM events").Scan(&nodes); err != nil || nodes > 1 {
		return nil, err
	}
	err = d.rows(ctx, func(rows *sql.Rows) error {
		h := host{Host: tick.Host{CPUs: s.cpus, MemTotal: s.mem}}
		err := rows.Scan(&h.time, &h.CPU, &h.MemAvail, &h.SwapUsed, &h.Load[0])
		h.CPU /= 100
		h.MemAvail, h.SwapUsed = h.MemAvail<<20, h.SwapUsed<<20
		out = append(out, h)
		return err
	}, "SELECT timestamp, cpu_pct, "+d.list(t, "0", "mem_avail", "swap_mb", "load_avg")+" FROM system_snapshots WHERE timestamp >= ? AND timestamp < ? ORDER BY timestamp", s.from, s.to)
	return out, err
}

// chains reads the chains of 0.9 in a session's time. It measured no loss.
func (d *DB) chains(ctx context.Context, s *session) (out []tick.Chain, err error) {
	const t = "causal_chains"
	if !d.has(t, "id", "detected_at") {
		return nil, nil
	}
	err = d.rows(ctx, func(rows *sql.Rows) error {
		var id, severity, summary, cause, why, fix, op, timeline string
		var at, p99, p50 int64
		if err := rows.Scan(&id, &at, &severity, &summary, &cause, &why, &fix, &op, &timeline, &p99, &p50); err != nil {
			return err
		}
		when := time.Unix(0, at)
		c := tick.Chain{ID: id, Rule: summary, From: when, To: when, OpP50: time.Duration(p50) * time.Microsecond, OpP99: time.Duration(p99) * time.Microsecond,
			Baseline: "ingero 0.9 found it and did not measure what was lost", Culprits: []tick.Culprit{{What: cause}}}
		for v := tick.Low; v <= tick.High; v++ {
			if strings.EqualFold(v.String(), severity) {
				c.Severity = v
			}
		}
		c.Op, _ = events.OpByName(op)
		var steps []struct{ Layer, Op, Detail string }
		var fixes []string
		if timeline != "" && json.Unmarshal([]byte(timeline), &steps) != nil {
			return fmt.Errorf("the timeline of chain %s is not readable", id)
		}
		if fix != "" && json.Unmarshal([]byte(fix), &fixes) != nil {
			fixes = []string{fix}
		}
		for _, s := range steps {
			c.Timeline = append(c.Timeline, tick.Moment{Time: when, Source: strings.ToUpper(s.Layer), Text: strings.TrimSpace(s.Op + " " + s.Detail)})
		}
		for _, text := range append([]string{why}, fixes...) {
			if text != "" {
				c.Timeline = append(c.Timeline, tick.Moment{Time: when, Source: "0.9", Text: text})
			}
		}
		out = append(out, c)
		return nil
	}, "SELECT id, detected_at, "+d.list(t, "''", "severity", "summary", "root_cause", "explanation", "recommendations", "cuda_op", "timeline")+", "+
		d.list(t, "0", "cuda_p99_us", "cuda_p50_us")+" FROM causal_chains WHERE detected_at >= ? AND detected_at < ? AND "+d.column(t, "node", "''")+" = ? ORDER BY detected_at, id",
		s.from, s.to, s.node)
	return out, err
}
