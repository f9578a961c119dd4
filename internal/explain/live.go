package explain

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Live formats the state of a session as the live table: the main line of each process, the call
// rate, where the time went, the machine, the operations of each layer with their counts and
// quantiles since the session began, and the scheduler's activity. seen has the content of the
// batches; nil: unknown. No line is wider than the options allow. If there are too many lines,
// operations are left out and counted.
func Live(t *tick.Tick, seen *Seen, o Options) string {
	t = o.Choice.apply(t)
	s := &screen{width: o.width(), color: o.Color, order: o.Choice.Order}
	s.head(t, o.location())
	s.faults(seen, o.location())
	s.rollCalls(t)
	s.shares(t)
	s.system(&t.Host)
	s.gpus(t.GPUs)
	s.servers(seen, t.Time)
	s.requests(seen, t)
	s.memory(t)
	ops := joinPIDs(t.Ops)
	s.layer(events.SourceRuntime, ops)
	s.layer(events.SourceDriver, ops)
	s.host(t, seen, o.location())
	for source := events.SourceGraph; source <= events.SourceGPU; source++ {
		if uses(ops, source) {
			s.layer(source, ops)
		}
		if source == events.SourceGraph && uses(ops, source) {
			s.graphs(t)
		}
	}
	s.foot(t, o.location())
	return s.render(o.Height)
}

// joinPIDs adds up each operation over all processes.
func joinPIDs(ops []tick.Op) []tick.Op {
	used := make([]tick.Op, 0, len(ops))
	for i := range ops {
		if ops[i].Sum.Calls > 0 {
			used = append(used, ops[i])
		}
	}
	return joinOps(used)
}

func uses(ops []tick.Op, s events.Source) bool {
	for i := range ops {
		if ops[i].Op.Source() == s {
			return true
		}
	}
	return false
}

// head writes the verdicts, the call rate, and the probes.
func (s *screen) head(t *tick.Tick, zone *time.Location) {
	var calls uint64
	for i := range t.Ops {
		calls += t.Ops[i].Last.Calls
	}
	var alive []*tick.Process
	for i := range t.Processes {
		if t.Processes[i].Ended.IsZero() {
			alive = append(alive, &t.Processes[i])
		}
	}
	target := "no process"
	if len(alive) == 0 && len(t.Processes) > 0 {
		last := &t.Processes[len(t.Processes)-1]
		target = processName(last.Comm, last.PID) + " has ended"
	} else if len(alive) > 0 {
		target = processName(alive[0].Comm, alive[0].PID)
		if more := len(alive) - 1; more > 0 {
			target += fmt.Sprintf(" and %d more", more)
		}
	}
	facts := []string{"- calls/s"}
	if t.Window > 0 {
		facts[0] = Count(uint64(float64(calls)/t.Window.Seconds()+0.5)) + " calls/s"
	}
	lost := Lost(t.Drops)
	facts = append(facts, Count(lost)+" lost")
	if n := len(t.Hidden); n > 0 {
		facts = append(facts, plural(uint64(n), "cause")+" not shown")
	}
	if up := t.Time.Sub(t.Started); up > 0 {
		facts = append(facts, "ingero uses "+Percent(float64(t.Self.CPU)/float64(up))+" CPU")
	}
	color := plain
	if lost > 0 {
		color = yellow
	}
	if s.verdicts(t, zone) {
		count := plural(uint64(len(alive)), "process")
		if len(alive) == 0 {
			count = "ended"
		}
		facts = append([]string{count}, facts...)
		s.addLine(span{strings.Join(facts, " · "), color})
		s.libraries(t, len(alive) > 0)
		return
	}
	line := strings.Join(facts, " · ")
	if room := s.width - cells(line) - 2; cells(target) <= room {
		s.addLine(span{alignLeft(target, room+2), bold}, span{line, color})
	} else {
		s.addLine(span{target, bold})
		s.addLine(span{line, color})
	}
	s.libraries(t, len(alive) > 0)
}

