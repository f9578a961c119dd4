package explain

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ingero/internal/diff"
	"ingero/internal/tick"
)

// Diff writes the differences between two runs as text, 80 columns wide. For each role in both, it
// reports how much longer a step is, which parts of the ledger explain that, their culprits, and
// which calls are more frequent. Without a finding it says so.
func Diff(r *diff.Result, o Options) string {
	w := &writer{loc: o.location(), noTruncate: o.NoTruncate}
	w.diffRuns(r)
	for i := range r.Pairs {
		p := &r.Pairs[i]
		if i == mostPairs {
			w.text(fmt.Sprintf("and %s more that are in both; --json has all", plural(uint64(len(r.Pairs)-i), "process")), "")
			break
		}
		if i == 0 || p.Findings() > 0 {
			w.line("")
		}
		w.diffPair(p, len(r.Pairs) > 1)
	}
	w.diffUnmatched(r)
	return w.String()
}

// mostPairs is the number of roles reported.
const mostPairs = 16

func (w *writer) diffRuns(r *diff.Result) {
	for _, x := range []struct {
		name string
		run  *diff.Run
	}{{"A", r.A}, {"B", r.B}} {
		w.hang(x.name+"  ", clean(x.run.Path)+", "+period(x.run.From, x.run.To, w.loc)+", node "+clean(x.run.Session.Node))
		for _, note := range diffRemarks(x.run) {
			w.hang("   ", note)
		}
	}
}

// diffRemarks returns what a reader must know about a run.
func diffRemarks(run *diff.Run) (out []string) {
	switch {
	case run.Session.Pruned:
		out = append(out, "its calls and accounts were deleted: only the times of operations are compared")
	case run.Session.Cut:
		out = append(out, "its first calls were deleted to free space")
	}
	switch {
	case run.Cover.Estimate:
		out = append(out, "not every call was recorded: its counts are estimates")
	case run.Cover.Thinned:
		out = append(out, "not every call was recorded: its quantiles are estimates")
	}
	if len(run.Untimed) > 0 {
		out = append(out, "not every call was timed, to limit overhead ("+strings.Join(run.Untimed, ", ")+"): this alone may make parts and operations differ; trace --max-overhead 0 times every call")
	}
	if len(run.Cover.Damage) > 0 {
		out = append(out, "part of it cannot be read: "+clean(run.Cover.Damage[0]))
	}
	return out
}

func (w *writer) diffUnmatched(r *diff.Result) {
	if len(r.Pairs) == 0 {
		w.line("")
		w.text("A and B have no process in common that makes CUDA calls.", "")
	}
	for _, x := range []struct {
		name  string
		roles []diff.Role
	}{{"A", r.OnlyA}, {"B", r.OnlyB}} {
		var names []string
		for _, role := range x.roles {
			names = append(names, clean(role.String()))
		}
		if len(names) > 0 {
			w.text("Only in "+x.name+": "+strings.Join(names, "; ")+".", "  ")
		}
	}
}

func (w *writer) diffPair(p *diff.Pair, several bool) {
	name := ""
	if several {
		name = clean(p.RoleA.String()) + ": "
	}
	head := diffHead(p)
	if name == "" {
		head = strings.ToUpper(head[:1]) + head[1:]
	}
	w.text(name+head, "  ")
	if p.Anchor == 0 || p.Short || several && p.Findings() == 0 {
		return
	}
	lines := diffParts(p)
	for _, l := range lines {
		w.hang("  "+alignRight(l.delta, 9)+"  ", l.text)
	}
	w.diffCalls(p)
	if p.Findings() == 0 && !p.Step.Found {
		w.text("No part of a step, and no operation, has a significant difference of 1 % of a step or more.", "  ")
	}
	w.text("  "+diffBasis(p), "  ")
}

