package causal

import (
	"hash/crc32"
	"math"
	"slices"
	"testing"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// stepSpan is a time, ns since the start, in which a shedding level is active.
type stepSpan struct {
	name     string
	from, to int64
}

// shedding returns what is shed for a simulated program at a time, ns since the start.
func shedding(steps []stepSpan, at int64) (s govern.Facts) {
	for _, x := range steps {
		if at >= x.from && at < x.to {
			s |= govern.Sheds(x.name)
		}
	}
	return s
}

// thinning returns the number of fast calls per record at a time.
func thinning(steps []stepSpan, at int64) uint32 {
	for _, x := range steps {
		if x.name == "records-least" && at >= x.from && at < x.to {
			return 64
		}
	}
	return 8
}

// fast is the longest duration of a call that may have no record, ns.
const fast = 100 * us

// hide removes the record of a call that the active levels shed, and reports whether it did. The
// call's time moves to the gap before the next call. Its waits, from index waits on, belong to no
// call if the call is only counted.
func (t *simThread) hide(c *events.Call, waits int) bool {
	if len(t.steps) == 0 {
		return false
	}
	launch := c.Op.Row().Class == events.ClassLaunch
	of := factsOf(c.Op) & shedding(t.steps, c.Start-start)
	if of == 0 {
		t.say(c, launch)
		return false
	}
	counted := of&(govern.LaunchTimes|govern.QuickTimes) != 0
	if !counted {
		c.Weight = thinning(t.steps, c.Start-start)
		if t.thin.Uint32()%c.Weight == 0 || c.Duration > fast {
			if c.Duration > fast {
				c.Weight = 1
			}
			t.say(c, launch)
			return false
		}
	}
	t.gap.cpu += t.in.cpu
	t.gap.run += t.in.run
	t.gap.thr += t.in.thr
	t.gap.blk += t.in.blk
	if of&(govern.LaunchCounts|govern.QuickCounts) != 0 { // it has no probe
		t.unnamed(waits)
		return true
	}
	c.Weight = 1
	if counted {
		c.Flags |= events.CallUnmeasured
		t.unnamed(waits)
	}
	t.launched += uint16(btoi(launch))
	t.hidden = append(t.hidden, *c)
	return true
}

// unnamed detaches the waits from index from on from their call.
func (t *simThread) unnamed(from int) {
	for i := range t.waits[from:] {
		t.waits[from+i].Op = 0
	}
}

// say sets the number of launches in an outermost call.
func (t *simThread) say(c *events.Call, launch bool) {
	if launch {
		t.launched++
		return
	}
	c.Launches, t.launched = t.launched, 0
}

// feeder has what is not in records.
type feeder struct {
	hidden []events.Call // by end time
	steps  []stepSpan
}

// until returns each call without a record that ends by a time, once.
func (f *feeder) until(from, now int64) (out []events.Call) {
	n := 0
	for ; n < len(f.hidden) && f.hidden[n].End() <= now; n++ {
		if f.hidden[n].End() > from {
			out = append(out, f.hidden[n])
		}
	}
	f.hidden = f.hidden[n:]
	return out
}

// ticked sets the levels that are active from the end of a tick on.
func (f *feeder) ticked(t *tick.Tick) {
	at := t.Time.Add(10*time.Millisecond).UnixNano() - start
	for _, x := range f.steps {
		if at >= x.from && at < x.to {
			t.Overhead.Shed = append(t.Overhead.Shed, x.name)
		}
	}
	for i := range t.Processes {
		t.Processes[i].Counted = slices.Contains(t.Overhead.Shed, launchesCounted)
	}
}

// seen returns the facts visible at a time.
func (f *feeder) seen(facts []fact, at int64) (out []fact) {
	if shedding(f.steps, at)&govern.HostEvents == 0 {
		return facts
	}
	for _, x := range facts {
		if x.gpu != "" || x.Kind == tick.HostOOM || x.Kind == tick.HostRetransmit || x.Kind == tick.HostLockRefused {
			out = append(out, x)
		}
	}
	return out
}

// blunt has the levels that shed facts which causes depend on.
var blunt = []string{"records-thin", "records-least", "launches-counted", "host-off", "calls-counted", "hot-off"}

// shedTimes is the number of times, relative to the fault, at which a level may be active.
const shedTimes = 3

// shedCases is the number of pairs of level and time to test for each scenario.
var shedCases = 1

// shed checks that a level active before, during or up to the fault adds no chain, and that each chain
// that it removes is listed as one that cannot be reported. The scenario's name selects the level and
// the time.
func (sc *scenario) shed(t *testing.T, name string, without []tick.Chain) {
	middle := (sc.end - start) / 2
	middle = sc.attach + (middle-sc.attach)/s1*s1
	when := [shedTimes]stepSpan{{"before", 0, math.MaxInt64}, {"during", middle, math.MaxInt64}, {"up to", 0, middle}}
	first := int(crc32.ChecksumIEEE([]byte(name)) % uint32(len(blunt)*len(when)))
	for n := range shedCases {
		pair := (first + n) % (len(blunt) * len(when))
		step, at := blunt[pair%len(blunt)], when[pair/len(blunt)]
		x := *sc
		x.steps = []stepSpan{{step, max(at.from, sc.attach+s1), at.to}}
		got, untold := x.run(t)
		compare(t, step+" "+at.name, without, got, untold)
	}
}

// compare compares the chains with and without a level.
func compare(t *testing.T, step string, without, got []tick.Chain, untold []tick.BlindSpot) {
	t.Helper()
	failed := false
	for _, c := range got {
		if !slices.ContainsFunc(without, func(o tick.Chain) bool { return o.Rule == c.Rule || coarser(&o, c.Rule) }) {
			t.Errorf("%s: there is a chain %s, which there is not without", step, c.Rule)
			failed = true
		}
	}
	for _, c := range without {
		switch {
		case slices.ContainsFunc(got, func(o tick.Chain) bool { return o.Rule == c.Rule }):
		case slices.ContainsFunc(untold, func(u tick.BlindSpot) bool { return slices.Contains(u.Rules, c.Rule) }):
		default:
			t.Errorf("%s: %s is lost, and nothing says that it cannot be found: %+v", step, c.Rule, untold)
			failed = true
		}
	}
	if failed {
		show(t, got)
	}
}

// coarser reports whether a chain describes the cause of another rule's chain less exactly.
func coarser(c *tick.Chain, rule string) bool {
	n := ruleNamed(c.Rule)
	w := New(1).window(&tick.Tick{})
	w.runRule(n)
	return w.ran[ruleNamed(rule)] || slices.Contains(Rules[n].Instead, rule) || c.Rule == gpuShared.Name && rule == gpuSlower.Name
}
