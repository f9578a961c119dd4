package causal

import (
	"fmt"
	"slices"
	"time"

	"ingero/internal/tick"
)

const (
	// burstPrograms is how many programs of one parent make a burst.
	burstPrograms = 4
	// burstProgramNS is for how long each of them is seen at most, ns.
	burstProgramNS = 1e9
)

var burstOfPrograms = Rule{
	Name: "burst-of-programs", Needs: NeedWaits, Problems: []string{"18", "22"},
	Doc: "Many short programs that one process started had the CPU while a thread of the job was ready to run: a rotation of logs, a build, a cron job.",
	Of:  []string{cpuTaken.Name},
	When: func(c *tick.Chain, f *Facts) bool {
		parent, n := uint32(0), 0
		listed := time.Duration(0) // by the culprits that are told: the largest
		lost := map[uint32]time.Duration{}
		programs := map[uint32]int{}
		for i := range c.Culprits {
			x := &c.Culprits[i]
			p := x.Thread.Parent
			listed += x.Lost
			if p <= kthreadd || x.Thread.PID == 0 || !f.brief(c.PID, cpuTaken.Name, x.Thread.PID, burstProgramNS) {
				continue
			}
			lost[p] += x.Lost
			if programs[p]++; programs[p] > n || programs[p] == n && p < parent {
				parent, n = p, programs[p]
			}
		}
		if n < burstPrograms || lost[parent]*10 < listed*4 {
			return false
		}
		blameParent(c, parent, time.Duration(float64(c.Lost)*float64(lost[parent])/float64(listed)), f)
		return true
	},
}

// blameParent puts what a process started together as one culprit, before the others.
func blameParent(c *tick.Chain, parent uint32, lost time.Duration, f *Facts) {
	var all []string
	who := tick.Culprit{Lost: lost}
	who.Thread.PID, who.Thread.TID = parent, parent
	rest := slices.DeleteFunc(c.Culprits, func(x tick.Culprit) bool {
		if x.Thread.Parent != parent {
			return false
		}
		if name := x.Thread.Name.String(); !slices.Contains(all, name) {
			all = append(all, name)
		}
		for _, cpu := range x.CPUs {
			if !slices.Contains(who.CPUs, cpu) {
				who.CPUs = append(who.CPUs, cpu)
			}
		}
		return true
	})
	slices.Sort(who.CPUs)
	if name, ok := f.name(parent); ok {
		who.Thread.Name = name
	}
	who.What = fmt.Sprintf("started many short programs: %s", list(all, 3))
	c.Culprits = append([]tick.Culprit{who}, rest...)
}
