package explain

import (
	"fmt"
	"slices"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// placeParts are the parts of the time in a place, in the order of the text.
var placeParts = [...]string{"on_cpu", "runnable", "throttled", "blocked"}

func threadTimeOf(t *tick.ThreadTime) wire.ThreadTime {
	j := wire.ThreadTime{TID: t.TID, Comm: clean(t.Comm), ElapsedNS: t.Elapsed()}
	var all []uint64
	for p := range t.In {
		x := &t.In[p]
		all = append(all, x.OnCPU, x.Runnable, x.Throttled, x.Blocked)
	}
	shares := permille(all)
	for p := range t.In {
		x := &t.In[p]
		place := wire.PlaceTime{Place: tick.Place(p).String(), NS: x.Total()}
		sum := 0
		for i, name := range placeParts {
			share := shares[p*len(placeParts)+i]
			sum += share
			part := wire.BreakdownPart{Name: name, NS: all[p*len(placeParts)+i], Percent: float64(share) / 10}
			switch name {
			case "runnable":
				part.By = sharesOf(x.RunnableBy, false)
			case "blocked":
				part.By = sharesOf(x.BlockedOn, true)
			}
			place.Parts = append(place.Parts, part)
		}
		place.Percent = float64(sum) / 10
		j.In = append(j.In, place)
	}
	return j
}

func sharesOf(list []tick.Share, blocked bool) (out []wire.Share) {
	for i := range list {
		out = append(out, shareOf(&list[i], blocked))
	}
	return out
}

// causeRow is the time that one cause took of a thread, by place.
type causeRow struct {
	label string
	ns    [tick.Places]uint64
}

func (r *causeRow) sum() (ns uint64) {
	for _, n := range r.ns {
		ns += n
	}
	return ns
}

// mostCauses is the number of causes of a thread with their own row.
const mostCauses = 10

// causesOf divides the time of a thread by cause: its own activity, then what prevented it, largest
// first. The rows add up to the total.
func causesOf(t *tick.ThreadTime) []causeRow {
	var work, lost []causeRow
	add := func(rows *[]causeRow, label string, place tick.Place, ns uint64) {
		if ns == 0 {
			return
		}
		i := slices.IndexFunc(*rows, func(r causeRow) bool { return r.label == label })
		if i < 0 {
			i, *rows = len(*rows), append(*rows, causeRow{label: label})
		}
		(*rows)[i].ns[place] += ns
	}
	for p := range tick.Places {
		x := &t.In[p]
		if p == tick.InGPUWaits {
			add(&work, "the GPU", p, x.OnCPU+x.Blocked)
		} else {
			add(&work, "on a CPU", p, x.OnCPU)
		}
		named, rest := byName(x.RunnableBy, x.Runnable, tookCPU)
		for _, n := range named {
			add(&lost, n.name, p, n.ns)
		}
		add(&lost, "CPU taken, short runs", p, rest)
		add(&lost, "CPU quota", p, x.Throttled)
		if p == tick.InGPUWaits {
			continue
		}
		named, rest = byName(x.BlockedOn, x.Blocked, blockedOn)
		for _, n := range named {
			add(&lost, n.name, p, n.ns)
		}
		add(&lost, "short waits", p, rest)
	}
	slices.SortStableFunc(lost, func(a, b causeRow) int { return compareDown(a.sum(), b.sum()) })
	rows := append(work, lost...)
	if len(rows) > mostCauses {
		rest := causeRow{label: "other waits"}
		for i := range rows[mostCauses-1:] {
			for p, ns := range rows[mostCauses-1+i].ns {
				rest.ns[p] += ns
			}
		}
		rows = append(rows[:mostCauses-1], rest)
	}
	return rows
}

// tookCPU names the CPU user of a share of runnable time, as a cause.
func tookCPU(s *tick.Share) string {
	if s.Idle {
		return cpuUser(s)
	}
	return "CPU taken by " + cpuUser(s)
}

const (
	causeWide  = 28 // width of a cause's name, in columns
	mostTables = 8  // threads with their own table
)

// threadTimes writes where the time of each thread went.
func (w *writer) threadTimes(b *tick.Breakdown) {
	left := 0
	for i := range b.ByThread {
		t := &b.ByThread[i]
		switch {
		case t.Elapsed() == 0:
		case i >= mostTables:
			left++
		default:
			w.line("")
			w.threadTime(t)
		}
	}
	if left > 0 {
		w.text("and "+plural(uint64(left), "thread")+" more (--json has all)", "  ")
	}
}

func (w *writer) threadTime(t *tick.ThreadTime) {
	name := "other threads"
	if t.TID != 0 {
		name = fmt.Sprintf("thread %s (%d)", clean(t.Comm), t.TID)
	}
	w.line(w.cut("  "+name+", "+Duration(ns64(t.Elapsed())), reportWidth))
	row := func(label string, in [tick.Places]string, sum, percent string) {
		if w.noTruncate && cells(label) > causeWide {
			w.line("    " + label)
			label = ""
		}
		line := "    " + alignLeft(cut(label, causeWide), causeWide)
		for _, s := range in {
			line += alignRight(s, 10)
		}
		w.line(line + alignRight(sum, 10) + alignRight(percent, 8))
	}
	row("", [tick.Places]string{"GPU waits", "calls", "between"}, "all", "")
	rows := causesOf(t)
	sums := make([]uint64, len(rows))
	var all causeRow
	for i := range rows {
		sums[i] = rows[i].sum()
		for p, ns := range rows[i].ns {
			all.ns[p] += ns
		}
	}
	for i, share := range permille(sums) {
		var in [tick.Places]string
		for p, ns := range rows[i].ns {
			if ns > 0 {
				in[p] = short(ns64(ns))
			}
		}
		row(rows[i].label, in, short(ns64(sums[i])), tenths(share, sums[i])+" %")
	}
	var in [tick.Places]string
	for p, share := range permille(all.ns[:]) {
		in[p] = tenths(share, all.ns[p]) + " %"
	}
	row("", in, "", "100.0 %")
}
