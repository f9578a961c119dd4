package explain

import (
	"encoding/json"
	"testing"
	"time"

	"ingero/internal/diff"
	"ingero/internal/query"
	"ingero/internal/stats"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
)

// diffResult compares two runs of a trainer: in the second, a program takes the CPU, and batches
// come in ten times as many copies.
func diffResult() *diff.Result {
	at := time.Date(2026, 11, 20, 15, 41, 0, 0, time.UTC)
	run := func(path string, later time.Duration) *diff.Run {
		return &diff.Run{Path: path, Session: query.Session{Session: segment.Session{ID: "one", Node: "gpu-7"}}, From: at.Add(later), To: at.Add(later + 5*time.Minute)}
	}
	syn, copies := testkit.Op("cudaStreamSynchronize"), testkit.Op("cudaMemcpyAsync")
	part := func(p diff.Part, a, b float64, found bool) diff.Effect {
		return diff.Effect{Key: diff.Key{Kind: diff.KindPart, Part: p}, A: a, B: b, Low: b - a - 1e5, High: b - a + 1e5, P: 0.0001, Margin: 151e3, Found: found}
	}
	within := func(k diff.Key, a, b float64, found bool) diff.Effect {
		return diff.Effect{Key: k, A: a, B: b, P: 0.0001, Found: found}
	}
	var before, after stats.Sketch
	before.Add(24_000, 38408)
	after.Add(22_000, 359800)
	role := diff.Role{Program: "train.py"}
	p := diff.Pair{RoleA: role, RoleB: role, Anchor: syn,
		A:    diff.Side{PIDs: []uint32{4821}, Steps: 19204, Threads: 1, Warm: 12 * time.Second, From: at, To: at.Add(5 * time.Minute)},
		B:    diff.Side{PIDs: []uint32{5107}, Steps: 17990, Threads: 1, Stalls: 3 * time.Second},
		Step: part(diff.All, 15.1e6, 17.83e6, true),
		Parts: []diff.Effect{part(diff.GPUWait, 14e6, 13.95e6, false), part(diff.GapCPU, 0.9e6, 0.9e6, false), part(diff.CallCPU, 0.15e6, 0.55e6, true),
			part(diff.Runnable, 0.03e6, 2.36e6, true), part(diff.Throttled, 0, 0, false), part(diff.Blocked, 0.02e6, 0.07e6, false)},
		Within: []diff.Effect{within(diff.Key{Kind: diff.KindWait, Part: diff.Runnable, Who: "node_exporter"}, 0, 2.3e6, true),
			within(diff.Key{Kind: diff.KindOp, Part: diff.CallCPU, Op: copies}, 0.05e6, 0.44e6, true),
			within(diff.Key{Kind: diff.KindLine, Part: diff.CallCPU, Op: copies, Line: "fetch() in loader.py"}, 0.05e6, 0.44e6, true)},
		Counts: []diff.Effect{within(diff.Key{Kind: diff.KindCount, Op: copies}, 2, 20, true)},
		Calls:  []diff.CallChange{{Op: copies, A: 38408, B: 359800, DurA: &before, DurB: &after, OncesA: 2, OncesB: 20, Findings: 2}},
	}
	return &diff.Result{A: run("before.db", 0), B: run("after.db", time.Hour), Pairs: []diff.Pair{p}, OnlyB: []diff.Role{{Program: "eval.py", Rank: "0"}}}
}

func TestDiff(t *testing.T) {
	for name, change := range map[string]func(*diff.Pair){
		"slower": func(*diff.Pair) {},
		"same": func(p *diff.Pair) {
			p.Step.B, p.Step.Found, p.Within, p.Counts = 15.12e6, false, nil, nil
			for i := range p.Parts {
				p.Parts[i].Found = false
			}
		},
		"chance": func(p *diff.Pair) { p.Step.Found, p.Step.P, p.Parts, p.Within, p.Counts = false, 0.2, nil, nil, nil },
		"within": func(p *diff.Pair) {
			p.Step.Found, p.Step.B = false, 15.11e6
			for i := range p.Parts {
				p.Parts[i].Found = false
			}
		},
		"no detail": func(p *diff.Pair) { p.NoDetail, p.Parts = true, nil },
		"short":     func(p *diff.Pair) { p.Short = true },
		"ranks":     func(p *diff.Pair) { p.RoleA.Rank = "0" },
		"no steps":  func(p *diff.Pair) { p.Anchor = 0 },
		"untimed":   func(*diff.Pair) {},
	} {
		t.Run(name, func(t *testing.T) {
			r := diffResult()
			change(&r.Pairs[0])
			if name == "ranks" {
				for _, rank := range []string{"1", "2"} {
					same := r.Pairs[0]
					same.RoleA.Rank, same.Step.B, same.Step.Found = rank, 15.2e6, false
					same.Parts, same.Within, same.Counts = nil, nil, nil
					r.Pairs = append(r.Pairs, same)
				}
			}
			if name == "untimed" {
				r.B.Untimed = []string{"launches-counted", "hot-off"}
			}
			testkit.Golden(t, "diff_"+name+".txt", Diff(r, Options{}))
			if _, err := json.Marshal(BuildDiff(r)); err != nil {
				t.Error(err)
			}
		})
	}
}
