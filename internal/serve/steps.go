package serve

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
)

// mostGraphs bounds the graphs of a thread that are told apart: an engine has one for each batch
// size.
const mostGraphs = 128

// stepKey is what steps are summed up by.
type stepKey struct {
	kind  tick.EngineStep // EngineTokens, EnginePrompts or EngineCapture
	graph uint64
}

// keyOf returns the key of a step. ok is false if it launched nothing: such steps are none of an
// engine's.
func keyOf(x *ledger.Step) (k stepKey, ok bool) {
	switch {
	case x.Marks&ledger.MarkCapture != 0:
		k.kind = tick.EngineCapture
	case x.Marks&ledger.MarkGraph != 0:
		k = stepKey{tick.EngineTokens, x.Graph}
	default:
		k.kind = tick.EnginePrompts
		return k, x.Launches > 0
	}
	return k, true
}

// sum returns the sums of a kind of steps since the last tick.
func (l *list) sum(k stepKey) *tick.EngineSteps {
	x := l.sums[k]
	if x == nil && len(l.sums) >= mostGraphs {
		k.graph = 0
		x = l.sums[k]
	}
	if x == nil {
		if l.sums == nil {
			l.sums = map[stepKey]*tick.EngineSteps{}
		}
		x = &tick.EngineSteps{Kind: k.kind, Graph: k.graph}
		l.sums[k] = x
	}
	return x
}

// count adds a step to the sums.
func (l *list) count(k stepKey, x *step) {
	to := l.sum(k)
	to.Count++
	to.Idle += time.Duration(x.busy - x.from)
	var p tick.RequestTime
	x.divide(&p, time.Duration(x.to-x.busy))
	to.GPU, to.CPU, to.Runnable, to.Blocked, to.Unknown = to.GPU+p.GPU, to.CPU+p.CPU, to.Runnable+p.Runnable, to.Blocked+p.Blocked, to.Unknown+p.Unknown
	to.Dur.Add(x.to-x.busy, 1)
}

// sums returns the sums of the engines' steps since the last tick, and begins new ones. now is the time
// of this tick.
func (s *Splitter) sums(now int64) (out []tick.EngineSteps) {
	for _, engine := range s.leads {
		if engine.until == now || !engine.graphs {
			engine.mix()
		}
		for _, x := range engine.sums {
			x.PID, x.TID = engine.pid, engine.tid
			out = append(out, *x)
		}
	}
	for _, l := range s.threads {
		l.sums = nil
	}
	slices.SortFunc(out, func(a, b tick.EngineSteps) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Graph, b.Graph))
	})
	return out
}

// mix adds up the steps for prompts and tokens, which cannot be told apart.
func (l *list) mix() {
	was := l.sums
	l.sums = nil
	for _, k := range slices.SortedFunc(maps.Keys(was), func(a, b stepKey) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.graph, b.graph)) }) {
		to := k
		if k.kind != tick.EngineCapture {
			to = stepKey{}
		}
		x := l.sum(to)
		if x.Add(was[k]); to.kind == tick.EngineEither {
			x.Served = 0 // it counts some of these steps only
		}
	}
}