// probed lists the number of probes of each library and of the host.
func probed(t *tick.Tick, name func(string) string) (out []string) {
	for _, l := range t.Libraries {
		out = append(out, clean(name(l.Path))+" "+plural(uint64(max(l.Probes, 0)), "probe"))
	}
	if t.HostProbes > 0 {
		out = append(out, "host "+plural(uint64(t.HostProbes), "probe"))
	}
	return out
}

func (s *screen) libraries(t *tick.Tick, alive bool) {
	if len(t.Libraries) == 0 {
		if alive || len(t.Processes) == 0 {
			s.addLine(span{"no CUDA library is mapped yet", plain})
		}
		return
	}
	parts := probed(t, func(file string) string { return file })
	if cells(strings.Join(parts, " · ")) > s.width {
		parts = probed(t, path.Base)
	}
	line := parts[0]
	for i, p := range parts[1:] {
		if next := line + " · " + p; cells(next) <= s.width-len(" · 00 more") || i == len(parts)-2 && cells(next) <= s.width {
			line = next
			continue
		}
		line += fmt.Sprintf(" · %d more", len(parts)-1-i)
		break
	}
	s.addLine(span{line, plain})
}

// system writes the state of the machine.
func (s *screen) system(h *tick.Host) {
	s.title("System Context")
	if h.CPUs == 0 && h.MemTotal == 0 {
		s.addLine(span{"  unknown", plain})
		return
	}
	mem, swap := share(h.MemTotal-h.MemAvail, h.MemTotal), share(h.SwapUsed, h.SwapTotal)
	s.addLine(slices.Concat([]span{{"  CPU  ", plain}}, meter(h.CPU), []span{{alignLeft(" of "+strconv.Itoa(h.CPUs), 10) + "Mem ", plain}},
		meter(mem), []span{{", " + Bytes(h.MemAvail) + " free", plain}})...)
	load := fmt.Sprintf("Load %.2f %.2f %.2f", h.Load[0], h.Load[1], h.Load[2])
	if h.SwapTotal == 0 {
		s.addLine(span{alignLeft("  Swap none", 41) + load, plain})
		return
	}
	s.addLine(slices.Concat([]span{{"  Swap ", plain}}, meter(swap), []span{{alignLeft(", "+Bytes(h.SwapUsed), 14) + load, plain}})...)
}

func share(part, all int64) float64 {
	if all <= 0 {
		return 0
	}
	return min(1, max(0, float64(part)/float64(all)))
}

// meter shows a share as a bar with a number.
func meter(share float64) []span {
	const size = 10
	share = min(1, max(0, share))
	color := green
	switch {
	case share >= 0.9:
		color = red
	case share >= 0.7:
		color = yellow
	}
	full := int(share*size + 0.5)
	return []span{{"[" + strings.Repeat("#", full) + strings.Repeat("-", size-full) + "]", color}, {alignRight(Percent(share), 8), plain}}
}

// Columns of a row: two spaces, the name, the count, three quantiles, flags.
const (
	countWide    = 12
	quantileWide = 10
	flagsWide    = 14
	longestName  = 38
)

// layer writes the table of one layer.
func (s *screen) layer(source events.Source, ops []tick.Op) {
	var total uint64
	for i := range ops {
		if ops[i].Op.Source() == source {
			total += ops[i].Sum.Calls
		}
	}
	title := layerTitle(source.String())
	if total == 0 {
		s.title(title + ": no calls")
		return
	}
	name := min(longestName+1, max(22, s.width-2-countWide-3*quantileWide-flagsWide))
	head := alignLeft(title+": "+plural(total, "call"), 2+name+countWide-6) + " Count"
	if cells(head) > 2+name+countWide {
		head = alignLeft(title+": "+Count(total), 2+name+countWide)
	}
	s.title(head + alignRight("p50", quantileWide) + alignRight("p95", quantileWide) + alignRight("p99", quantileWide) + "  Flags")
	for _, o := range s.order.list(source, ops) {
		s.coarse = s.coarse || o.q.coarse()
		text := "  " + alignLeft(cut(o.Op.Op.String(), name-1), name) + alignRight(Count(o.Sum.Calls), countWide)
		for _, ns := range []int64{o.q.p50, o.q.p95, o.q.p99} {
			text += alignRight(o.q.text(ns), quantileWide)
		}
		s.row(o.rank, append([]span{{text, plain}}, flags(o.Op, &o.q)...))
	}
}

