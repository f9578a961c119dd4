package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/where"
	"ingero/internal/wire"
)

// LostInput is the data of a summary of losses.
type LostInput struct {
	From, To time.Time // the window; zero: everything recorded
	Source   string    // the database
	Losses   []query.Loss
	Hidden   []tick.Hidden // excluded from the sums, by chain
	Observed []query.Observed
	Price    float64  // per GPU hour; 0: unspecified
	By       []string // "cause", "culprit", "job"; none: all of them
}

// LostBy are the groupings of losses, in order.
var LostBy = []string{"cause", "culprit", "job"}

// lostProcess is a process of a session.
type lostProcess struct {
	session string
	pid     uint32
}

// lostFacts has the job and the number of GPUs of each process.
type lostFacts struct {
	job  map[lostProcess]string
	gpus map[lostProcess]int
}

func (f *lostFacts) jobAndGPUs(l *query.Loss) (job string, gpus int) {
	k := lostProcess{l.Session.ID, l.PID}
	return cmp.Or(f.job[k], fmt.Sprintf("process %d", l.PID)), max(f.gpus[k], 1)
}

func buildLost(in *LostInput) *wire.Losses {
	r := &wire.Losses{From: in.From.UTC(), To: in.To.UTC(), Source: clean(in.Source), Price: in.Price, By: map[string][]wire.Loss{}, Nodes: []string{}, Hidden: hiddenOf(in.Hidden)}
	f := &lostFacts{map[lostProcess]string{}, map[lostProcess]int{}}
	observed, sessions := map[string]int64{}, map[string]bool{}
	together := map[string][]tick.Process{}
	for i := range in.Observed {
		o := &in.Observed[i]
		together[o.Session.ID] = append(together[o.Session.ID], o.Process)
	}
	for session, all := range together {
		for pid, job := range where.Jobs(all) {
			f.job[lostProcess{session, pid}] = clean(job)
		}
	}
	for i := range in.Observed {
		o := &in.Observed[i]
		k := lostProcess{o.Session.ID, o.Process.PID}
		f.gpus[k] = o.GPUs
		ns := int64(o.To.Sub(o.From)) * int64(o.GPUs)
		observed[f.job[k]] += ns
		r.ObservedNS += ns
		r.Processes++
		if !sessions[o.Session.ID] {
			sessions[o.Session.ID] = true
			r.Nodes = append(r.Nodes, clean(o.Session.Node))
		}
		if in.From.IsZero() && (i == 0 || o.From.Before(r.From)) {
			r.From = o.From.UTC()
		}
		if in.To.IsZero() && o.To.After(r.To) {
			r.To = o.To.UTC()
		}
	}
	slices.Sort(r.Nodes)
	r.Nodes, r.Sessions = slices.Compact(r.Nodes), len(sessions)
	for _, by := range LostBy {
		rows := lostRows(in.Losses, f, by)
		r.LostNS, r.WallNS = 0, 0
		for i := range rows {
			r.LostNS += rows[i].LostNS
		}
		for i := range rows {
			x := &rows[i]
			x.Share = float64(x.LostNS) / float64(max(r.LostNS, 1))
			x.Cost = in.Price * hours(x.LostNS)
			if by == "job" {
				x.ObservedNS = observed[x.Name]
			}
			r.WallNS += x.WallNS // the last ones are those of jobs
		}
		if len(in.By) == 0 || slices.Contains(in.By, by) {
			r.By[by] = rows
		}
	}
	r.Cost = in.Price * hours(r.LostNS)
	if r.ObservedNS > 0 {
		r.Share = float64(r.LostNS) / float64(r.ObservedNS)
	}
	return r
}

func hours(ns int64) float64 { return time.Duration(ns).Hours() }