// diffHead describes how the steps compare.
func diffHead(p *diff.Pair) string {
	if p.Anchor == 0 {
		return "no steps to compare: A and B have no repeated call in common"
	}
	e := &p.Step
	lengths := fmt.Sprintf("%s -> %s, %s and %s steps", Duration(round(e.A)), Duration(round(e.B)), Count(p.A.Steps), Count(p.B.Steps))
	share := p.Relative()
	switch {
	case p.Short:
		return "too short for a significant result (" + lengths + "): record at least 10 s of each run, better 60 s"
	case e.Found && share > 0:
		return fmt.Sprintf("B is %s slower per step than A (%s, %s)", Percent(share), lengths, chance(e.P))
	case e.Found:
		return fmt.Sprintf("B is %s faster per step than A (%s, %s)", Percent(-share), lengths, chance(e.P))
	case share > 0.01:
		return fmt.Sprintf("no significant difference per step: B is %s slower than A, which may be chance (%s, %s)", Percent(share), lengths, chance(e.P))
	case share < -0.01:
		return fmt.Sprintf("no significant difference per step: B is %s faster than A, which may be chance (%s, %s)", Percent(-share), lengths, chance(e.P))
	}
	return "B is as fast per step as A (" + lengths + ")"
}

func round(v float64) int64 { return int64(math.Round(min(max(v, math.MinInt64/2), math.MaxInt64/2))) }

// chance formats the probability of a chance result.
func chance(p float64) string {
	switch {
	case p < 0.001:
		return "p < 0.001"
	case p < 0.095:
		return "p = " + strconv.FormatFloat(p, 'f', 3, 64)
	}
	return "p = " + strconv.FormatFloat(min(p, 1), 'f', 1, 64)
}

// diffBasis describes the basis of the comparison.
func diffBasis(p *diff.Pair) string {
	step := "A step is a call of " + p.Anchor.String()
	var out []string
	for _, x := range []struct {
		name string
		side *diff.Side
	}{{"A", &p.A}, {"B", &p.B}} {
		if x.side.Warm > 0 {
			out = append(out, "the first "+Duration(int64(x.side.Warm))+" of "+x.name)
		}
		if x.side.Stalls > 0 {
			out = append(out, Duration(int64(x.side.Stalls))+" of "+x.name+" with stalls")
		}
	}
	if len(out) > 0 {
		step += "; excluded: " + strings.Join(out, ", ")
	}
	return step + "."
}

// diffLine is a line of contributions.
type diffLine struct{ delta, text string }

// signed formats a difference: "+2.3 ms".
func signed(ns float64) string {
	s := short(round(math.Abs(ns)))
	if ns < 0 {
		return "-" + s
	}
	return "+" + s
}

// diffParts returns the parts of the ledger that differ, the largest difference first, with their
// causes. If the ledger was not recorded it returns the operations.
func diffParts(p *diff.Pair) (out []diffLine) {
	list := p.Parts
	if p.NoDetail {
		for _, e := range p.Within {
			if e.Found && e.Kind == diff.KindOp {
				out = append(out, diffLine{signed(e.Delta()), diffWith(e.Part, diffName(&e.Key))})
			}
		}
		return out
	}
	var found []*diff.Effect
	rest := p.Step.Delta()
	for i := range list {
		if e := &list[i]; e.Found {
			found = append(found, e)
			rest -= e.Delta()
		}
	}
	sortByDelta(found)
	for _, e := range found {
		out = append(out, diffLine{signed(e.Delta()), diffWith(e.Part, diffBehind(p, e))})
	}
	if len(found) > 0 && math.Abs(rest) > p.Step.A/100 {
		out = append(out, diffLine{signed(rest), "all other parts"})
	}
	return out
}