// slowFrom is the shortest duration that can get a flag, in ns; slowBy is its multiple of the usual
// duration.
const (
	slowFrom = 1e6
	slowBy   = 3
)

// flags returns the anomalies in words: the slowest hundredth of the last second, and failures.
func flags(o *tick.Op, q *quantiles) []span {
	var out []span
	if o.DurLast != nil && o.DurLast.Count() > 0 && q.known {
		if p99 := o.DurLast.Quantile(0.99); p99 > slowFrom && p99 > slowBy*q.p50 {
			out = append(out, span{"  slow p99", yellow})
		}
	}
	if o.Sum.Errors > 0 {
		out = append(out, span{"  " + Count(o.Sum.Errors) + " failed", red})
	}
	return out
}

// lossWarning is the share of lost records that causes a warning.
const lossWarning = 0.05

// foot writes the drops, by reason, and ingero's own usage.
func (s *screen) foot(t *tick.Tick, zone *time.Location) {
	s.blank()
	lost := Lost(t.Drops)
	var parts []string
	for _, d := range t.Drops {
		if d.Count > 0 {
			parts = append(parts, clean(d.Reason)+"="+Count(d.Count))
		}
	}
	if len(parts) > 0 {
		color := plain
		if lost > 0 {
			color = yellow
		}
		for _, l := range wrap("Events dropped: "+strings.Join(parts, " "), "  ", s.width) {
			s.addLine(span{l, color})
		}
	}
	if share := float64(lost) / float64(max(lost+t.Records, 1)); share > lossWarning {
		s.addLine(span{"WARN " + Percent(share) + " of events were lost", red})
	}
	if s.coarse {
		s.addLine(span{fmt.Sprintf("~ from the kernel's histogram, ±%.0f %%: records were thinned or lost", 100*stats.HistError), plain})
	}
	for _, r := range t.Reports {
		if _, bears := reportWords[r.Kind]; bears {
			s.notes++
		}
	}
	if s.notes > 0 {
		s.addLine(span{plural(uint64(s.notes), "limit") + " of this view: ingero explain lists them", plain})
	}
	line := t.Time.In(zone).Format("15:04:05 MST")
	if up := t.Time.Sub(t.Started); up > 0 {
		line += ", after " + Duration(up.Round(time.Second).Nanoseconds()) + " · ingero: " + Percent(float64(t.Self.CPU)/float64(up)) + " CPU"
	}
	if t.Self.RSS > 0 { // else unknown
		line += ", " + Bytes(t.Self.RSS) + " memory"
	}
	s.addLine(span{line, plain})
	if text := Overhead(&t.Overhead); len(t.Overhead.Shed) > 0 {
		for _, l := range wrap("Tracing: "+text, "  ", s.width) {
			s.addLine(span{l, yellow})
		}
	}
	if text := blindSpotText(t.Untold, zone); text != "" {
		for _, l := range wrap(text, "  ", s.width) {
			s.addLine(span{l, yellow})
		}
	}
}

// Overhead describes the cost of tracing, and what is shed, in one line.
func Overhead(o *tick.Overhead) string {
	if !(o.Budget > 0) {
		return "no limit"
	}
	s := Percent(o.Share) + " of the traced time, limit " + Percent(o.Budget)
	if len(o.Shed) > 0 {
		s += "; shed: " + strings.Join(o.Shed, ", ")
	}
	if f := &o.Floor; f.Share > 0 {
		s += fmt.Sprintf("; probes need at least %s: %d ns for each of %s calls a second", Percent(f.Share), f.Probe.Nanoseconds(), Count(uint64(f.Rate)))
	}
	return s
}
