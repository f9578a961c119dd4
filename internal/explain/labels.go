package explain

import (
	"fmt"
	"time"

	"ingero/internal/query"
	"ingero/internal/wire"
)

// Labels restrict a report to the time in which processes had all of some labels.
type Labels struct {
	List   []query.Label
	Ranges query.Ranges // of all recordings
	// Known is the part of a process's ranges that its breakdown covers.
	Known map[uint32]time.Duration
	// Partly counts, by process, the chains that lie only partly in the ranges, and are left out.
	Partly map[uint32]int
}

// Add adds the ranges of a recording. On a nil receiver it does nothing.
func (l *Labels) Add(within query.Ranges) {
	if l == nil {
		return
	}
	if l.Ranges == nil {
		l.Ranges, l.Known, l.Partly = query.Ranges{}, map[uint32]time.Duration{}, map[uint32]int{}
	}
	for pid, list := range within {
		l.Ranges[pid] = append(l.Ranges[pid], list...)
	}
}

// AddPartly adds chains that lie only partly in the ranges. On a nil receiver it does nothing.
func (l *Labels) AddPartly(chains map[uint32]int) {
	for pid, n := range chains {
		if l != nil {
			l.Partly[pid] += n
		}
	}
}

// partly says how many chains are left out, "" for none.
func (l *Labels) partly() string {
	n := 0
	for _, more := range l.Partly {
		n += more
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "1 cause lies only partly in these time ranges, and is left out: the report without labels has all causes."
	}
	return plural(uint64(n), "cause") + " lie only partly in these time ranges, and are left out: the report without labels has all causes."
}

// NoCause says that no cause lies in the ranges.
func (l *Labels) NoCause() string {
	return joined(" ", "No cause of lost time lies in the time ranges of "+joined(" and ", l.names()...)+".", l.partly())
}

// names returns the labels as they are written.
func (l *Labels) names() (out []string) {
	if l == nil {
		return nil
	}
	for _, x := range l.List {
		out = append(out, clean(x.Key+"="+x.Value))
	}
	return out
}

// restrict sets a process's period to that in which it had the labels.
func (l *Labels) restrict(p *wire.ProcessReport) {
	if l == nil || len(l.Ranges[p.PID]) == 0 {
		return
	}
	list := l.Ranges[p.PID]
	p.Labelled = &wire.LabelTime{Ranges: len(list), KnownNS: int64(l.Known[p.PID])}
	for _, x := range list {
		p.Labelled.TotalNS += x.To - x.From
	}
	p.From, p.To = time.Unix(0, list[0].From).UTC(), time.Unix(0, list[len(list)-1].To).UTC()
}

// notes says what the labels do not restrict, and what is left out.
func (l *Labels) notes(r *report) (out []string) {
	if l == nil {
		return nil
	}
	if text := l.partly(); text != "" {
		out = append(out, text)
	}
	for i := range r.Processes {
		if r.Processes[i].Memory != nil {
			return append(out, "GPU memory is that of the whole recording.")
		}
	}
	return out
}

// labels writes when each process had the labels of the report.
func (w *writer) labels(r *report) {
	if len(r.Labels) == 0 {
		return
	}
	if w.Len() > 0 {
		w.line("")
	}
	w.text("Only the time with "+joined(" and ", r.Labels...)+":", "  ")
	shown := 0
	for i := range r.Processes {
		p := &r.Processes[i]
		if p.Labelled == nil || p.Calls == 0 && p.Breakdown == nil {
			continue
		}
		if shown++; shown > mostHealthy {
			w.line("  and other processes")
			break
		}
		x := p.Labelled
		text := fmt.Sprintf("  %s: %s, %s", processName(p.Comm, p.PID), plural(uint64(x.Ranges), "time range"), Duration(x.TotalNS))
		if x.Ranges > 1 {
			text += " in all"
		}
		switch text += ", " + period(p.From, p.To, w.loc); {
		case x.KnownNS == 0:
			text += "; too short to say where all of it went"
		case Duration(x.KnownNS) != Duration(x.TotalNS):
			text += "; where it went is known for " + Duration(x.KnownNS)
		}
		w.text(text, "    ")
	}
}
