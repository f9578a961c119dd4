package explain

import (
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// mostHealthy is the number of healthy processes with their own line.
const mostHealthy = 8

// incident writes the losses with their causes, or that there were none.
func (w *writer) incident(in *Input, r *report, detail Detail) {
	if len(r.Chains) > 0 {
		w.line(chainsHead(r.Chains))
		w.text(w.about(r), "  ")
	}
	w.labels(r)
	for i := range r.Chains {
		w.line("")
		w.chain(&r.Chains[i])
	}
	slowed := slowedIn(in, r)
	for i := range r.Processes {
		if p := &r.Processes[i]; p.Unexplained != nil && slowed[p.PID] {
			w.line("")
			w.text(p.Unexplained.Text, "  ")
		}
	}
	w.wells(in, r, slowed)
	if detail == Tables { // the tables include these
		return
	}
	for i := range r.Processes {
		if p := &r.Processes[i]; p.Breakdown != nil && (slowed[p.PID] || detail > Brief) {
			w.line("")
			w.breakdown(p, r.source[r.Processes[i].PID])
			if detail > Brief && len(p.Notes) > 0 {
				w.line("")
				w.notes(p.Notes, "")
			}
		}
	}
}

// slowedIn returns the processes with losses, by PID.
func slowedIn(in *Input, r *report) map[uint32]bool {
	slowed := map[uint32]bool{}
	for i := range r.Chains {
		slowed[r.Chains[i].PID] = true
	}
	for i := range r.Hidden { // hidden losses are losses, too
		slowed[r.Hidden[i].PID] = true
	}
	if in.Labels != nil { // so are those that lie partly in the ranges of labels
		for pid := range in.Labels.Partly {
			slowed[pid] = true
		}
	}
	return slowed
}

// about describes the subject of a report with chains.
func (w *writer) about(r *report) string {
	var names []string
	for i := range r.Processes {
		if p := &r.Processes[i]; p.Calls > 0 || p.Breakdown != nil {
			names = append(names, processName(p.Comm, p.PID))
		}
	}
	of := strings.Join(names, ", ")
	if len(names) > 3 {
		of = plural(uint64(len(names)), "process")
	}
	return joined(" · ", of, period(r.From, r.To, w.loc), prefixed("node ", r.Node), r.Source)
}

// wells writes a sentence for each healthy process.
func (w *writer) wells(in *Input, r *report, slowed map[uint32]bool) {
	var well []*wire.ProcessReport
	for i := range r.Processes {
		if p := &r.Processes[i]; p.Breakdown != nil && !slowed[p.PID] {
			well = append(well, p)
		}
	}
	if len(well) == 0 {
		return
	}
	slow := func(p *wire.ProcessReport) bool { return p.Unexplained != nil }
	well = slices.Concat(slices.DeleteFunc(slices.Clone(well), func(p *wire.ProcessReport) bool { return !slow(p) }), slices.DeleteFunc(well, slow))
	if len(slowed) > 0 || w.Len() > 0 {
		w.line("")
	}
	for i, p := range well {
		if i == mostHealthy && len(well) > mostHealthy+1 {
			w.rest(well[mostHealthy:], slow(well[0]))
			break
		}
		if p.Unexplained != nil {
			w.text(p.Unexplained.Text, "  ")
			continue
		}
		w.text(healthy(p, r.source[p.PID], over(p)), "  ")
	}
	if len(slowed) > 0 || slow(well[0]) { // the remark says that others did not slow the jobs
		return
	}
	list := map[uint32]*tick.Breakdown{}
	for _, p := range well {
		list[p.PID] = r.source[p.PID]
	}
	if remark := busy(in, list); remark != "" {
		w.text(remark, "  ")
	}
}

// rest writes a sentence for the processes without a line of their own, those with slow steps first. some
// reports whether any process has slow steps.
func (w *writer) rest(list []*wire.ProcessReport, some bool) {
	n := 0
	for n < len(list) && list[n].Unexplained != nil {
		n++
	}
	if n > 0 {
		w.text("Slow or unfinished steps that no rule explains: "+plural(uint64(n), "other process")+".", "  ")
	}
	switch more := plural(uint64(len(list)-n), "other process"); {
	case n == len(list):
	case some:
		w.text("Nothing slowed "+more+".", "  ")
	default:
		w.text("Nothing slowed "+more+" either.", "  ")
	}
}

// over returns how long a process was traced, as far as a breakdown covers it.
func over(p *wire.ProcessReport) time.Duration {
	if p.Labelled != nil {
		return time.Duration(p.Labelled.KnownNS)
	}
	if p.From.IsZero() || p.To.IsZero() || !p.To.After(p.From) {
		return 0
	}
	return p.To.Sub(p.From)
}