// lostRows sums up losses by one of LostBy, the largest first.
func lostRows(losses []query.Loss, f *lostFacts, by string) []wire.Loss {
	type slot struct { // of the wall time of a job
		name, job string
		at        int64
	}
	wall := map[slot]map[lostProcess]int64{}
	sums := map[string]*wire.Loss{}
	for i := range losses {
		l := &losses[i]
		job, gpus := f.jobAndGPUs(l)
		name := map[string]string{"cause": clean(l.Rule), "culprit": cmp.Or(clean(l.Culprit), "unnamed"), "job": job}[by]
		if sums[name] == nil {
			sums[name] = &wire.Loss{Name: name}
		}
		sums[name].LostNS += int64(l.Lost) * int64(gpus)
		k := slot{name, job, l.Slot.UnixNano()}
		if wall[k] == nil {
			wall[k] = map[lostProcess]int64{}
		}
		wall[k][lostProcess{l.Session.ID, l.PID}] += int64(l.Lost)
	}
	for k, ranks := range wall { // ranks lose time in parallel
		most := int64(0)
		for _, ns := range ranks {
			most = max(most, ns)
		}
		sums[k.name].WallNS += most
	}
	out := []wire.Loss{}
	for _, x := range sums {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b wire.Loss) int { return cmp.Or(cmp.Compare(b.LostNS, a.LostNS), cmp.Compare(a.Name, b.Name)) })
	return out
}

// Losses formats the losses of a window as text, by cause, culprit and job.
func Losses(in *LostInput, o Options) string {
	w := &writer{loc: o.location(), noTruncate: o.NoTruncate}
	w.losses(in)
	if notes := hiddenNotes(in.Hidden, w.loc); len(notes) > 0 {
		w.line("")
		w.notes(notes, "")
	}
	return w.String()
}

func (w *writer) losses(in *LostInput) {
	r := buildLost(in)
	at := period(r.From, r.To, w.loc)
	if r.Processes == 0 {
		w.text("No process that uses CUDA was recorded"+commaed(at)+".", "")
		return
	}
	head := fmt.Sprintf("%s, %s", plural(uint64(r.Sessions), "recording"), plural(uint64(r.Processes), "process"))
	if len(r.Nodes) == 1 {
		head += " on " + r.Nodes[0]
	} else {
		head += " on " + plural(uint64(len(r.Nodes)), "machine")
	}
	w.text(head+commaed(at), "")
	if r.LostNS == 0 {
		w.text("No GPU time was lost of the "+gpuTime(r.ObservedNS)+" observed.", "")
		return
	}
	note := gpuTime(r.LostNS) + " of " + gpuTime(r.ObservedNS) + " of GPU time lost (" + Percent(r.Share) + "); " + Duration(r.WallNS) + " of wall time"
	if r.Price > 0 {
		note += fmt.Sprintf("; cost: %s at %s an hour", money(r.Cost), money(r.Price))
	}
	w.text(note, "")
	for _, by := range LostBy {
		if rows := r.By[by]; len(rows) > 0 {
			w.line("")
			w.lostTable(by, rows, r.Price > 0)
		}
	}
}

func commaed(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}

// gpuTime formats GPU time: in hours, or a smaller unit.
func gpuTime(ns int64) string {
	if h := hours(ns); h >= 1 {
		return string(appendSig3(nil, h)) + " h"
	}
	return short(ns)
}

func money(v float64) string {
	switch {
	case v > 0 && v < 0.005:
		return "<0.01"
	case v >= 100:
		return Count(uint64(v + 0.5))
	}
	return fmt.Sprintf("%.2f", v)
}

// mostLost is the number of lines of a table of losses.
const mostLost = 20

func (w *writer) lostTable(by string, rows []wire.Loss, price bool) {
	head := alignLeft("BY "+strings.ToUpper(by), 36) + alignRight("GPU time", 10) + alignRight("share", 9) + alignRight("wall", 10)
	if price {
		head += alignRight("cost", 10)
	}
	w.line(head)
	for i := range rows {
		if i == mostLost {
			w.line(fmt.Sprintf("  and %d more", len(rows)-i))
			break
		}
		x := &rows[i]
		line := alignLeft("  "+w.cut(x.Name, 33), 36) + alignRight(gpuTime(x.LostNS), 10) + alignRight(Percent(x.Share), 9) + alignRight(gpuTime(x.WallNS), 10)
		if price {
			line += alignRight(money(x.Cost), 10)
		}
		if x.ObservedNS > 0 && !price {
			line += "  of " + gpuTime(x.ObservedNS)
		}
		w.line(line)
	}
}

// LossesJSON is [Losses] as JSON, with full precision.
func LossesJSON(in *LostInput) ([]byte, error) {
	b, err := json.MarshalIndent(buildLost(in), "", "  ")
	return append(b, '\n'), err
}
