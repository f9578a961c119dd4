package explain

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

const (
	// mostEngines bounds the engines whose steps are summed up, mostKinds the rows of each.
	mostEngines = 256
	mostKinds   = 256
)

// Engines sums up the steps of inference servers' engines. The zero value is empty.
type Engines struct {
	list []engineSums // by PID and TID
}

type engineSums struct {
	pid, tid uint32
	comm     string
	kinds    []tick.EngineSteps // by kind and graph
}

// Add adds a tick's steps.
func (e *Engines) Add(t *tick.Tick) {
	for i := range t.EngineSteps {
		if x := &t.EngineSteps[i]; x.PID != 0 {
			e.add(x, t)
		}
	}
}

func (e *Engines) add(x *tick.EngineSteps, t *tick.Tick) {
	at, known := slices.BinarySearchFunc(e.list, x, func(s engineSums, x *tick.EngineSteps) int {
		return cmp.Or(cmp.Compare(s.pid, x.PID), cmp.Compare(s.tid, x.TID))
	})
	if !known {
		if len(e.list) == mostEngines {
			return
		}
		s := engineSums{pid: x.PID, tid: x.TID}
		if at := slices.IndexFunc(t.Processes, func(p tick.Process) bool { return p.PID == x.PID }); at >= 0 {
			s.comm = clean(t.Processes[at].Comm)
		}
		e.list = slices.Insert(e.list, at, s)
	}
	s := &e.list[at]
	row := *x
	at, known = s.find(&row)
	if !known && len(s.kinds) >= mostKinds {
		row.Graph = 0
		at, known = s.find(&row)
	}
	if !known {
		s.kinds = slices.Insert(s.kinds, at, tick.EngineSteps{Kind: row.Kind, Graph: row.Graph})
	}
	s.kinds[at].Add(&row)
}

// find returns the place of a row's kind.
func (s *engineSums) find(x *tick.EngineSteps) (int, bool) {
	return slices.BinarySearchFunc(s.kinds, x, func(a tick.EngineSteps, x *tick.EngineSteps) int {
		return cmp.Or(cmp.Compare(a.Kind, x.Kind), cmp.Compare(a.Graph, x.Graph))
	})
}

// List returns the engines by PID and thread, each with its kinds: tokens by the number of requests,
// then the others.
func (e *Engines) List() []wire.EngineSteps { return e.wire((*engineSums).sorted) }

// grouped is List with one row for all graphs with about as many requests.
func (e *Engines) grouped() []wire.EngineSteps { return e.wire((*engineSums).grouped) }

func (e *Engines) wire(kinds func(*engineSums) []tick.EngineSteps) (out []wire.EngineSteps) {
	for i := range e.list {
		s := &e.list[i]
		x := wire.EngineSteps{PID: s.pid, TID: s.tid, Comm: s.comm}
		for _, k := range kinds(s) {
			x.IdleNS += int64(k.Idle)
			x.Kinds = append(x.Kinds, stepsKindOf(&k))
		}
		if len(x.Kinds) > 0 {
			out = append(out, x)
		}
	}
	return out
}

// sorted returns the kinds that occurred.
func (s *engineSums) sorted() []tick.EngineSteps {
	kinds := slices.DeleteFunc(slices.Clone(s.kinds), func(k tick.EngineSteps) bool { return k.Count == 0 })
	slices.SortStableFunc(kinds, func(a, b tick.EngineSteps) int {
		return cmp.Or(cmp.Compare(place[a.Kind], place[b.Kind]), cmp.Compare(meanRequests(&a), meanRequests(&b)))
	})
	return kinds
}

// grouped returns the kinds that occurred, tokens by the number of requests in powers of two.
func (s *engineSums) grouped() (out []tick.EngineSteps) {
	size := func(k *tick.EngineSteps) int { return bits.Len(uint(meanRequests(k) + 0.5)) }
	for _, k := range s.sorted() {
		if n := len(out); n == 0 || out[n-1].Kind != k.Kind || size(&out[n-1]) != size(&k) {
			out = append(out, tick.EngineSteps{Kind: k.Kind})
		}
		out[len(out)-1].Add(&k)
	}
	return out
}

// place is the order of kinds in a report.
var place = [...]int{tick.EngineTokens: 0, tick.EngineEither: 1, tick.EnginePrompts: 2, tick.EngineCapture: 3}

func meanRequests(x *tick.EngineSteps) float64 { return float64(x.Served) / float64(max(x.Count, 1)) }

func stepsKindOf(k *tick.EngineSteps) wire.StepsKind {
	x := wire.StepsKind{Kind: k.Kind.String(), Took: durationsOf(&k.Dur), GPUNS: int64(k.GPU), CPUNS: int64(k.CPU), RunnableNS: int64(k.Runnable),
		BlockedNS: int64(k.Blocked), UnknownNS: int64(k.Unknown)}
	if k.Graph != 0 {
		x.Graph = handle(k.Graph)
	}
	if k.Served > 0 {
		x.Requests = new(meanRequests(k))
	}
	return x
}

// engines writes the steps of inference servers' engines.
func (w *writer) engines(list []wire.EngineSteps) {
	for i := range list {
		w.line("")
		w.engine(&list[i])
	}
}

func (w *writer) engine(e *wire.EngineSteps) {
	all := e.IdleNS
	for i := range e.Kinds {
		all += worked(&e.Kinds[i])
	}
	w.text(fmt.Sprintf("Steps of the engine %s, which waited for work in %s of the time:", processName(e.Comm, e.PID), percentOf(e.IdleNS, all)), "")
	row := func(what string, columns ...string) {
		line := "  " + alignLeft(what, 17)
		for i, width := range [...]int{8, 9, 8, 8, 6, 6, 7, 8} {
			line += alignRight(columns[i], width)
		}
		w.line(line)
	}
	row("", "steps", "requests", "p50", "p99", "GPU", "CPU", "no CPU", "blocked")
	for i := range e.Kinds {
		k := &e.Kinds[i]
		requests := unknown
		if k.Requests != nil {
			requests = fmt.Sprintf("%.1f", *k.Requests)
		}
		share := func(ns int64) string { return fmt.Sprintf("%.0f %%", 100*float64(ns)/float64(max(worked(k), 1))) }
		row(k.Kind, Count(k.Took.Count), requests, short(*k.Took.P50NS), short(*k.Took.P99NS), share(k.GPUNS), share(k.CPUNS), share(k.RunnableNS), share(k.BlockedNS))
	}
}

// worked returns the time of steps, without their waits for work.
func worked(k *wire.StepsKind) int64 {
	return k.GPUNS + k.CPUNS + k.RunnableNS + k.BlockedNS + k.UnknownNS
}
