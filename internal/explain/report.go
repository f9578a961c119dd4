package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ingero/internal/stats"
	"ingero/internal/where"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// reportWidth is the fixed width of a report.
const reportWidth = 80

// Report formats a window as text, 80 columns wide: the losses with their causes, chain by chain;
// where processes' time went; their operations, layer by layer; and what was not seen.
// Options.Detail sets the level of detail. Processes without breakdowns are described by their
// operations. An empty report is one sentence.
func Report(in *Input, o Options) string {
	r := build(in)
	r.Notes = append(r.Notes, hiddenNotes(in.Hidden, o.location())...)
	w := &writer{loc: o.location(), noTruncate: o.NoTruncate}
	if len(r.source) == 0 && len(r.Chains)+len(r.Hidden) == 0 {
		if w.labels(&r); w.Len() > 0 {
			w.line("")
		}
		w.tables(&r)
		w.requests(in, &r)
		w.memory(in, &r)
		w.happened(in.HostSums)
		w.servers(in.Servers)
		w.faults(in)
		w.ending(&r, true)
		return w.String()
	}
	w.incident(in, &r, o.Detail)
	if o.Detail > Brief {
		w.happened(in.HostSums)
	}
	if o.Detail == Tables {
		w.line("")
		w.tables(&r)
	}
	w.requests(in, &r)
	w.memory(in, &r)
	w.servers(in.Servers)
	w.faults(in)
	w.ending(&r, o.Detail > Brief)
	return w.String()
}

// tables writes each process with its operations.
func (w *writer) tables(r *report) {
	shown := 0
	for i := range r.Processes {
		if p := &r.Processes[i]; p.Calls > 0 {
			if shown++; shown > 1 {
				w.line("")
			}
			w.process(r, p)
		}
	}
	if shown == 0 {
		w.text(nothing(r, w.loc), "")
		return
	}
	w.silent(r)
}

// ending writes what affects the whole report.
func (w *writer) ending(r *report, machine bool) {
	if len(r.Notes) > 0 {
		w.line("")
		w.notes(r.Notes, "")
	}
	if machine && (r.Self != nil || r.Host != nil) {
		w.line("")
		w.machine(r)
	}
}

// BuildReport returns the content of Report, with full precision.
func BuildReport(in *Input) *wire.Report {
	r := build(in)
	return &r.Report
}

// ReportJSON is BuildReport as JSON.
func ReportJSON(in *Input) ([]byte, error) {
	b, err := json.MarshalIndent(BuildReport(in), "", "  ")
	return append(b, '\n'), err
}

// nothing is the text for a window without calls.
func nothing(r *report, loc *time.Location) string {
	s := "No CUDA calls were recorded"
	if len(r.Processes) == 1 {
		s = processName(r.Processes[0].Comm, r.Processes[0].PID) + " made no CUDA calls"
	} else if len(r.Processes) > 1 {
		s = plural(uint64(len(r.Processes)), "process") + " with CUDA made no CUDA calls"
	}
	if at := period(r.From, r.To, loc); at != "" {
		s += ", " + at
	}
	return s + "."
}

// silent names the processes that are not shown.
func (w *writer) silent(r *report) {
	var names []string
	for i := range r.Processes {
		if p := &r.Processes[i]; p.Calls == 0 {
			names = append(names, processName(p.Comm, p.PID))
		}
	}
	if len(names) > 0 {
		w.line("")
		w.text("No CUDA calls: "+strings.Join(names, ", ")+".", "  ")
	}
}

type writer struct {
	strings.Builder
	loc        *time.Location
	noTruncate bool // nothing is truncated
}

// cut truncates a line of names, unless w.noTruncate is set.
func (w *writer) cut(s string, width int) string {
	if w.noTruncate {
		return s
	}
	return cut(s, width)
}

// wrap breaks prose into lines. A word wider than a line is truncated unless w.noTruncate is set.
func (w *writer) wrap(text, indent string, width int) []string {
	if w.noTruncate {
		return wrapWords(text, indent, width)
	}
	return wrap(text, indent, width)
}

func (w *writer) line(s string) {
	w.WriteString(strings.TrimRight(s, " "))
	w.WriteByte('\n')
}

