package explain

import (
	"strings"

	"ingero/internal/wire"
)

// where writes where the time of a process went, by its best account.
func (w *writer) where(r *report, p *wire.ProcessReport) {
	if p.Breakdown != nil {
		w.breakdown(p, r.source[p.PID])
		return
	}
	w.time(p)
}

var partLabels = [timeParts]string{"GPU wait", "CPU between calls", "CPU in calls", "Runnable, waiting", "Throttled", "Blocked", "CPU or blocked"}

// time writes where the time of a process went.
func (w *writer) time(p *wire.ProcessReport) {
	of := " of thread time"
	if !p.Time.GapsKnown {
		of = " in calls"
	}
	w.line(w.cut("WHERE THE TIME WENT   "+processName(p.Comm, p.PID)+", "+Duration(ns64(p.Time.ThreadNS))+of, reportWidth))
	for i := range p.Time.Parts {
		t := &p.Time.Parts[i]
		if t.NS == 0 && (i == undecided || i == throttled || i == cpuBetween && !p.Time.GapsKnown) {
			continue
		}
		row := "  " + alignLeft(partLabels[i], 18) + alignRight(short(ns64(t.NS)), 9) + alignRight(percentText(t.Percent, t.NS)+" %", 9)
		w.line(alignLeft(row, 40) + timeDetail(t, i, reportWidth-40))
	}
	if len(p.Time.Classes) > 0 {
		var parts []string
		for _, c := range p.Time.Classes {
			parts = append(parts, c.Class+" "+percentText(c.Percent, c.NS)+" %")
		}
		w.text("  In calls, by kind: "+strings.Join(parts, ", "), "    ")
	}
}

// timeDetail describes the contents of a part, in at most width columns.
func timeDetail(t *wire.TimePart, part, width int) string {
	switch part {
	case gpuWait, cpuInCalls:
		s := ""
		for i, o := range t.Ops {
			time := o.Op + " " + short(ns64(o.NS))
			for _, form := range []string{time + " (" + plural(o.Calls, "call") + ")", time, o.Op} {
				if i > 0 {
					form = s + " · " + time
				}
				if cells(form) <= width {
					s = form
					break
				}
			}
			if i == 1 {
				break
			}
		}
		return s
	case runnable, throttled, blocked, undecided:
		var parts []string
		if t.InCallsNS > 0 {
			parts = append(parts, "in calls "+short(ns64(t.InCallsNS)))
		}
		if t.BetweenNS > 0 {
			parts = append(parts, "between "+short(ns64(t.BetweenNS)))
		}
		return cut(strings.Join(parts, " · "), width)
	}
	return ""
}
