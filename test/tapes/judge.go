package tapes

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
)

// Outcome is the truth about a run of the incident lab and all reported chains.
type Outcome struct {
	Name    string
	Seed    uint64
	Began   time.Time
	Until   int64         // Unix ns of the last tick
	Steps   int           // number of steps by the victim's clock
	Alone   bool          // no concurrent run
	Agent   float64       // CPUs that the lab's process used
	Stolen  time.Duration // time that the hypervisor stole from the machine
	Victims []int
	Ours    []int  // other processes of the lab
	Self    int    // PID of the lab itself: ingero
	Replay  string // how a replay of the recording differed from the live run
	Want    []Truth
	Also    []string
	Heard   []Heard
	// Diagnosis is the assistant's diagnosis; nil: not requested.
	Diagnosis *Diagnosis
}

// Lost bounds the true loss by Min and Max; Mid is the best estimate.
type Lost struct{ Min, Mid, Max time.Duration }

// Unclocked is the Max of a loss that no clock can measure.
const Unclocked = time.Hour

// Truth is a chain that must be reported.
type Truth struct {
	Rules    []string
	Named    bool // one of Culprits must be named
	Culprits []int
	With     []string // rules that explain a part of Lost
	Lost     Lost
	First    int64 // end of the first longer step, Unix ns
}

// Verdict compares an outcome with its truth.
type Verdict struct {
	*Outcome
	Missed    []string // missed causes
	Wrong     []string // wrong culprits
	False     []string // false chains
	Hampered  bool     // each false chain may be due to the hypervisor
	Found     int      // number of causes found
	Blamed    int      // number of named culprits that were expected
	Said      Lost     // reported loss of the causes found
	True      Lost
	Delay     time.Duration // time from the first loss to the first chain; the maximum over the causes
	Disturbed []string      // CPU time taken by other processes of this machine
	Misled    []string      // errors of the diagnosis
}

// Right reports whether the causes and culprits are right; the lost time does not count.
func (v *Verdict) Right() bool { return len(v.Missed)+len(v.Wrong)+len(v.False) == 0 }

// Covered reports whether the true lost time is within the reported interval.
func (v *Verdict) Covered() bool { return v.Said.Min <= v.True.Max && v.Said.Max >= v.True.Min }

// Clocked reports whether the true lost time is known.
func (v *Verdict) Clocked() bool {
	return !slices.ContainsFunc(v.Want, func(t Truth) bool { return t.Lost.Max >= Unclocked })
}

// Off returns the error of the middle of the reported interval, as a share of the true lost time.
func (v *Verdict) Off() float64 {
	return math.Abs(float64(v.Said.Mid-v.True.Mid)) / max(float64(v.True.Mid), float64(ms))
}

// Width returns the width of the reported interval, as a share of the true lost time.
func (v *Verdict) Width() float64 {
	return float64(v.Said.Max-v.Said.Min) / max(float64(v.True.Mid), float64(ms))
}

