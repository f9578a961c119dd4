package export

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"ingero/internal/query"
	"ingero/internal/tick"
)

// levels writes the counters: memory of processes, and states of GPUs and the machine.
func (t *timeline) levels(ctx context.Context, r *query.Reader, f query.Filter) error {
	err := r.MemoryLevels(ctx, f, func(x *query.MemoryLevel) error {
		track, err := t.process(x.PID)
		if err != nil {
			return err
		}
		if err := t.count(track, "GPU memory", unitBytes, x.Time, float64(x.GPU)); err != nil {
			return err
		}
		return t.count(track, "pinned host memory", unitBytes, x.Time, float64(x.Host))
	})
	if err != nil {
		return err
	}
	if err := r.GPUStates(ctx, f, t.gpu); err != nil {
		return err
	}
	machine, err := r.Snapshots(ctx, f)
	if err != nil {
		return err
	}
	for i := range machine {
		x := &machine[i]
		track, err := t.node()
		if err != nil {
			return err
		}
		if err := t.count(track, "CPU in use", unitPercent, x.Time.UnixNano(), 100*x.Host.CPU); err != nil {
			return err
		}
		if err := t.count(track, "memory available", unitBytes, x.Time.UnixNano(), float64(x.Host.MemAvail)); err != nil {
			return err
		}
	}
	return nil
}

// gpu writes the known values of a GPU at one time.
func (t *timeline) gpu(g *tick.GPU) error {
	track, err := t.node()
	if err != nil {
		return err
	}
	name := "GPU " + g.Bus
	if g.Index >= 0 {
		name = fmt.Sprintf("GPU %d", g.Index)
	}
	for _, x := range []struct {
		what  string
		unit  unit
		value float64
		known bool
	}{
		{"memory in use", unitBytes, level(g.MemUsed, 1), g.MemUsed != nil},
		{"busy", unitPercent, level(g.Busy, 100), g.Busy != nil},
		{"memory busy", unitPercent, level(g.MemBusy, 100), g.MemBusy != nil},
		{"SM clock", unitHertz, level(g.ClockSM, 1), g.ClockSM != nil},
		{"memory clock", unitHertz, level(g.ClockMem, 1), g.ClockMem != nil},
		{"temperature", unitCelsius, level(g.Temperature, 1), g.Temperature != nil},
		{"power", unitWatt, level(g.Power, 1), g.Power != nil},
	} {
		if !x.known {
			continue
		}
		if err := t.count(track, name+" "+x.what, x.unit, g.Time.UnixNano(), x.value); err != nil {
			return err
		}
	}
	return nil
}

func level[N int64 | float64](v *N, times float64) float64 {
	if v == nil {
		return 0
	}
	return float64(*v) * times
}

// chains writes the causes of lost time, each at its start.
func (t *timeline) chains(ctx context.Context, r *query.Reader, f query.Filter) error {
	all, err := r.Chains(ctx, f)
	if err != nil {
		return err
	}
	for i := range all {
		c := &all[i]
		track, err := t.process(c.PID)
		if err == nil {
			track, err = t.under(track, trackKey{node: t.s.Node, pid: c.PID, kind: trackEvents, began: int64(track.id)}, "causes of lost time", 0)
		}
		if err != nil {
			return err
		}
		at := c.From
		if at.IsZero() {
			at = t.s.Started
		}
		grade := strings.ToLower(c.Severity.String())
		m := &mark{on: track, kind: markInstant, at: at.UnixNano(), name: c.Severity.String() + " " + c.Rule, severity: c.Severity, categories: [2]string{"chain", "chain." + grade}}
		m.args = chainArgs(c)
		if err := t.w.event(m); err != nil {
			return err
		}
		t.res.Chains++
	}
	return nil
}

func chainArgs(c *tick.Chain) []arg {
	args := []arg{
		{name: "id", kind: argText, text: c.ID},
		{name: "severity", kind: argText, text: c.Severity.String()},
		{name: "lost_ns", number: int64(c.Lost)},
		{name: "slow_steps", number: int64(c.Slow)},
		{name: "confidence_percent", number: int64(100*c.Confidence + 0.5)},
	}
	if who := c.Culprit(); who != "" {
		args = append(args, arg{name: "culprit", kind: argText, text: who})
	}
	if c.Op != 0 {
		args = append(args, arg{name: "op", kind: argText, text: c.Op.String()})
	}
	if c.At != "" {
		args = append(args, arg{name: "at", kind: argText, text: c.At})
	}
	if !c.From.IsZero() && c.To.After(c.From) {
		args = append(args, arg{name: "over_ns", number: int64(c.To.Sub(c.From))})
	}
	return append(args, arg{name: "baseline", kind: argText, text: c.Baseline})
}

// faults writes the GPU faults.
func (t *timeline) faults(ctx context.Context, r *query.Reader, f query.Filter) error {
	all, err := r.Xids(ctx, f)
	if err != nil {
		return err
	}
	for i := range all {
		x := &all[i]
		track, err := t.node()
		if err == nil {
			track, err = t.under(track, trackKey{node: t.s.Node, kind: trackEvents}, "faults of GPUs", 0)
		}
		if err != nil {
			return err
		}
		kind := "Xid"
		if x.Switch {
			kind = "SXid"
		}
		m := &mark{on: track, kind: markInstant, at: x.Time, name: fmt.Sprintf("%s %d", kind, x.Code), severity: tick.High, categories: [2]string{"xid"}}
		m.args = []arg{{name: "bus", kind: argText, text: x.Device()}, {name: "message", kind: argText, text: x.Msg},
			{name: "pid", number: int64(cmp.Or(x.PID, x.SaidPID))}, {name: "burst", number: int64(x.Burst)}}
		if err := t.w.event(m); err != nil {
			return err
		}
	}
	return nil
}
