package explain

import (
	"math"

	"ingero/internal/diff"
	"ingero/internal/stats"
	"ingero/internal/wire"
)

func effectOf(e *diff.Effect, by float64) wire.Effect {
	j := wire.Effect{Name: diffName(&e.Key), A: e.A, B: e.B, Delta: e.Delta(), P: e.P, Margin: e.Margin, Found: e.Found, Line: clean(e.Line)}
	if e.Kind != diff.KindCount {
		j.Part = e.Part.String()
	}
	if e.Op != 0 {
		j.Op = e.Op.String()
	}
	if by > 0 {
		j.Relative = new(e.Delta() / by)
	}
	if !math.IsInf(e.Low, 0) {
		j.Low, j.High = new(e.Low), new(e.High)
	}
	return j
}

func effectsOf(list []diff.Effect, by func(*diff.Effect) float64) []wire.Effect {
	out := []wire.Effect{}
	for i := range list {
		out = append(out, effectOf(&list[i], by(&list[i])))
	}
	return out
}

// BuildDiff returns the content of [Diff], with full precision.
func BuildDiff(r *diff.Result) *wire.Diff {
	j := &wire.Diff{A: diffRunOf(r.A), B: diffRunOf(r.B), Pairs: []wire.DiffPair{}, OnlyA: rolesOf(r.OnlyA), OnlyB: rolesOf(r.OnlyB)}
	for i := range r.Pairs {
		p := &r.Pairs[i]
		step := func(*diff.Effect) float64 { return p.Step.A }
		x := wire.DiffPair{
			Role: clean(p.RoleA.String()), Program: clean(p.RoleA.Program), Rank: p.RoleA.Rank, Short: p.Short, Findings: p.Findings(),
			A: diffSideOf(&p.A), B: diffSideOf(&p.B), Parts: effectsOf(p.Parts, step), Within: effectsOf(p.Within, step),
			Counts: effectsOf(p.Counts, func(e *diff.Effect) float64 { return e.A }), Ops: []wire.CallChange{},
		}
		if p.RoleB != p.RoleA {
			x.RoleB = clean(p.RoleB.String())
		}
		if p.Anchor != 0 {
			x.Anchor, x.Step = p.Anchor.String(), new(effectOf(&p.Step, p.Step.A))
		}
		for _, c := range p.Calls {
			x.Ops = append(x.Ops, wire.CallChange{Op: c.Op.String(), A: callOf(c.A, c.OncesA, c.TimeA, c.DurA), B: callOf(c.B, c.OncesB, c.TimeB, c.DurB), Found: c.Findings})
		}
		j.Pairs = append(j.Pairs, x)
	}
	return j
}

func callOf(calls uint64, byStep, ns float64, dur *stats.Sketch) wire.CallSums {
	j := wire.CallSums{Calls: calls, ByStep: byStep, TimeNS: ns}
	if dur.Count() > 0 {
		j.P50NS, j.P99NS = dur.Quantile(0.5), dur.Quantile(0.99)
	}
	return j
}

func diffRunOf(r *diff.Run) wire.DiffRun {
	j := wire.DiffRun{Path: clean(r.Path), Session: r.Session.ID, Node: clean(r.Session.Node), From: r.From.UTC(), To: r.To.UTC(), Notes: []string{}}
	j.Notes = append(j.Notes, diffRemarks(r)...)
	return j
}

func diffSideOf(s *diff.Side) wire.DiffSide {
	j := wire.DiffSide{PIDs: s.PIDs, Steps: s.Steps, Threads: s.Threads, WarmNS: int64(s.Warm), StallsNS: int64(s.Stalls)}
	if !s.From.IsZero() {
		j.From, j.To = s.From.UTC(), s.To.UTC()
	}
	return j
}

func rolesOf(list []diff.Role) []string {
	out := []string{}
	for _, r := range list {
		out = append(out, clean(r.String()))
	}
	return out
}