// Judge compares the reports with the truth.
func Judge(o *Outcome) *Verdict {
	v := &Verdict{Outcome: o, Misled: o.judgeDiagnosis(o.Diagnosis)}
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
			wanted := slices.ContainsFunc(o.Want, func(t Truth) bool { return slices.Contains(t.Rules, c.Rule) })
			switch others := o.foreign(c); {
			case seen[c.ID], o.stolen(c):
				continue
			case others > 0.5, wanted && others > 0.25:
				v.Disturbed = append(v.Disturbed, c.Rule+by(c))
			case wanted, slices.Contains(o.Also, c.Rule), slices.ContainsFunc(o.Want, func(t Truth) bool { return slices.Contains(t.With, c.Rule) }):
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

// judgeOne looks for one cause among the last chains. It may be in several chains.
func (v *Verdict) judgeOne(t *Truth, last []tick.Chain) {
	var all, blamed time.Duration
	var said Lost
	found := false
	for i := range last {
		c := &last[i]
		is := slices.Contains(t.Rules, c.Rule)
		if !is && !slices.Contains(t.With, c.Rule) || v.foreign(c) > 0.5 {
			continue
		}
		said = Lost{said.Min + c.LostMin, said.Mid + (c.LostMin+c.LostMax)/2, said.Max + c.LostMax}
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
	v.Said = Lost{v.Said.Min + said.Min, v.Said.Mid + said.Mid, v.Said.Max + said.Max}
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

// delay returns the time from the first loss to its first report.
func (o *Outcome) delay(t *Truth) time.Duration {
	for _, h := range o.Heard {
		for i := range h.Chains {
			if slices.Contains(t.Rules, h.Chains[i].Rule) {
				return max(time.Duration(h.Time.UnixNano()-t.First), 0)
			}
		}
	}
	return 0
}

const ms = time.Millisecond

// takesCPU reports whether a chain's rule may be due to other work on the machine.
func takesCPU(c *tick.Chain) bool { return c.Rule == "cpu-taken" || c.Rule == "burst-of-programs" }

// loaded reports whether other processes used so much CPU time that ingero could not avoid the
// victim's CPU.
func (o *Outcome) loaded() bool {
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

// knows reports whether a culprit is the lab's own, the kernel or the victim.
func (o *Outcome) knows(x *tick.Culprit) bool {
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

// by describes a chain's main culprit.
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

// stolen reports whether a chain is due to the hypervisor, and the kernel counts enough stolen time
// to explain it.
func (o *Outcome) stolen(c *tick.Chain) bool {
	const rule = "cpu-stolen"
	held := slices.ContainsFunc(c.Culprits, func(x tick.Culprit) bool { return strings.Contains(x.What, "("+rule+")") })
	return (c.Rule == rule || held) && o.Stolen >= c.LostMin/2
}

// reportedStolen reports whether a rule has a chain that is due to the hypervisor.
func (o *Outcome) reportedStolen(rule string) bool {
	return slices.ContainsFunc(o.Heard, func(h Heard) bool {
		return slices.ContainsFunc(h.Chains, func(c tick.Chain) bool { return c.Rule == rule && o.stolen(&c) })
	})
}

// foreign returns the share of a chain that is due to processes outside the lab. Ingero's own share
// counts as foreign if the machine is loaded, or if two runs are concurrent: then one process
// traces both, and no CPU is idle. Threads without a record count as foreign if the machine is
// loaded.
func (o *Outcome) foreign(c *tick.Chain) float64 {
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

// Undisturbed reports whether neither other processes nor the hypervisor disturbed the run.
func (v *Verdict) Undisturbed() bool { return len(v.Disturbed) == 0 && !v.Hampered }

// Sound reports whether causes and culprits are right and the reported lost time is near the
// true one.
func (v *Verdict) Sound() bool {
	return v.Right() && (v.Found == 0 || !v.Clocked() || v.Covered() || v.Off() <= 0.5)
}

// millis formats a time in milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/1e6) }

// Line describes the verdict in one line.
func (v *Verdict) Line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d: ", v.Name, v.Seed)
	switch {
	case !v.Right():
		b.WriteString("WRONG")
	case len(v.Want) == 0:
		b.WriteString("silent")
	default:
		b.WriteString("right")
	}
	if v.Found > 0 {
		fmt.Fprintf(&b, ", lost %s (%s to %s) of %s ms", millis(v.Said.Mid), millis(v.Said.Min), millis(v.Said.Max), millis(v.True.Mid))
		fmt.Fprintf(&b, ", reported after %.1f s", v.Delay.Seconds())
	}
	if len(v.Missed) > 0 {
		var all time.Duration
		for i := range v.Want {
			all += v.Want[i].Lost.Mid
		}
		fmt.Fprintf(&b, ", truly lost %s ms", millis(all))
	}
	for _, x := range []struct {
		what string
		list []string
	}{{"missed", v.Missed}, {"culprit not of", v.Wrong}, {"false", v.False}, {"disturbed", v.Disturbed}, {"diagnose", v.Misled}} {
		if len(x.list) > 0 {
			fmt.Fprintf(&b, "; %s: %s", x.what, strings.Join(x.list, ", "))
		}
	}
	if v.Replay != "" {
		fmt.Fprintf(&b, "; the replay differs %s", v.Replay)
	}
	fmt.Fprintf(&b, "; %d steps, ingero took %.1f %% of a CPU, the hypervisor %s ms", v.Steps, 100*v.Agent, millis(v.Stolen))
	return b.String()
}
