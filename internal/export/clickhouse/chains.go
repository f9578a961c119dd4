package clickhouse

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"ingero/internal/query"
	"ingero/internal/tick"
)

// withdrawn is the severity of a chain that more data showed to be no loss.
const withdrawn = "WITHDRAWN"

// cause is a chain as the cluster has it, with what a row that withdraws it needs.
type cause struct {
	version  uint64
	lost     int64
	severity string
	from, to int64 // Unix ns
	rule, op string
	pid, tid uint32
}

// chains sends new and changed causes, and withdraws those that the recording no longer has.
func (x *copier) chains(ctx context.Context, s *query.Session) error {
	all, err := x.r.Chains(ctx, query.Filter{Session: x.f.Session})
	if err != nil {
		return err
	}
	selected, err := x.selected(ctx)
	if err != nil {
		return err
	}
	if err := x.existingCauses(ctx, s); err != nil {
		return err
	}
	x.out.clear()
	sent := map[string]cause{}
	add := func(c *tick.Chain, now *cause) error {
		was := x.causes[c.ID]
		if now.version = max(uint64(now.to), was.version); now.version == was.version {
			now.version++ // a chain that was withdrawn may come back unchanged
		}
		sent[c.ID] = *now
		x.out.room = appendChain(x.out.room[:0], s, c, now)
		return x.out.add(x.out.room, now.from/int64(time.Second))
	}
	for i := range all {
		c := &all[i]
		if selected != nil && !selected[c.ID] {
			continue
		}
		now := causeOf(s, c)
		if was, known := x.causes[c.ID]; known && was.to == now.to && was.lost == now.lost && was.severity == now.severity {
			continue
		}
		if err := add(c, &now); err != nil {
			return err
		}
	}
	gone, err := x.gone(ctx, s, all)
	if err != nil {
		return err
	}
	for _, id := range gone {
		now := x.causes[id]
		now.severity, now.lost = withdrawn, 0
		if err := add(&tick.Chain{ID: id}, &now); err != nil {
			return err
		}
	}
	if err := x.out.send(ctx, x.c, tableNamed("chains")); err != nil {
		return err
	}
	for id, state := range sent {
		x.causes[id] = state
	}
	x.res.Chains += uint64(len(sent))
	return nil
}

// existingCauses queries the chains that the cluster has of a session, once. While a trace runs, the
// cluster has what was sent.
func (x *copier) existingCauses(ctx context.Context, s *query.Session) error {
	if x.live || x.settled {
		return nil
	}
	rows, err := x.c.query(ctx, 10, "SELECT id, max(version), argMax(lost_ns, version), argMax(from_ns, version), argMax(to_ns, version), argMax(pid, version), "+
		"argMax(tid, version), argMax(severity, version), argMax(rule, version), argMax(op, version) FROM %s.chains WHERE session = %s GROUP BY id", quoteName(x.c.o.Database), quote(s.ID))
	if err != nil {
		return err
	}
	for _, r := range rows {
		n, err := naturals(r[1:7]...)
		if err != nil {
			return err
		}
		x.causes[r[0]] = cause{version: n[0], lost: int64(n[1]), from: int64(n[2]), to: int64(n[3]), pid: uint32(n[4]), tid: uint32(n[5]), severity: r[7], rule: r[8], op: r[9]}
	}
	x.settled = true
	return nil
}

// selected returns the IDs of the chains that the filter selects; nil: all. If only an earlier
// episode of a chain overlaps the filter's window, the reader lists the chain as it was then. The
// cluster gets its last state.
func (x *copier) selected(ctx context.Context) (map[string]bool, error) {
	if x.f.From.IsZero() && x.f.To.IsZero() && len(x.f.PIDs) == 0 {
		return nil, nil
	}
	list, err := x.r.Chains(ctx, x.f)
	return idsOf(list), err
}

func idsOf(list []tick.Chain) map[string]bool {
	ids := make(map[string]bool, len(list))
	for i := range list {
		ids[list[i].ID] = true
	}
	return ids
}

// gone returns the chains of the cluster that the recording withdrew, in order. all are those of the
// recording. It also lacks chains that retention deleted: these stay in the cluster.
func (x *copier) gone(ctx context.Context, s *query.Session, all []tick.Chain) (out []string, err error) {
	if len(all) == 0 && !x.live { // a repair can lose all chains
		return nil, nil
	}
	kept, err := x.r.ChainsKept(ctx, s) // after all were read: none of these deletions is missed
	if err != nil {
		return nil, err
	}
	ids := idsOf(all)
	for id, c := range x.causes {
		deleted := c.to != 0 && time.Unix(0, c.to).Before(kept)
		if !ids[id] && !deleted && c.severity != withdrawn {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}

// causeOf returns what a chain's row has, except for its version.
func causeOf(s *query.Session, c *tick.Chain) cause {
	now := cause{lost: int64(c.Lost), severity: c.Severity.String(), from: s.Started.UnixNano(), rule: c.Rule, pid: c.PID, tid: c.TID}
	if c.Op != 0 {
		now.op = c.Op.String()
	}
	if !c.From.IsZero() {
		now.from = c.From.UnixNano()
	}
	if !c.To.IsZero() {
		now.to = c.To.UnixNano()
	}
	return now
}

// appendChain appends a row in the order of the table's columns.
func appendChain(b []byte, s *query.Session, c *tick.Chain, now *cause) []byte {
	b = appendText(appendText(appendText(b, s.ID), s.Node), c.ID)
	b = binary.LittleEndian.AppendUint64(b, now.version)
	b = appendText(appendText(b, now.rule), now.severity)
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, now.pid), now.tid)
	b = appendText(b, now.op)
	for _, v := range [...]uint64{uint64(now.from), uint64(now.to), uint64(now.lost), math.Float64bits(c.Confidence)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return appendText(appendText(b, c.Culprit()), c.Baseline)
}
