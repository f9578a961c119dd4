package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ingero/internal/config"
	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
	"ingero/internal/wire"
)

// makeTables is the remedy for a cluster without ingero's tables.
const makeTables = "create the tables with the statements in deploy/clickhouse; allow ingero's user to read and insert"

// copyToClickHouse copies the selected calls, sums and chains to a cluster.
func (e *Env) copyToClickHouse(ctx context.Context, c *config.Config, o exportOptions) (err error) {
	to := cmp.Or(o.output, c.Trace.ClickHouse)
	if to == "" {
		return usage("ingero export --format clickhouse -o http://ch-1:8123", "no ClickHouse URL given")
	}
	cluster, err := clickhouse.Open(to, clickhouse.Options{Log: e.logger(c.Debug)})
	if err != nil {
		return usage("ingero export --format clickhouse -o http://ch-1:8123", "%v", err)
	}
	defer cluster.Close()
	f, at, err := o.filter(e.now(o.utc))
	if err != nil {
		return err
	}
	r, end, err := e.readOrGather(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := at.anchorFilter(ctx, r, &f); err != nil {
		return o.problem(r.Path(), err)
	}
	p := e.progress()
	res, err := clickhouse.Copy(ctx, cluster, r, f, p.calls)
	p.end()
	var no *clickhouse.Refused
	switch {
	case errors.As(err, &no):
		return &problem{What: no.Error(), Do: makeTables, Err: err}
	case err != nil && cluster.Problem() != "":
		return &problem{What: "the copy is incomplete: " + err.Error(), Do: "run the command again: it continues where it stopped", Err: err}
	case err != nil:
		return o.problem(r.Path(), err)
	}
	fmt.Fprintf(e.Stderr, "Wrote %s, %s of sums and %s to %s", counted(res.Calls, "call"), counted(res.Rollups, "row"), counted(res.Chains, "chain"), cluster)
	if res.Requests+res.Reads+res.Labels > 0 {
		fmt.Fprintf(e.Stderr, "; also %s, %s of inference servers' metrics and %s", counted(res.Requests, "request"), counted(res.Reads, "read"), counted(res.Labels, "label"))
	}
	if res.There > 0 {
		fmt.Fprintf(e.Stderr, "; %s already existed", counted(res.There, "call"))
	}
	fmt.Fprintln(e.Stderr, ".")
	for _, n := range coverageNotes(&res.Coverage) {
		fmt.Fprintf(e.Stderr, "Note: %s\n", oneLine(n))
	}
	return nil
}

// followToClickHouse copies a trace's recording to a cluster while the trace writes it.
func followToClickHouse(_ context.Context, x *exports, c *config.Config) error {
	if c.Trace.ClickHouse == "" {
		return nil
	}
	if !c.Trace.Record {
		return usage("remove --record=false or --clickhouse", "--clickhouse copies the recording, but --record=false disables recording")
	}
	cluster, err := clickhouse.Open(c.Trace.ClickHouse, clickhouse.Options{Log: x.log})
	if err != nil {
		return usage("ingero trace --clickhouse http://ch-1:8123", "--clickhouse: %v", err)
	}
	opened := time.Now() // in a container, each trace may have the same PID
	mine := func(s *query.Session) bool {
		return s.PID == os.Getpid() && s.Node == c.Node && !s.Started.Before(opened)
	}
	f := clickhouse.Follow(cluster, clickhouse.FollowOptions{Path: c.DB, Mine: mine})
	x.states = append(x.states, func() []wire.Export {
		now := f.State()
		state := wire.Export{Name: "clickhouse", To: cluster.String(), Sent: now.Calls, Problem: now.Problem}
		if now.LostCalls > 0 {
			state.Lost = map[string]uint64{"removed": now.LostCalls}
		}
		return []wire.Export{state}
	})
	x.onClose = append(x.onClose, func() error {
		err := f.Close()
		s := f.State()
		x.say(fmt.Sprintf("ClickHouse has %s of this recording", counted(s.Calls, "call")))
		if s.LostCalls > 0 {
			x.say(fmt.Sprintf("ingero: %s were removed before they were copied to ClickHouse; to keep more, raise --max-db", counted(s.LostCalls, "call")))
		}
		if !s.Complete {
			x.say("ingero: the recording in ClickHouse is incomplete: " + oneLine(s.Problem) + ". To copy the rest: ingero export --format clickhouse")
		}
		return err
	})
	x.say("Copying recordings to ClickHouse: " + cluster.String())
	return nil
}