// text writes lines of at most 80 columns.
func (w *writer) text(s, indent string) {
	for _, l := range w.wrap(s, indent, reportWidth) {
		w.line(l)
	}
}

// hang writes a text beside head, in as many lines as needed.
func (w *writer) hang(head, text string) {
	for i, l := range w.wrap(text, "", reportWidth-cells(head)) {
		if i > 0 {
			head = strings.Repeat(" ", cells(head))
		}
		w.line(head + l)
	}
}

func (w *writer) notes(notes []string, indent string) {
	for _, n := range notes {
		for i, l := range w.wrap(n, "", reportWidth-2-len(indent)) {
			w.line(indent + []string{"- ", "  "}[min(i, 1)] + l)
		}
	}
}

func (w *writer) process(r *report, p *wire.ProcessReport) {
	w.text(joined(" · ", processName(p.Comm, p.PID), period(p.From, p.To, w.loc), prefixed("node ", r.Node), r.Source), "  ")
	if line := orWords(p.Cmdline, p.Exe); line != "" {
		w.line("  " + w.cut(line, reportWidth-2))
	}
	if s := whereText(&p.Where); s != "" {
		w.text("  "+s, "  ")
	}
	if p.Engine != nil {
		w.text("  "+where.EngineText(p.Engine), "  ")
	}
	w.text("  "+callsOf(p), "  ")
	if p.Breakdown != nil || p.Time != nil {
		w.line("")
		w.where(r, p)
	}
	if b := r.source[p.PID]; b != nil {
		w.threadTimes(b)
	}
	for i := range p.Layers {
		w.line("")
		w.layer(p, &p.Layers[i])
	}
	if f := p.Functions; f != nil && f.Functions+len(f.Unnamed) > 0 { // old recordings have none
		w.functions(p.Functions)
	}
	if len(p.Notes) > 0 {
		w.line("")
		w.notes(p.Notes, "")
	}
}

// callsOf describes a process's calls, and those that failed.
func callsOf(r *wire.ProcessReport) string {
	s := plural(r.Outermost, "call")
	if inside := r.Calls - r.Outermost; inside > 0 {
		s += ", " + Count(inside) + " more nested in them"
	}
	if r.Launch != nil {
		s += "; " + plural(*r.Launch, "launch")
	}
	var failed []string
	for i := range r.Ops {
		if o := &r.Ops[i]; o.Errors > 0 {
			failed = append(failed, o.Op+" "+Count(o.Errors))
		}
	}
	switch {
	case r.Time == nil:
		return s
	case len(failed) == 0:
		return s + "; none failed"
	}
	return s + "; failed: " + strings.Join(failed, ", ")
}

// layerTitles are the layers' titles, by source.
var layerTitles = map[string]string{
	events.SourceRuntime.String(): "CUDA Runtime", events.SourceDriver.String(): "CUDA Driver", events.SourceGraph.String(): "CUDA Graph",
	events.SourceNCCL.String(): "NCCL",
}

func layerTitle(source string) string { return cmp.Or(layerTitles[source], source) }

// layer writes the two tables of a layer: durations of calls, and their parts.
func (w *writer) layer(p *wire.ProcessReport, l *wire.Layer) {
	title := layerTitle(l.Source) + ": " + plural(l.Calls, "call")
	if l.Source == events.SourceDriver.String() {
		title += ", " + Count(l.Outermost) + " not made by the runtime"
	}
	if l.SelfNS != nil {
		own := Duration(ns64(*l.SelfNS))
		if l.SelfAtMost {
			own = "at most " + own
		}
		title += ", own time " + own
	}
	w.text(title, "  ")
	var ops []*wire.Op
	for i := range p.Ops {
		if p.Ops[i].Source == l.Source {
			ops = append(ops, &p.Ops[i])
		}
	}
	w.latencies(ops)
	if l.SelfNS != nil {
		w.splits(ops)
	}
}