func sortByDelta(list []*diff.Effect) {
	for i := range list { // few elements
		for j := i; j > 0 && math.Abs(list[j].Delta()) > math.Abs(list[j-1].Delta()); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

// diffLabel returns the label of a part, as in the breakdown.
func diffLabel(p diff.Part) string {
	for i, name := range bdNames {
		if name == p.String() {
			if p >= diff.Runnable {
				return strings.ToLower(bdLabels[i])
			}
			return bdLabels[i]
		}
	}
	return p.String()
}

// diffWith returns the label of a part with its causes, which may be empty.
func diffWith(p diff.Part, causes string) string {
	switch {
	case causes == "":
		return diffLabel(p)
	case p == diff.Runnable:
		return diffLabel(p) + " for: " + causes
	}
	return diffLabel(p) + ": " + causes
}

// mostBehind is the number of causes named for a part.
const mostBehind = 3

// diffBehind names the causes of a part's change in its direction: calls with the calling line, CPU
// users, and reasons of waits.
func diffBehind(p *diff.Pair, part *diff.Effect) string {
	var names []string
	for i := range p.Within {
		e := &p.Within[i]
		share := e.Delta() / part.Delta()
		if e.Part != part.Part || e.Kind == diff.KindLine || share < 0.1 || len(names) == mostBehind {
			continue
		}
		if e.Kind == diff.KindOp && part.Part == diff.Blocked { // waits have more detail
			continue
		}
		name := diffName(&e.Key)
		if line := diffPlace(p, e); line != "" {
			name += " from " + line
		}
		if share < 0.85 || share > 1.15 {
			name += " " + signed(e.Delta())
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// diffPlace returns the line whose calls changed an operation.
func diffPlace(p *diff.Pair, op *diff.Effect) string {
	for i := range p.Within {
		if e := &p.Within[i]; e.Kind == diff.KindLine && op.Kind == diff.KindOp && e.Op == op.Op && e.Delta()/op.Delta() > 0.5 {
			return clean(e.Line)
		}
	}
	return ""
}

// diffName names the cause within a part.
func diffName(k *diff.Key) string {
	switch k.Kind {
	case diff.KindOp, diff.KindCount:
		return k.Op.String()
	case diff.KindLine:
		return k.Op.String() + " from " + clean(k.Line)
	case diff.KindPart:
		return diffLabel(k.Part)
	}
	if k.Part == diff.Runnable {
		switch {
		case k.Idle:
			return cpuUser(&tick.Share{Idle: true})
		case k.Reason != 0:
			return cpuUser(&tick.Share{Reason: k.Reason})
		case k.Agent:
			return "ingero itself"
		case k.Own:
			return "own thread " + clean(k.Who)
		case k.Who == "":
			return "many short-running threads"
		}
		return clean(k.Who)
	}
	words := blockReason(k.Reason, k.Call, k.Dev)
	if k.Who != "" {
		words += " (" + clean(k.Who) + ")"
	}
	return words
}

// diffCalls writes which operations are called more or less often, or take longer within an
// unchanged part.
func (w *writer) diffCalls(p *diff.Pair) {
	times := map[string]string{}
	for _, c := range p.Calls {
		times[c.Op.String()] = diffTime(&c)
	}
	shown := 0
	for i := range p.Counts {
		e := &p.Counts[i]
		if !e.Found || shown == 8 {
			continue
		}
		if shown++; shown == 1 {
			w.line("  Calls per step")
		}
		text := e.Op.String() + " " + ratio(e.A) + " -> " + ratio(e.B)
		if e.A > 0 && e.B > 0 && e.B/e.A >= 2 {
			text += " (" + ratio(e.B/e.A) + "x)"
		}
		w.text("    "+text+times[e.Op.String()], "      ")
	}
	shown = 0
	for i := range p.Within {
		e := &p.Within[i]
		if !e.Found || e.Kind == diff.KindLine || partFound(p, e) || shown == 8 {
			continue
		}
		if shown++; shown == 1 {
			w.line("  Within parts that did not change as a whole")
		}
		w.text("    "+signed(e.Delta())+"  "+diffWith(e.Part, diffName(&e.Key)), "      ")
	}
}

func partFound(p *diff.Pair, e *diff.Effect) bool {
	for i := range p.Parts {
		if p.Parts[i].Part == e.Part && p.Parts[i].Found {
			return true
		}
	}
	return p.NoDetail
}

// diffTime returns the call time of an operation: ", p50 per call 12.0 us -> 18.0 us".
func diffTime(c *diff.CallChange) string {
	if c.DurA.Count() == 0 || c.DurB.Count() == 0 {
		return ""
	}
	return ", p50 per call " + Duration(c.DurA.Quantile(0.5)) + " -> " + Duration(c.DurB.Quantile(0.5))
}

// ratio formats a small number.
func ratio(v float64) string {
	if v >= 100 {
		return Count(uint64(v + 0.5))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
