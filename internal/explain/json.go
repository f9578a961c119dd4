package explain

import (
	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

func processOf(p *tick.Process) wire.Process {
	return wire.Process{
		PID: p.PID, PPID: p.PPID, NSPID: p.NSPID, UID: p.UID, Comm: clean(p.Comm), Exe: clean(p.Exe), Cgroup: clean(p.Cgroup),
		Started: p.Started.UTC(), Ended: p.Ended.UTC(), Mapped: p.Mapped.UTC(), Attached: p.Attached.UTC(), Where: p.Where.Map(clean),
		Counted: p.Counted,
	}
}

// opOf fills in an operation's sums and distribution.
func opOf(o *tick.Op, c *tick.Counts, dur *stats.Sketch) wire.Op {
	j := wire.Op{
		Source: o.Op.Source().String(), Op: o.Op.String(), Class: classOf(o.Op).String(),
		Calls: c.Calls, Done: c.Done, Errors: c.Errors, Nested: c.Nested,
		Unmeasured: c.Unmeasured, Abandoned: c.Abandoned, Open: open(c), Thinned: o.Thinned,
	}
	if c.Done > 0 {
		s := splitOf(c)
		j.TotalNS, j.OnCPUNS, j.RunnableNS, j.BlockedNS = &s.total, &s.onCPU, &s.runnable, &s.blocked
		j.PartialNS, j.SelfNS = &s.partial, new(own(c))
		if s.throttled > 0 {
			j.ThrottledNS = &s.throttled
		}
	}
	if q := quantilesOf(dur, o.Hist, o.Thinned); q.known {
		j.P50NS, j.P95NS, j.P99NS, j.MaxNS = &q.p50, &q.p95, &q.p99, &q.max
		j.QuantileError = q.err
	}
	return j
}

// partsOfCalls returns the time of an operation's done calls; zero without any.
func partsOfCalls(j *wire.Op) split {
	if j.Done == 0 {
		return split{}
	}
	s := split{total: *j.TotalNS, onCPU: *j.OnCPUNS, runnable: *j.RunnableNS, blocked: *j.BlockedNS, partial: *j.PartialNS}
	if j.ThrottledNS != nil {
		s.throttled = *j.ThrottledNS
	}
	return s
}

// quantiles are the quantiles of an operation's durations, in nanoseconds.
type quantiles struct {
	p50, p95, p99, max int64
	err                float64 // largest relative error
	known              bool
}

// coarse reports whether they come from the kernel's histogram.
func (q *quantiles) coarse() bool { return q.known && q.err > stats.SketchError }

// text formats one of the quantiles.
func (q *quantiles) text(ns int64) string {
	if !q.known {
		return unknown
	}
	return quantileText(&ns, q.err)
}

// quantilesOf takes quantiles from the records, or, if records are missing, from the kernel's
// coarser histogram of all calls.
func quantilesOf(dur *stats.Sketch, hist *stats.Hist, thinned bool) quantiles {
	from := func(at func(float64) int64, err float64) quantiles {
		return quantiles{p50: at(0.50), p95: at(0.95), p99: at(0.99), max: at(1), err: err, known: true}
	}
	seen := dur != nil && dur.Count() > 0
	if (thinned || !seen) && hist != nil && hist.Count() > 0 {
		return from(hist.Quantile, stats.HistError)
	}
	if seen {
		return from(dur.Quantile, stats.SketchError)
	}
	return quantiles{}
}

func dropsOf(drops []tick.Drop) []wire.Drop {
	out := []wire.Drop{}
	for _, d := range drops {
		if d.Count > 0 {
			out = append(out, wire.Drop{Reason: d.Reason, Count: d.Count, Lost: isLoss(d.Reason)})
		}
	}
	return out
}

func reportsOf(reports []tick.Report) []wire.Limitation {
	out := []wire.Limitation{}
	for _, r := range reports {
		out = append(out, wire.Limitation{Kind: r.Kind, Object: clean(r.Object), Why: clean(r.Why)})
	}
	return out
}

func hostOf(h *tick.Host) wire.Host {
	return wire.Host{CPU: h.CPU, CPUs: h.CPUs, MemTotal: h.MemTotal, MemAvail: h.MemAvail, SwapTotal: h.SwapTotal, SwapUsed: h.SwapUsed, Load: h.Load}
}

// overheadOf returns nil if there is no limit.
func overheadOf(o *tick.Overhead) *wire.Overhead {
	if !(o.Budget > 0) {
		return nil
	}
	j := &wire.Overhead{Budget: o.Budget, Share: o.Share, Probes: o.Probes, Stacks: o.Stacks, Agent: o.Agent, Tracepoints: o.Tracepoints, Shed: append([]string{}, o.Shed...)}
	if f := &o.Floor; f.Share > 0 {
		j.Floor = &wire.Floor{Share: f.Share, Rate: f.Rate, ProbeNS: f.Probe.Nanoseconds()}
	}
	return j
}

func selfOf(s *tick.Self) wire.Self { return wire.Self{CPUNS: s.CPU.Nanoseconds(), RSS: s.RSS} }
