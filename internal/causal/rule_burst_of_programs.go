package causal

import (
	"fmt"
	"slices"
	"time"

	"ingero/internal/tick"
)

const (
	// burstPrograms is the number of programs with one parent that make a burst.
	burstPrograms = 4
	// burstProgramNS is the longest time that each of them is seen, ns.
	burstProgramNS = 1e9
)

var burstOfPrograms = Rule{
	Name: "burst-of-programs", Needs: NeedWaits, Problems: []string{"18", "22"},
	Doc: "Many short-lived programs started by one process used the CPU while a thread of the job was runnable: log rotation, a build, a cron job.",
	Find: takeOver([]string{cpuTaken.Name}, func(w *Window, x *Finding) bool {
		parent, n := uint32(0), 0
		listed := time.Duration(0) // of the listed culprits, which are the largest
		lost := map[uint32]time.Duration{}
		programs := map[uint32]int{}
		for i := range x.Culprits {
			c := &x.Culprits[i]
			p := c.Thread.Parent
			listed += c.Lost
			if p <= kthreadd || c.Thread.PID == 0 || !w.brief(x.PID, cpuTaken.Name, c.Thread.PID, burstProgramNS) {
				continue
			}
			lost[p] += c.Lost
			if programs[p]++; programs[p] > n || programs[p] == n && p < parent {
				parent, n = p, programs[p]
			}
		}
		if n < burstPrograms || lost[parent]*10 < listed*4 {
			return false
		}
		w.blameParent(x, parent, time.Duration(float64(x.Lost)*float64(lost[parent])/float64(listed)))
		return true
	}),
}

// blameParent replaces the programs of one parent by a single culprit, placed first.
func (w *Window) blameParent(x *Finding, parent uint32, lost time.Duration) {
	var all []string
	who := tick.Culprit{Lost: lost}
	who.Thread.PID, who.Thread.TID = parent, parent
	rest := slices.DeleteFunc(x.Culprits, func(c tick.Culprit) bool {
		if c.Thread.Parent != parent {
			return false
		}
		if name := c.Thread.Name.String(); !slices.Contains(all, name) {
			all = append(all, name)
		}
		for _, cpu := range c.CPUs {
			if !slices.Contains(who.CPUs, cpu) {
				who.CPUs = append(who.CPUs, cpu)
			}
		}
		return true
	})
	slices.Sort(who.CPUs)
	if name, ok := w.name(parent); ok {
		who.Thread.Name = name
	}
	who.What = fmt.Sprintf("started many short-lived programs: %s", list(all, 3))
	x.Culprits = append([]tick.Culprit{who}, rest...)
}
