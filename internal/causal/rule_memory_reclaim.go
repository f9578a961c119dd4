package causal

import (
	"fmt"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

var memoryReclaim = Rule{
	Name: "memory-reclaim", Sees: govern.HostEvents, Needs: NeedHost, Share: 0.01, Problems: []string{"18"},
	Vague: 0.35, // what of it the job waits for elsewhere is not told
	Doc:   "The machine was short of memory: where the job asked for some, the kernel had it look for pages to give back first.",
	Find:  func(f *Facts) []Finding { return reclaimed(f, tick.HostReclaim) },
}

// reclaimed returns what processes lost to reclaim of a kind.
func reclaimed(f *Facts, kind tick.HostEvent) (out []Finding) {
	for _, b := range f.Books() {
		x := Finding{PID: b.PID, Group: kind.String(), Baseline: "none of this is normal"}
		var count uint64
		for i := range b.Host {
			h := &b.Host[i]
			if h.Kind != kind || h.NS == 0 {
				continue
			}
			if x.From == 0 {
				x.From = h.From
			}
			x.To = h.To
			x.Lost += int64(h.NS)
			count += h.Count
		}
		if x.Lost == 0 {
			continue
		}
		tid, steps := f.steps(b.PID)
		x.TID, x.Min, x.Max = tid, x.Lost/2, x.Lost*5/4
		for i := range steps {
			x.Steps += int(steps[i].weight + 0.5)
			if s := &steps[i]; s.to() > x.From && s.from < x.To && s.length > s.normal {
				x.Slow += int(s.weight + 0.5)
				x.Op = s.op
			}
		}
		x.Timeline = []tick.Moment{moment(x.From, "HOST", "the process began to reclaim memory: %d times, %s in all", count, span(x.Lost))}
		if kind == tick.HostCgroupReclaim {
			x.Culprits = []tick.Culprit{{What: limitOf(b.PID, f), Lost: time.Duration(x.Lost)}}
		} else if who, ok := f.allocator(b.PID, &tick.Chain{PID: b.PID, From: wall(x.From), To: wall(x.To)}); ok {
			who.Lost = time.Duration(x.Lost)
			x.Culprits = []tick.Culprit{who}
		}
		out = append(out, x)
	}
	return out
}

// allocator returns the process that was given most memory about the time of a chain,
// where that is more than its victim was given. Where allocations are not traced, it
// is the one that had to reclaim most.
func (f *Facts) allocator(victim uint32, c *tick.Chain) (who tick.Culprit, ok bool) {
	given := map[uint32]uint64{}
	what := "was given %d MiB of memory"
	for _, kind := range []tick.HostEvent{tick.HostPages, tick.HostReclaim} {
		for i := range f.e.host {
			if h := &f.e.host[i]; h.Kind == kind && h.PID != 0 && about(h, c) {
				given[h.PID] += h.Bytes
			}
		}
		if len(given) > 0 {
			break
		}
		what = "had to find %d MiB of free memory"
	}
	var most uint32
	for pid, bytes := range given {
		if m := given[most]; bytes > m || bytes == m && pid < most {
			most = pid
		}
	}
	if most == 0 || most == victim || given[most] <= given[victim] {
		return who, false
	}
	who.Thread.PID, who.Thread.TID = most, most
	if name, ok := f.name(most); ok {
		who.Thread.Name = name
	}
	who.What = fmt.Sprintf(what, given[most]>>20)
	who.Lost = c.Lost
	return who, true
}
