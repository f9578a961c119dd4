//go:build measure

package incidents

import (
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
)

// outcome is what came of a run: the truth, and all that was said. It can be judged at
// any time.
type outcome struct {
	Name    string
	Seed    uint64
	Began   time.Time
	Until   int64         // Unix ns: of the last tick
	Steps   int           // by the victim's clock
	Alone   bool          // no other run was there at the same time
	Agent   float64       // share of a CPU that the lab's process took
	Stolen  time.Duration // for which the hypervisor kept CPUs from the machine
	Victims []int
	Ours    []int  // other processes of the lab
	Self    int    // the lab itself: ingero
	Replay  string // how a replay of the recording differed from what was heard live
	Want    []truth
	Also    []string
	Heard   []heard
	// Diagnosis is what an assistant is told. nil: it was not asked for.
	Diagnosis *diagnosis
}

// truth is a chain that should be there.
type truth struct {
	Rules    []string
	Named    bool // somebody is to be named: any of Culprits
	Culprits []int
	With     []string // rules that tell a part of Lost
	Lost     lost
	First    int64 // Unix ns: end of the first step that was longer
}

// outcome is what came of the run.
func (r *run) outcome(name string, n uint64, began time.Time) *outcome {
	r.t.Helper()
	if pids := r.clock.pids(); len(pids) > 0 {
		r.pids = pids
	}
	r.steps = r.clock.steps()
	o := &outcome{Name: name, Seed: n, Began: began, Until: r.until, Steps: len(r.steps), Agent: r.agent, Stolen: r.stolen, Victims: r.pids,
		Ours: byFault(r), Self: os.Getpid(), Also: r.plan.also, Heard: r.tape.said()}
	if r.plan.victim.noClock {
		o.Steps = r.tape.steps[uint32(r.pids[0])]
	}
	for _, w := range r.plan.want {
		t := truth{Rules: w.rules, With: w.with, Named: w.culprit != nil, First: r.times[w.fault].From}
		all, first := r.excess(r.times...)
		if w.lost != nil {
			all = w.lost(r)
			_, first = r.excess(r.times[w.fault])
		}
		if t.Lost = all; first > t.First {
			t.First = first
		}
		if t.Named {
			t.Culprits = w.culprit(r)
		}
		o.Want = append(o.Want, t)
	}
	return o
}

// verdict is how right it was.
type verdict struct {
	*outcome
	Missed    []string // causes
	Wrong     []string // culprits
	False     []string // chains that are of nothing
	Hampered  bool     // each of them may be of what the hypervisor did
	Found     int      // causes
	Blamed    int      // culprits that were to be named and are
	Said      lost     // of the causes found
	True      lost
	Delay     time.Duration // from the first loss to the first chain, of the cause that was told last
	Disturbed []string      // what others' processes on this machine took
	Misled    []string      // what is wrong with the diagnosis
}

// right tells whether all is as it should be, but for the lost time.
func (v *verdict) right() bool { return len(v.Missed)+len(v.Wrong)+len(v.False) == 0 }

// covered tells whether the time that was truly lost is in what was said.
func (v *verdict) covered() bool { return v.Said.Min <= v.True.Max && v.Said.Max >= v.True.Min }

// clocked tells whether it is known how much was lost.
func (v *verdict) clocked() bool {
	return !slices.ContainsFunc(v.Want, func(t truth) bool { return t.Lost.Max >= unclocked })
}

// off is by how much of it the middle of what was said is wrong.
func (v *verdict) off() float64 {
	return math.Abs(float64(v.Said.Mid-v.True.Mid)) / max(float64(v.True.Mid), float64(ms))
}

// judge compares what was said with the truth.
func judge(o *outcome) *verdict {
	v := &verdict{outcome: o, Misled: o.judgeDiagnosis(o.Diagnosis)}
	var last []tick.Chain
	if len(o.Heard) > 0 {
		last = o.Heard[len(o.Heard)-1].Chains
	}
	for i := range o.Want {
		v.judgeOne(&o.Want[i], last)
	}
	seen := map[string]bool{}
	for _, h := range o.Heard {
		for i := range h.Chains {
			c := &h.Chains[i]
			wanted := slices.ContainsFunc(o.Want, func(t truth) bool { return slices.Contains(t.Rules, c.Rule) })
			switch others := o.foreign(c); {
			case seen[c.ID], o.stolen(c):
				continue
			case others > 0.5, wanted && others > 0.25:
				v.Disturbed = append(v.Disturbed, c.Rule+by(c))
			case wanted, slices.Contains(o.Also, c.Rule), slices.ContainsFunc(o.Want, func(t truth) bool { return slices.Contains(t.With, c.Rule) }):
				continue
			default:
				v.Hampered = (len(v.False) == 0 || v.Hampered) && o.Stolen >= c.LostMin/2
				v.False = append(v.False, c.Rule+by(c))
			}
			seen[c.ID] = true
		}
	}
	return v
}

