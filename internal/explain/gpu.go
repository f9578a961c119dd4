package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/xid"
)

const (
	// mostBursts is the number of reported bursts of faults, mostFollowers the number of codes
	// after a burst's root, mostGPUs the number of GPUs with a state.
	mostBursts    = 8
	mostFollowers = 5
	mostGPUs      = 8
	// lastBursts is the number of bursts in the live table. maxSeenFaults bounds the kept faults of
	// a burst.
	lastBursts    = 2
	maxSeenFaults = 64
)

// burst has the faults of one device that follow from the first.
type burst []*tick.Xid

// burstsOf groups faults into bursts, in time order. They may be from several sessions.
func burstsOf(xids []tick.Xid) []burst {
	type key struct {
		began  int64
		number uint64
	}
	at := map[key]int{}
	var out []burst
	for i := range xids {
		x := &xids[i]
		k := key{x.Time - int64(x.After), x.Burst}
		n, known := at[k]
		if !known {
			n = len(out)
			at[k], out = n, append(out, nil)
		}
		out[n] = append(out[n], x)
	}
	for _, b := range out {
		slices.SortStableFunc(b, func(a, b *tick.Xid) int { return cmp.Compare(a.At, b.At) })
	}
	slices.SortStableFunc(out, func(a, b burst) int { return cmp.Compare(a[0].Time, b[0].Time) })
	return out
}

// text describes what happened, without the final period.
func (b burst) text(loc *time.Location) string {
	root := b[0]
	kind, device := "XID", "GPU "
	if root.Switch {
		kind, device = "SXID", "NVSwitch "
	}
	s := fmt.Sprintf("%s %s%s: %s %d", time.Unix(0, root.Time).In(loc).Format(time.TimeOnly), device, root.Device(), kind, root.Code)
	if name := xid.LookupFault(root).Name; name != "" {
		s += " " + name
	}
	if root.CausedBy != 0 {
		s += fmt.Sprintf(", caused by %d", root.CausedBy)
	}
	if last := b[len(b)-1]; last != root {
		var codes []string
		for _, x := range b[1:] {
			if c := fmt.Sprint(x.Code); !slices.Contains(codes, c) {
				codes = append(codes, c)
			}
		}
		if more := len(codes) - mostFollowers; more > 0 {
			codes = append(codes[:mostFollowers], fmt.Sprintf("%d other codes", more))
		}
		s += fmt.Sprintf(", then %s more within %s: %s", Count(uint64(last.At-root.At)), Duration(int64(last.After-root.After)), list(codes))
	}
	if v := b.victim(); v != nil {
		s += "; it hit " + processName(clean(v.Comm), v.PID)
		if len(v.Last) > 0 {
			where := " after "
			if v.Last[0].Open {
				where = " in "
			}
			s += where + v.Last[0].Op.String()
		}
	}
	if root.Injected {
		s += "; written to the kernel log by a program, not by the driver"
	}
	return s
}

// list joins words: "48, 13 and 31".
func list(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return strings.Join(words, "")
}

// victim returns the first fault with a known process, or nil.
func (b burst) victim() *tick.Xid {
	for _, x := range b {
		if x.PID != 0 {
			return x
		}
	}
	return nil
}

// advice returns the meaning and remedy of the root, and of a more severe follower.
func (b burst) advice() string {
	root := xid.LookupFault(b[0])
	s := root.Meaning + " " + root.Do
	if root.Severity == "fatal" {
		return s
	}
	for _, x := range b[1:] {
		if c := xid.LookupFault(x); c.Severity == "fatal" {
			return s + fmt.Sprintf(" %d is more severe: %s", x.Code, c.Do)
		}
	}
	return s
}

// faults writes the faults of GPUs, burst by burst.
func (w *writer) faults(in *Input) {
	bursts := burstsOf(in.Xids)
	if len(bursts) == 0 {
		return
	}
	w.line("")
	w.text("GPU faults:", "  ")
	var notes []string
	for i, b := range bursts {
		if i == mostBursts {
			notes = append(notes, fmt.Sprintf("%s more: ingero sql \"SELECT * FROM xids\"", plural(uint64(len(bursts)-i), "burst")))
			break
		}
		notes = append(notes, b.text(w.loc)+". "+b.advice())
	}
	w.notes(notes, "  ")
}

func (s *Seen) addFaults(faults []tick.Xid) {
	for _, x := range faults {
		at := slices.IndexFunc(s.bursts, func(b []tick.Xid) bool { return b[0].Burst == x.Burst })
		switch {
		case at < 0:
			if len(s.bursts) == lastBursts {
				s.bursts = slices.Delete(s.bursts, 0, 1)
			}
			s.bursts = append(s.bursts, []tick.Xid{x})
		case len(s.bursts[at]) < maxSeenFaults:
			s.bursts[at] = append(s.bursts[at], x)
		default: // the last one gives the number
			s.bursts[at][maxSeenFaults-1] = x
		}
	}
}

// faults shows the latest bursts of faults: they usually explain the end of a job.
func (s *screen) faults(seen *Seen, zone *time.Location) {
	if seen == nil {
		return
	}
	for _, faults := range seen.bursts {
		for _, l := range wrap(burstsOf(faults)[0].text(zone), "  ", s.width) {
			s.addLine(span{l, red})
		}
	}
}

// gpus shows the state of each GPU, as far as known.
func (s *screen) gpus(gpus []tick.GPU) {
	for i := range gpus {
		if i == mostGPUs {
			s.addLine(span{fmt.Sprintf("  and %s more", plural(uint64(len(gpus)-i), "GPU")), plain})
			return
		}
		g := &gpus[i]
		name := g.Bus
		if g.Index >= 0 {
			name = fmt.Sprint(g.Index)
		}
		color := plain
		switch {
		case g.Lost:
			color = red
		case g.ECCLost != nil && *g.ECCLost > 0:
			color = yellow
		}
		for _, l := range wrap(joined(" ", "GPU", name, clean(g.Name))+": "+gpuText(g), "  ", s.width) {
			s.addLine(span{l, color})
		}
	}
}

// gpuText describes the known state of a GPU.
func gpuText(g *tick.GPU) string {
	if g.Lost {
		return "the GPU is lost: reset it, or reboot the machine"
	}
	var parts []string
	add := func(known bool, text func() string) {
		if known {
			parts = append(parts, text())
		}
	}
	add(g.Busy != nil, func() string { return Percent(*g.Busy) + " busy" })
	add(g.MIG, func() string { return "divided (MIG)" })
	add(g.MemUsed != nil, func() string {
		if g.MemTotal == nil {
			return Bytes(*g.MemUsed)
		}
		return Bytes(*g.MemUsed) + " of " + Bytes(*g.MemTotal)
	})
	add(g.ClockSM != nil, func() string { return Count(uint64(*g.ClockSM)/1e6) + " MHz" })
	add(g.Temperature != nil, func() string { return fmt.Sprintf("%.0f °C", *g.Temperature) })
	add(g.Power != nil, func() string { return fmt.Sprintf("%.0f W", *g.Power) })
	slowed := slices.DeleteFunc(slices.Clone(g.Throttle), func(why string) bool { return why == "idle" })
	add(len(slowed) > 0, func() string { return "slowed by " + clean(list(slowed)) })
	add(g.ECCLost != nil && *g.ECCLost > 0, func() string { return plural(uint64(*g.ECCLost), "uncorrected memory error") })
	if len(parts) == 0 {
		return "state unknown"
	}
	return strings.Join(parts, ", ")
}
