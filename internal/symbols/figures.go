package symbols

import (
	"cmp"
	"slices"

	"ingero/internal/tick"
)

// topFunctions is the number of functions of a process that a tick lists.
const topFunctions = 20

// figures returns the launches of a process.
func (p *process) figures(w *words) tick.Launches {
	l := tick.Launches{PID: p.pid}
	for id, t := range p.names {
		if t.launches == 0 {
			continue
		}
		l.Functions++
		l.Named += t.launches
		l.Top = append(l.Top, tick.Launched{Function: w.text(id), Launches: t.launches, Timed: t.timed, Time: t.ns})
	}
	slices.SortFunc(l.Top, func(a, b tick.Launched) int {
		return cmp.Or(cmp.Compare(b.Launches, a.Launches), cmp.Compare(a.Function, b.Function))
	})
	l.Top = slices.Clip(l.Top[:min(len(l.Top), topFunctions)])
	l.Launches = l.Named
	for why, t := range p.whys {
		if t.launches == 0 {
			continue
		}
		l.Launches += t.launches
		l.Unnamed = append(l.Unnamed, tick.Unnamed{Why: why, Launches: t.launches})
	}
	if p.wait > 0 {
		for _, f := range p.funcs {
			if f.state == stateWaiting {
				l.Pending += f.tally.launches
			}
		}
		l.Launches += l.Pending
	}
	slices.SortFunc(l.Unnamed, func(a, b tick.Unnamed) int {
		return cmp.Or(cmp.Compare(b.Launches, a.Launches), cmp.Compare(a.Why, b.Why))
	})
	return l
}