// judgeOne looks for one cause among the last chains. It may be in several.
func (v *verdict) judgeOne(t *truth, last []tick.Chain) {
	var all, blamed time.Duration
	var said lost
	found := false
	for i := range last {
		c := &last[i]
		is := slices.Contains(t.Rules, c.Rule)
		if !is && !slices.Contains(t.With, c.Rule) || v.foreign(c) > 0.5 {
			continue
		}
		said = lost{said.Min + c.LostMin, said.Mid + (c.LostMin+c.LostMax)/2, said.Max + c.LostMax}
		if !is {
			continue
		}
		found = true
		for _, x := range c.Culprits {
			all += x.Lost
			if slices.Contains(t.Culprits, int(x.Thread.PID)) || slices.Contains(t.Culprits, int(x.Thread.Parent)) {
				blamed += x.Lost
			}
		}
	}
	if !found {
		v.Missed = append(v.Missed, t.Rules[0])
		return
	}
	v.Found++
	v.Said = lost{v.Said.Min + said.Min, v.Said.Mid + said.Mid, v.Said.Max + said.Max}
	v.True.Min, v.True.Mid, v.True.Max = v.True.Min+t.Lost.Min, v.True.Mid+t.Lost.Mid, v.True.Max+t.Lost.Max
	v.Delay = max(v.Delay, v.delay(t))
	switch {
	case !t.Named:
	case blamed*2 > all:
		v.Blamed++
	default:
		v.Wrong = append(v.Wrong, t.Rules[0])
	}
}

// delay is how long it was from the first loss to the first word of it.
func (o *outcome) delay(t *truth) time.Duration {
	for _, h := range o.Heard {
		for i := range h.Chains {
			if slices.Contains(t.Rules, h.Chains[i].Rule) {
				return max(time.Duration(h.Time.UnixNano()-t.First), 0)
			}
		}
	}
	return 0
}

// takesCPU tells whether a chain is of a rule that others' work on the machine may be of.
func takesCPU(c *tick.Chain) bool { return c.Rule == "cpu-taken" || c.Rule == "burst-of-programs" }

// loaded tells whether others' processes took CPU time, of which there was too little for
// ingero to stay out of the victim's way then.
func (o *outcome) loaded() bool {
	for _, h := range o.Heard {
		for i := range h.Chains {
			for _, x := range h.Chains[i].Culprits {
				if x.Thread.TID != 0 && !o.knows(&x) {
					return true
				}
			}
		}
	}
	return false
}

// knows tells whether a culprit is the lab's own, the kernel or the victim.
func (o *outcome) knows(x *tick.Culprit) bool {
	pid, parent := int(x.Thread.PID), int(x.Thread.Parent)
	if x.Own || x.Agent || pid == o.Self || parent == o.Self || parent == kthreadd || pid == 0 {
		return true
	}
	for _, known := range [][]int{o.Ours, o.Victims} {
		if slices.Contains(known, pid) || slices.Contains(known, parent) {
			return true
		}
	}
	return false
}

// by is a chain's main culprit, in words.
func by(c *tick.Chain) string {
	if len(c.Culprits) == 0 {
		return ""
	}
	x := &c.Culprits[0]
	switch {
	case x.Agent:
		return " by ingero"
	case x.Thread.TID == 0:
		return " by " + x.What
	}
	return " by " + x.Thread.Name.String()
}

// kthreadd is the parent of kernel threads.
const kthreadd = 2

// stolen tells whether a chain is of what the hypervisor took, and that took as much by the
// kernel's own account.
func (o *outcome) stolen(c *tick.Chain) bool {
	const rule = "cpu-stolen"
	held := slices.ContainsFunc(c.Culprits, func(x tick.Culprit) bool { return strings.Contains(x.What, "("+rule+")") })
	return (c.Rule == rule || held) && o.Stolen >= c.LostMin/2
}

// toldStolen tells whether there is such a chain of a rule.
func (o *outcome) toldStolen(rule string) bool {
	return slices.ContainsFunc(o.Heard, func(h heard) bool {
		return slices.ContainsFunc(h.Chains, func(c tick.Chain) bool { return c.Rule == rule && o.stolen(&c) })
	})
}

// foreign is the share of a chain of what processes took which the lab knows nothing of.
// Where a machine has others' work on it, they do. What ingero took counts as theirs where
// that is so, and where two runs are made at the same time: then there are two of them in
// one process, and no CPU is idle. So do threads without a record where others are.
func (o *outcome) foreign(c *tick.Chain) float64 {
	if !takesCPU(c) {
		return 0
	}
	var all, others time.Duration
	busy := o.loaded()
	for _, x := range c.Culprits {
		all += x.Lost
		self := int(x.Thread.PID) == o.Self
		if !o.knows(&x) || self && (busy || !o.Alone) || x.Thread.TID == 0 && busy {
			others += x.Lost
		}
	}
	return float64(others) / max(float64(all), 1)
}
