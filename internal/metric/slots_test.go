package metric

import (
	"fmt"
	"testing"
	"time"

	"ingero/internal/tick"
)

// slotted is a kind of labels with a bound.
type slotted struct {
	most  int                              // with that of the others
	use   func(x *tick.Tick, i int)        // uses label i in a tick
	count func(s *Snapshot, i int) float64 // of the series of label i; 0: it has none
}

func slottedLabels() map[string]slotted {
	one := 1.0
	return map[string]slotted{
		"models": {mostModels,
			func(x *tick.Tick, i int) {
				x.Inference = append(x.Inference, tick.Inference{Time: x.Time, PID: uint32(i), Engine: "vLLM", Model: fmt.Sprint(i), GeneratedTokens: &one})
			},
			func(s *Snapshot, i int) float64 { return value(s, InferenceTokens, "generated", "vLLM", fmt.Sprint(i)) }},
		"servers": {mostServers,
			func(x *tick.Tick, i int) {
				r := answered(200)
				r.Port = uint16(i)
				x.Requests = append(x.Requests, r)
			},
			func(s *Snapshot, i int) float64 { return value(s, Requests, "2xx", "", "", fmt.Sprint(i)) }},
		"causes": {mostCauses + 1,
			func(x *tick.Tick, i int) {
				x.Episodes = append(x.Episodes, tick.Episode{Kind: tick.EpisodeEnd, ID: fmt.Sprint(x.Seq, i), Severity: tick.High, Lost: time.Second,
					Chain: tick.Chain{Rule: "cpu-taken", Culprits: []tick.Culprit{{What: fmt.Sprint(i)}}}})
			},
			func(s *Snapshot, i int) float64 { return value(s, AnomalyLost, Other, "0", "cpu-taken", fmt.Sprint(i)) }},
		"ranks": {mostRanks + 1,
			func(x *tick.Tick, i int) {
				x.Lates = append(x.Lates, tick.Straggler{To: 1, Rank: tick.Rank{Rank: int32(i)}})
			},
			func(s *Snapshot, i int) float64 { return value(s, RankLate, fmt.Sprint(i)) }},
		"engines": {mostModels,
			func(x *tick.Tick, i int) {
				x.Processes = append(x.Processes, tick.Process{PID: uint32(100 + i), Comm: "vllm", Started: epoch, Where: tick.Where{Cmdline: fmt.Sprint("vllm serve ", i)}})
				x.EngineSteps = append(x.EngineSteps, engineStepsOf(uint32(100+i), tick.EngineTokens, 1, 1))
			},
			func(s *Snapshot, i int) float64 { return value(s, EngineRequests, "vLLM", fmt.Sprint(i)) }},
	}
}

// At the limit, new labels evict those that were unused for longest once they are stale.
func TestStaleLabelsAreEvicted(t *testing.T) {
	for name, tt := range slottedLabels() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			use := func(from, to int) *Snapshot {
				return w.tick(func(x *tick.Tick) {
					for i := from; i <= to; i++ {
						tt.use(x, i)
					}
				})
			}
			series := func(what string, s *Snapshot, i int, want bool) {
				t.Helper()
				if n := tt.count(s, i); (n > 0) != want {
					t.Errorf("%s: number %d counts %v, want series: %v", what, i, n, want)
				}
			}
			full := tt.most - 1 // one series is that of the others
			use(1, 1)
			use(2, full)
			w.now = w.now.Add(stale)
			s := use(3, full+1)
			series("unused for longest", s, 1, false)
			series("unused", s, 2, true)
			series("new", s, full+1, true)
			s = use(1, 1)
			series("back at once", s, 1, false)
			series("unused", s, 2, true)
			w.now = w.now.Add(linger)
			s = use(1, 1)
			series("back", s, 1, true)
			series("unused", s, 2, false)
		})
	}
}
