package causal

import (
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
	var ticks []timeSpan // with reclaim
	for i := range b.Host {
		h := &b.Host[i]
		if h.Kind != kind || h.NS == 0 {
			continue
		}
		if x.From == 0 {
			x.From = h.From
		}
		x.To = h.To
		ticks = append(ticks, timeSpan{h.From, h.To})
		x.Lost += int64(h.NS)
		x.spread.add(h.From, h.To, float64(h.NS))
		count += h.Count
	}
	if x.Lost == 0 {
		return x
	}
	tid, steps := w.steps(b.PID)
	ticks = merged(ticks)
	reclaims := func(s *step) bool { return overlap(ticks, s.from, s.to()) > 0 }
	all := x.Lost // of all threads
	if more, ok := longer(steps, reclaims); ok {
		x.Lost = min(all, more) // another thread may have reclaimed, or while the GPU had work
		x.Min, x.Max = x.Lost/2, x.Lost*5/4
		if float64(all) >= Rules[w.running].Share*float64(w.known(b.PID)) { // less of it measures nothing
			b.reclaims(kind, reclaimShare{float64(x.Lost) / float64(all), w.Now()})
		}
	} else {
		always := 2*overlap(ticks, x.From, x.To) > w.known(b.PID) && slices.ContainsFunc(steps, func(s step) bool { return reclaims(&s) })
		w.uncompared(b, kind, &x, steps, always)
	}
	x.fitSpread()
	x.TID, x.onCPU = tid, true
	for i := range steps {
		x.Steps += int(steps[i].weight + 0.5)
		if s := &steps[i]; s.to() > x.From && s.from < x.To && s.length > s.normal {
			x.Slow += int(s.weight + 0.5)
			x.Op = s.op
		}
	}
	x.Timeline = []tick.Moment{moment(x.From, "HOST", "the process started to reclaim memory: %d times, %s in all", count, span(all))}
	if kind == tick.HostCgroupReclaim {
		x.Culprits = []tick.Culprit{w.limitOf(&x)}
	} else if who, ok := w.allocator(&x); ok {
		x.Culprits = []tick.Culprit{who}
	}
	return x
}

// reclaimShare is the share of a kind of reclaim that made steps longer, and when it was measured or last
// explained a loss (Unix ns).
type reclaimShare struct {
	share float64
	at    int64
}

// shareHolds is the time for which a share is valid, ns.
const shareHolds = 300e9

// reclaims notes which share of a kind of reclaim made steps longer.
func (b *ProcessHistory) reclaims(kind tick.HostEvent, x reclaimShare) {
	if b.reclaimed == nil {
		b.reclaimed = map[tick.HostEvent]reclaimShare{}
	}
	b.reclaimed[kind] = x
}

// uncompared estimates what reclaim cost if no comparison shows how long a step takes without reclaim.
// If no ended step has reclaim, all of it counts: the running step may not end because of it. All of a burst
// counts, too. Otherwise the process reclaimed all the time. The thread of the steps reclaimed for at most
// the time that it was on a CPU or blocked, or is in a running step. An earlier comparison may give the share
// of the reclaim that makes steps longer. Half of the estimate is certain then. Without a share that explains
// a loss, nothing is certain: other threads may have reclaimed.
func (w *Window) uncompared(b *ProcessHistory, kind tick.HostEvent, x *Finding, steps []step, always bool) {
	known := w.known(b.PID)
	if !always {
		x.Lost = min(x.Lost, known)
		x.Min, x.Max = x.Lost/2, min(x.Lost*5/4, known)
		return
	}
	var own float64
	var last int64
	for i := range steps {
		s := &steps[i]
		own += s.weight * float64(s.cpu+s.blocked-s.awaited-s.slept)
		last = max(last, s.to())
	}
	most := min(known, int64(own)+max(w.until(b.PID)-last, 0))
	least := max(float64(leastLost), Rules[w.running].Share*float64(known))
	if y, ok := b.reclaimed[kind]; ok && w.Now()-y.at <= shareHolds {
		if lost := min(int64(y.share*float64(x.Lost)), most); float64(lost) >= least {
			x.Lost, x.Min, x.Max = lost, lost/4, min(2*lost, most)
			y.at = w.Now() // while it goes on
			b.reclaims(kind, y)
			return
		}
	}
	x.Max = min(x.Lost, most)
	x.Lost, x.Severity = x.Max/2, tick.Low
	if float64(x.Lost) < least {
		x.Lost = 0
	}
}

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
