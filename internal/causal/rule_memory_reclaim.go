package causal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

var memoryReclaim = Rule{
	Name: "memory-reclaim", Sees: govern.HostEvents, Needs: NeedHost, Share: 0.01, Problems: []string{"18"},
	Vague: 0.35, // part of the wait is in other places
	Doc:   "The machine was short of memory: when the job allocated memory, it had to reclaim pages first.",
	Find:  reclaimed(tick.HostReclaim),
}

// reclaimed returns a Find of what processes lost to one kind of reclaim.
func reclaimed(kind tick.HostEvent) func(*Window) []Finding {
	return func(w *Window) (out []Finding) {
		for _, b := range w.Histories() {
			if x := w.reclaimedBy(b, kind); x.Lost > 0 {
				out = append(out, x)
			}
		}
		return out
	}
}

// reclaimedBy adds up a process's loss to one kind of reclaim.
func (w *Window) reclaimedBy(b *ProcessHistory, kind tick.HostEvent) Finding {
	x := Finding{PID: b.PID, Group: kind.String(), Baseline: "a normal step does not reclaim memory"}
	var count uint64
	var ticks []span64 // with reclaim, in time order
	for i := range b.Host {
		h := &b.Host[i]
		if h.Kind != kind || h.NS == 0 {
			continue
		}
		if x.From == 0 {
			x.From = h.From
		}
		x.To = h.To
		ticks = append(ticks, span64{h.From, h.To})
		x.Lost += int64(h.NS)
		x.spread.add(h.From, h.To, float64(h.NS))
		count += h.Count
	}
	if x.Lost == 0 {
		return x
	}
	tid, steps := w.steps(b.PID)
	reclaims := func(s *step) bool {
		at, _ := slices.BinarySearchFunc(ticks, s.from, func(t span64, from int64) int { return cmp.Compare(t.to, from+1) })
		return at < len(ticks) && ticks[at].from < s.to()
	}
	if more, ok := longer(steps, reclaims); ok {
		x.Lost = min(x.Lost, more) // another thread may have reclaimed, or while the GPU had work
	}
	x.fitSpread()
	x.TID, x.Min, x.Max, x.onCPU = tid, x.Lost/2, x.Lost*5/4, true
	for i := range steps {
		x.Steps += int(steps[i].weight + 0.5)
		if s := &steps[i]; s.to() > x.From && s.from < x.To && s.length > s.normal {
			x.Slow += int(s.weight + 0.5)
			x.Op = s.op
		}
	}
	x.Timeline = []tick.Moment{moment(x.From, "HOST", "the process started to reclaim memory: %d times, %s in all", count, span(x.Lost))}
	if kind == tick.HostCgroupReclaim {
		x.Culprits = []tick.Culprit{w.limitOf(&x)}
	} else if who, ok := w.allocator(&x); ok {
		x.Culprits = []tick.Culprit{who}
	}
	return x
}

// span64 is a period, Unix ns.
type span64 struct{ from, to int64 }

// longer returns how much longer the selected steps were than others of their kind, ns. ok is false
// without enough others.
func longer(steps []step, selected func(*step) bool) (ns int64, ok bool) {
	others := map[uint32][]weighted{}
	var in []*step
	for i := range steps {
		if x := &steps[i]; selected(x) {
			in = append(in, x)
		} else if !x.period {
			others[x.kind] = append(others[x.kind], weighted{x.length, x.weight})
		}
	}
	usual := map[uint32]int64{}
	for kind, v := range others {
		if len(v) >= minFree {
			usual[kind] = quantile(v, 0.5)
		}
	}
	var all, known, more float64
	for _, x := range in {
		all += x.weight
		if base, ok := usual[x.kind]; ok {
			known += x.weight
			more += x.weight * float64(x.length-base)
		}
	}
	return int64(max(more, 0)), known > 0 && known*2 >= all
}

// allocator returns the process that allocated most memory about the time of a finding, if it
// allocated more than the victim. Without traced allocations, it returns the process that reclaimed
// most.
func (w *Window) allocator(x *Finding) (who tick.Culprit, ok bool) {
	given := map[uint32]uint64{}
	what := "allocated %d MiB of memory"
	for _, kind := range []tick.HostEvent{tick.HostPages, tick.HostReclaim} {
		for i := range w.host {
			if h := &w.host[i]; h.Kind == kind && h.PID != 0 && about(h, x) {
				given[h.PID] += h.Bytes
			}
		}
		if len(given) > 0 {
			break
		}
		what = "reclaimed %d MiB of memory"
	}
	var most uint32
	for pid, bytes := range given {
		if m := given[most]; bytes > m || bytes == m && pid < most {
			most = pid
		}
	}
	if most == 0 || most == x.PID || given[most] <= given[x.PID] {
		return who, false
	}
	who.Thread.PID, who.Thread.TID = most, most
	if name, ok := w.name(most); ok {
		who.Thread.Name = name
	}
	who.What = fmt.Sprintf(what, given[most]>>20)
	who.Lost = time.Duration(x.Lost)
	return who, true
}
