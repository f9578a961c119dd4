package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

func hostSumsOf(sums []tick.HostSum) []wire.HostSum {
	out := []wire.HostSum{}
	for i := range sums {
		s := &sums[i]
		row := s.Kind.Row()
		j := wire.HostSum{Kind: s.Kind.String(), PID: s.PID, Comm: clean(s.Comm), Object: clean(s.Named()), Failed: s.Failed}
		if row.One != "" {
			j.Count = &s.Count
		}
		switch s.Kind {
		case tick.HostSignal:
			j.Sender = &s.Sender
		case tick.HostLockRefused:
			j.Holder = &s.Sender
		}
		if row.Bytes {
			j.Bytes = &s.Bytes
		}
		timed := s.Hist.Count() > 0
		if row.NS != "" && (s.NS > 0 || timed) {
			j.TotalNS = &s.NS
		}
		if timed {
			j.P50NS, j.P99NS = new(s.Hist.Quantile(0.5)), new(s.Hist.Quantile(0.99))
		}
		out = append(out, j)
	}
	return out
}

// hostLine describes the sums of one kind.
type hostLine struct {
	title string
	text  string
	bad   bool // a problem
}

// badHost are the kinds that always slow or end a process.
var badHost = map[tick.HostEvent]bool{
	tick.HostReclaim: true, tick.HostCgroupReclaim: true, tick.HostOOM: true, tick.HostSignal: true, tick.HostRetransmit: true,
	tick.HostThrottled: true, tick.HostAtLimit: true, tick.HostSwapIn: true, tick.HostMemoryFull: true, tick.HostIOFull: true, tick.HostSteal: true,
}

// hostLines returns one line for each kind of host event.
func hostLines(sums []tick.HostSum) []hostLine {
	byKind := map[tick.HostEvent][]tick.HostSum{}
	for i := range sums {
		byKind[sums[i].Kind] = append(byKind[sums[i].Kind], sums[i])
	}
	var kinds []tick.HostEvent
	for k := range byKind {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	var out []hostLine
	for _, k := range kinds {
		of := byKind[k]
		if k.Row().Object == "cgroup" && !k.Row().PID { // one line for each cgroup; the machine's has no name
			for i := range of {
				out = append(out, hostLine{k.Row().Title, hostText(k, of[i:i+1]), badHost[k]})
			}
			continue
		}
		out = append(out, hostLine{k.Row().Title, hostText(k, of), badHost[k]})
	}
	return out
}

// mostNamed is the number of named causers.
const mostNamed = 3

// hostText describes the sums of a kind: the total, and the largest causer.
func hostText(k tick.HostEvent, sums []tick.HostSum) string {
	row := k.Row()
	var all tick.HostSum
	for i := range sums {
		all.Add(&sums[i])
	}
	parts := amounts(row, &all)
	if n := all.Hist.Count(); n > 0 {
		what := row.NS + " "
		if row.NS == row.One {
			what = ""
		}
		parts = append(parts, what+"p50 "+short(all.Hist.Quantile(0.5))+" p99 "+short(all.Hist.Quantile(0.99)))
	}
	if all.Failed > 0 {
		parts = append(parts, Count(all.Failed)+" failed")
	}
	text := strings.Join(parts, ", ")
	slices.SortFunc(sums, func(a, b tick.HostSum) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Count, a.Count), tick.ByHostKey(a, b))
	})
	var names []string
	for i := range sums {
		if len(names) == mostNamed {
			names = append(names, "...")
			break
		}
		name := hostName(row, &sums[i])
		if name == "" {
			continue
		}
		if len(sums) > 1 {
			if x := amounts(row, &sums[i]); len(x) > 0 {
				name += " " + x[len(x)-1]
			}
		}
		names = append(names, name)
	}
	if len(names) > 0 {
		text += ": " + strings.Join(names, " · ")
	}
	return text
}

// amounts returns count, bytes and duration.
func amounts(row *tick.HostRow, s *tick.HostSum) (parts []string) {
	if row.One != "" {
		parts = append(parts, plural(s.Count, row.One))
	}
	if row.Bytes {
		parts = append(parts, Bytes(int64(min(s.Bytes, 1<<62))))
	}
	if row.NS != "" && s.NS > 0 && row.NS != "round trip" { // round trips overlap
		parts = append(parts, short(ns64(s.NS)))
	}
	return parts
}

// hostName returns the owner and the object of a sum.
func hostName(row *tick.HostRow, s *tick.HostSum) string {
	name := ""
	switch {
	case s.Kind == tick.HostSignal && s.Sender == 0:
		return "to " + strconv.Itoa(int(s.PID)) + " " + s.Object + " from the kernel"
	case s.Kind == tick.HostSignal:
		return "to " + strconv.Itoa(int(s.PID)) + " " + s.Object + " from " + processName(s.Comm, s.Sender)
	case s.Kind == tick.HostLockRefused && s.Sender != 0:
		name = processName(s.Comm, s.PID) + " by " + strconv.Itoa(int(s.Sender))
	case s.PID != 0:
		name = processName(s.Comm, s.PID)
	case row.PID:
		name = "others"
	}
	switch {
	case s.Object == "":
		return name
	case name == "":
		return clean(s.Object)
	}
	link := " on "
	switch row.Object {
	case "peer":
		link = " with "
	case "cgroup":
		link = " in "
	case "order":
		link = " "
	case "threads":
		link = " in threads: "
	case "limit":
		if l, ok := tick.ParseLimit(s.Object); ok {
			return name + " in " + clean(l.Group) + " (" + clean(l.Value()) + ")"
		}
	}
	return name + link + clean(s.Object)
}

// happened writes the host events in the window, if any.
func (w *writer) happened(sums []tick.HostSum) {
	lines := hostLines(sums)
	if len(lines) == 0 {
		return
	}
	w.line("")
	w.line("ON THE HOST")
	for _, l := range lines {
		w.hang("  "+alignLeft(l.title, titleWide), l.text)
	}
}

// offWords name the setting that turns a part off.
var offWords = map[string]string{
	"disks": " (--no-io)", "tcp": " retransmits (--no-tcp)", "sockets": " (--no-net)", "page-allocations": " (--pages counts them)",
}

// titleWide is the width of the host events' titles.
const titleWide = 18

// hostSums shows the host events in the live table.
func (s *screen) hostSums(sums []tick.HostSum, reports []tick.Report) {
	lines := hostLines(sums)
	for i, l := range lines {
		color := plain
		rank := uint64(len(lines) - i)
		if l.bad {
			color, rank = yellow, rank+uint64(len(lines))
		}
		s.row(rank, []span{{cut("  "+alignLeft(l.title, titleWide)+l.text, s.width), color}})
	}
	var off []string
	for _, r := range reports {
		if r.Kind == "host-off" {
			off = append(off, clean(strings.ReplaceAll(r.Object, "-", " "))+offWords[r.Object])
		}
	}
	if len(off) > 0 {
		s.addLine(span{cut("  "+alignLeft("off", titleWide)+strings.Join(off, ", "), s.width), plain})
	}
}