// latencies writes counts and quantiles.
func (w *writer) latencies(ops []*wire.Op) {
	wide, most := 8, 7
	for _, o := range ops {
		wide = max(wide, cells(atLeast(o))+1)
		most = max(most, len(Count(o.Errors))+1)
	}
	name := reportWidth - 2 - wide - most - 4*10
	w.line("  " + alignLeft("", name) + alignRight("calls", wide) + alignRight("errors", most) + alignRight("p50", 10) + alignRight("p95", 10) + alignRight("p99", 10) + alignRight("max", 10))
	for _, o := range ops {
		errs := Count(o.Errors)
		if o.Done == 0 {
			errs = unknown
		}
		row := alignRight(atLeast(o), wide) + alignRight(errs, most)
		for _, ns := range []*int64{o.P50NS, o.P95NS, o.P99NS, o.MaxNS} {
			row += alignRight(quantileText(ns, o.QuantileError), 10)
		}
		w.named(o.Op, name, row)
	}
}

// atLeast returns the count of calls.
func atLeast(j *wire.Op) string {
	if j.LowerBound {
		return "≥" + Count(j.Calls)
	}
	return Count(j.Calls)
}

// quantileText formats a quantile with its relative error.
func quantileText(ns *int64, relative float64) string {
	switch {
	case ns == nil:
		return unknown
	case relative > stats.SketchError:
		return "~" + short(*ns)
	}
	return short(*ns)
}

// splits writes the parts of the calls' time.
func (w *writer) splits(ops []*wire.Op) {
	const name = 21
	w.line("  " + alignLeft("", name) + alignRight("total", 9) + alignRight("on CPU", 9) + alignRight("", 7) + alignRight("runnable", 9) + alignRight("", 7) + alignRight("blocked", 9))
	for _, o := range ops {
		if o.Done == 0 {
			w.named(o.Op, name, alignRight(unknown, 9)+alignRight(unknown, 9)+alignRight("", 7)+alignRight(unknown, 9)+alignRight("", 7)+alignRight(unknown, 9))
			continue
		}
		s := partsOfCalls(o)
		parts := []uint64{s.onCPU, s.runnable, s.blocked, s.partial, s.throttled}
		share := permille(parts)
		row := alignRight(short(ns64(s.total)), 9)
		for i, part := range parts[:3] {
			row += alignRight(short(ns64(part)), 9) + alignRight(tenths(share[i], part)+"%", 7)
		}
		w.named(o.Op, name, row)
		if s.throttled > 0 {
			w.text(fmt.Sprintf("      + %s %s%% throttled: the CPU quota of its cgroup was used up", short(ns64(s.throttled)), tenths(share[4], s.throttled)), "        ")
		}
		if s.partial > 0 {
			w.text(fmt.Sprintf("      + %s %s%% on CPU or blocked: threads that blocked and changed CPU", short(ns64(s.partial)), tenths(share[3], s.partial)), "        ")
		}
	}
}

// named writes a row whose name may be too long for its column.
func (w *writer) named(name string, width int, row string) {
	if cells(name) > width {
		w.line("  " + name)
		name = ""
	}
	w.line("  " + alignLeft(name, width) + row)
}

// machine describes the activity of the machine and of ingero.
func (w *writer) machine(r *report) {
	var parts []string
	if h := r.Host; h != nil {
		parts = append(parts, fmt.Sprintf("Machine: CPU %s of %d, load %.2f, %s of memory free", Percent(h.CPU), h.CPUs, h.Load[0], Bytes(h.MemAvail)))
	}
	if s := r.Self; s != nil {
		parts = append(parts, "ingero: "+Duration(s.CPUNS)+" of CPU, "+Bytes(s.RSS))
	}
	w.text(strings.Join(parts, " · "), "  ")
}

// period formats a window in the reader's time zone.
func period(from, to time.Time, loc *time.Location) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	from, to = from.In(loc), to.In(loc)
	clock := "15:04:05"
	if to.Sub(from) < 10*time.Second {
		clock = "15:04:05.000"
	}
	first, last := from.Format("2006-01-02 "+clock), to.Format(clock+" MST")
	if from.Format(time.DateOnly) != to.Format(time.DateOnly) {
		return first + " - " + to.Format("2006-01-02 "+clock+" MST")
	}
	return first + "-" + last
}

// joined joins the non-empty parts.
func joined(sep string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, sep)
}

// prefixed puts a word before a non-empty name.
func prefixed(word, name string) string {
	if name == "" {
		return ""
	}
	return word + name
}
