package explain

import (
	"encoding/json"
	"math"
	"time"

	"ingero/internal/diff"
	"ingero/internal/stats"
)

// diffJSON has the differences between two runs. Times are nanoseconds; values of effects are per
// step.
type diffJSON struct {
	A     diffRunJSON    `json:"a"`
	B     diffRunJSON    `json:"b"`
	Pairs []diffPairJSON `json:"pairs"`
	OnlyA []string       `json:"only_in_a"`
	OnlyB []string       `json:"only_in_b"`
}

type diffRunJSON struct {
	Path    string    `json:"path"`
	Session string    `json:"session"`
	Node    string    `json:"node"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Notes   []string  `json:"notes"`
}

type diffPairJSON struct {
	Role     string           `json:"role"`
	RoleB    string           `json:"role_b,omitempty"` // if the name differs in run B
	Program  string           `json:"program"`
	Rank     string           `json:"rank,omitempty"`
	Anchor   string           `json:"step_of,omitempty"` // the operation whose calls are the steps
	Short    bool             `json:"too_short"`
	A        diffSideJSON     `json:"a"`
	B        diffSideJSON     `json:"b"`
	Findings int              `json:"findings"`
	Step     *effectJSON      `json:"step,omitempty"`
	Parts    []effectJSON     `json:"parts"`
	Within   []effectJSON     `json:"within"`
	Counts   []effectJSON     `json:"calls_by_step"`
	Ops      []callChangeJSON `json:"ops"`
}

type diffSideJSON struct {
	PIDs     []uint32  `json:"pids"`
	From     time.Time `json:"from,omitzero"`
	To       time.Time `json:"to,omitzero"`
	Steps    uint64    `json:"steps"`
	Threads  int       `json:"threads"`
	WarmNS   int64     `json:"warm_up_ns"`
	StallsNS int64     `json:"stalls_ns"`
}

type effectJSON struct {
	Name     string   `json:"name"`
	Part     string   `json:"part,omitempty"`
	Op       string   `json:"op,omitempty"`
	Line     string   `json:"line,omitempty"`
	A        float64  `json:"a"`
	B        float64  `json:"b"`
	Delta    float64  `json:"delta"`
	Relative *float64 `json:"relative,omitempty"` // delta relative to a; for parts, relative to the step
	Low      *float64 `json:"low,omitempty"`      // 95 % confidence bounds of delta
	High     *float64 `json:"high,omitempty"`
	P        float64  `json:"p"`
	Margin   float64  `json:"margin"`
	Found    bool     `json:"found"`
}

type callChangeJSON struct {
	Op    string     `json:"op"`
	A     callOfJSON `json:"a"`
	B     callOfJSON `json:"b"`
	Found int        `json:"findings"`
}

type callOfJSON struct {
	Calls  uint64  `json:"calls"`
	ByStep float64 `json:"calls_by_step"`
	TimeNS float64 `json:"ns_by_step"`
	P50NS  int64   `json:"p50_ns,omitempty"`
	P99NS  int64   `json:"p99_ns,omitempty"`
}

func effectOf(e *diff.Effect, by float64) effectJSON {
	j := effectJSON{Name: diffName(&e.Key), A: e.A, B: e.B, Delta: e.Delta(), P: e.P, Margin: e.Margin, Found: e.Found, Line: clean(e.Line)}
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

func effectsOf(list []diff.Effect, by func(*diff.Effect) float64) []effectJSON {
	out := []effectJSON{}
	for i := range list {
		out = append(out, effectOf(&list[i], by(&list[i])))
	}
	return out
}

// DiffJSON is [Diff] as JSON, with full precision.
func DiffJSON(r *diff.Result) ([]byte, error) {
	j := diffJSON{A: diffRunOf(r.A), B: diffRunOf(r.B), Pairs: []diffPairJSON{}, OnlyA: rolesOf(r.OnlyA), OnlyB: rolesOf(r.OnlyB)}
	for i := range r.Pairs {
		p := &r.Pairs[i]
		step := func(*diff.Effect) float64 { return p.Step.A }
		x := diffPairJSON{
			Role: clean(p.RoleA.String()), Program: clean(p.RoleA.Program), Rank: p.RoleA.Rank, Short: p.Short, Findings: p.Findings(),
			A: diffSideOf(&p.A), B: diffSideOf(&p.B), Parts: effectsOf(p.Parts, step), Within: effectsOf(p.Within, step),
			Counts: effectsOf(p.Counts, func(e *diff.Effect) float64 { return e.A }), Ops: []callChangeJSON{},
		}
		if p.RoleB != p.RoleA {
			x.RoleB = clean(p.RoleB.String())
		}
		if p.Anchor != 0 {
			x.Anchor, x.Step = p.Anchor.String(), new(effectOf(&p.Step, p.Step.A))
		}
		for _, c := range p.Calls {
			x.Ops = append(x.Ops, callChangeJSON{c.Op.String(), callOf(c.A, c.OncesA, c.TimeA, c.DurA), callOf(c.B, c.OncesB, c.TimeB, c.DurB), c.Findings})
		}
		j.Pairs = append(j.Pairs, x)
	}
	b, err := json.MarshalIndent(&j, "", "  ")
	return append(b, '\n'), err
}

func callOf(calls uint64, byStep, ns float64, dur *stats.Sketch) callOfJSON {
	j := callOfJSON{Calls: calls, ByStep: byStep, TimeNS: ns}
	if dur.Count() > 0 {
		j.P50NS, j.P99NS = dur.Quantile(0.5), dur.Quantile(0.99)
	}
	return j
}

func diffRunOf(r *diff.Run) diffRunJSON {
	j := diffRunJSON{Path: clean(r.Path), Session: r.Session.ID, Node: clean(r.Session.Node), From: r.From.UTC(), To: r.To.UTC(), Notes: []string{}}
	j.Notes = append(j.Notes, diffRemarks(r)...)
	return j
}

func diffSideOf(s *diff.Side) diffSideJSON {
	j := diffSideJSON{PIDs: s.PIDs, Steps: s.Steps, Threads: s.Threads, WarmNS: int64(s.Warm), StallsNS: int64(s.Stalls)}
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
