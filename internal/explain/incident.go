package explain

import (
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
	if len(slowed) > 0 || w.Len() > 0 {
		w.line("")
	}
	for i, p := range well {
		if i == mostHealthy && len(well) > mostHealthy+1 {
			w.text("Nothing slowed "+plural(uint64(len(well)-mostHealthy), "other process")+" either.", "  ")
			break
		}
		w.text(healthy(p, r.source[p.PID], over(p)), "  ")
	}
	if len(slowed) > 0 {
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
