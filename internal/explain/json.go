package explain

import (
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
)

// The JSON types shared by the report and the ticks. Names are stable; durations are nanoseconds,
// sizes bytes, times RFC 3339 in UTC.

type processJSON struct {
	PID      uint32    `json:"pid"`
	PPID     uint32    `json:"ppid,omitempty"`
	NSPID    uint32    `json:"ns_pid,omitempty"` // in its own PID namespace
	UID      uint32    `json:"uid"`
	Comm     string    `json:"comm,omitempty"`
	Exe      string    `json:"exe,omitempty"`
	Cgroup   string    `json:"cgroup,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Mapped   time.Time `json:"mapped,omitzero"`            // its first CUDA library
	Attached time.Time `json:"attached,omitzero"`          // earlier calls were not seen
	Counted  bool      `json:"launches_counted,omitempty"` // currently counted, not timed
	tick.Where
}

func processOf(p *tick.Process) processJSON {
	return processJSON{
		PID: p.PID, PPID: p.PPID, NSPID: p.NSPID, UID: p.UID, Comm: clean(p.Comm), Exe: clean(p.Exe), Cgroup: clean(p.Cgroup),
		Started: p.Started.UTC(), Ended: p.Ended.UTC(), Mapped: p.Mapped.UTC(), Attached: p.Attached.UTC(), Where: p.Where.Map(clean),
		Counted: p.Counted,
	}
}

// opJSON is one operation. calls = done + unmeasured + abandoned + open. The times cover the done
// calls, and are absent if there are none. total_ns = on_cpu_ns + runnable_ns + throttled_ns +
// blocked_ns + partial_ns; partial_ns is either on a CPU or blocked. self_ns is the time outside
// nested traced calls, outer_ns the time of outermost calls.
type opJSON struct {
	PID         uint32  `json:"pid,omitempty"` // in ticks; a report has it per process
	Source      string  `json:"source"`
	Op          string  `json:"op"`
	Class       string  `json:"class"`
	Function    string  `json:"function,omitempty"`    // if launches are listed by GPU function
	Symbol      string  `json:"symbol,omitempty"`      // linker name
	NoFunction  string  `json:"no_function,omitempty"` // reason of a missing name
	Calls       uint64  `json:"calls"`
	Done        uint64  `json:"done"`
	Errors      uint64  `json:"errors"`
	Nested      uint64  `json:"nested"`
	Unmeasured  uint64  `json:"unmeasured"`
	Abandoned   uint64  `json:"abandoned"`
	Open        uint64  `json:"open"`
	TotalNS     *uint64 `json:"total_ns,omitempty"`
	OnCPUNS     *uint64 `json:"on_cpu_ns,omitempty"`
	RunnableNS  *uint64 `json:"runnable_ns,omitempty"`
	ThrottledNS *uint64 `json:"throttled_ns,omitempty"` // absent: none
	BlockedNS   *uint64 `json:"blocked_ns,omitempty"`
	PartialNS   *uint64 `json:"partial_ns,omitempty"`
	SelfNS      *uint64 `json:"self_ns,omitempty"`
	OuterNS     *uint64 `json:"outer_ns,omitempty"`
	P50NS       *int64  `json:"p50_ns,omitempty"`
	P95NS       *int64  `json:"p95_ns,omitempty"`
	P99NS       *int64  `json:"p99_ns,omitempty"`
	MaxNS       *int64  `json:"max_ns,omitempty"`
	// QuantileError is the largest relative error of the quantiles.
	QuantileError float64   `json:"quantile_error,omitempty"`
	Thinned       bool      `json:"thinned,omitempty"`
	LowerBound    bool      `json:"lower_bound,omitempty"` // incomplete count
	Last          *lastJSON `json:"last,omitempty"`        // in ticks: this tick's share
}

// opOf fills in an operation's sums and distribution.
func opOf(o *tick.Op, c *tick.Counts, dur *stats.Sketch) opJSON {
	j := opJSON{
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
func partsOfCalls(j *opJSON) split {
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

type dropJSON struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
	Lost   bool   `json:"lost"` // data is missing
}

func dropsOf(drops []tick.Drop) []dropJSON {
	out := []dropJSON{}
	for _, d := range drops {
		if d.Count > 0 {
			out = append(out, dropJSON{Reason: d.Reason, Count: d.Count, Lost: isLoss(d.Reason)})
		}
	}
	return out
}

type reportJSON struct {
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Why    string `json:"why"`
}

func reportsOf(reports []tick.Report) []reportJSON {
	out := []reportJSON{}
	for _, r := range reports {
		out = append(out, reportJSON{Kind: r.Kind, Object: clean(r.Object), Why: clean(r.Why)})
	}
	return out
}

type hostJSON struct {
	CPU       float64    `json:"cpu"` // busy share, 0-1
	CPUs      int        `json:"cpus"`
	MemTotal  int64      `json:"mem_total_bytes"`
	MemAvail  int64      `json:"mem_available_bytes"`
	SwapTotal int64      `json:"swap_total_bytes"`
	SwapUsed  int64      `json:"swap_used_bytes"`
	Load      [3]float64 `json:"load"` // over 1, 5 and 15 minutes
}

func hostOf(h *tick.Host) hostJSON {
	return hostJSON{CPU: h.CPU, CPUs: h.CPUs, MemTotal: h.MemTotal, MemAvail: h.MemAvail, SwapTotal: h.SwapTotal, SwapUsed: h.SwapUsed, Load: h.Load}
}

// overheadJSON is the cost of tracing: shares of the time of the traced processes.
type overheadJSON struct {
	Budget      float64  `json:"budget"`
	Share       float64  `json:"share"`
	Probes      float64  `json:"probes"`
	Stacks      float64  `json:"stacks"`
	Agent       float64  `json:"agent"`
	Tracepoints float64  `json:"tracepoints"`
	Shed        []string `json:"shed"` // active shedding levels
	// Floor is the minimum cost of probes, set if budget is below it, or if no level is left that
	// helps.
	Floor *floorJSON `json:"floor,omitempty"`
}

type floorJSON struct {
	Share   float64 `json:"share"`
	Rate    float64 `json:"calls_per_second"`
	ProbeNS int64   `json:"probe_ns"` // per call
}

// overheadOf returns nil if there is no limit.
func overheadOf(o *tick.Overhead) *overheadJSON {
	if !(o.Budget > 0) {
		return nil
	}
	j := &overheadJSON{Budget: o.Budget, Share: o.Share, Probes: o.Probes, Stacks: o.Stacks, Agent: o.Agent, Tracepoints: o.Tracepoints, Shed: append([]string{}, o.Shed...)}
	if f := &o.Floor; f.Share > 0 {
		j.Floor = &floorJSON{f.Share, f.Rate, f.Probe.Nanoseconds()}
	}
	return j
}

type selfJSON struct {
	CPUNS int64 `json:"cpu_ns"` // since the session began
	RSS   int64 `json:"rss_bytes"`
}

func selfOf(s *tick.Self) selfJSON { return selfJSON{CPUNS: s.CPU.Nanoseconds(), RSS: s.RSS} }
