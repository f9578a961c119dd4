package explain

import (
	"fmt"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// chainOf builds the model of a chain.
func chainOf(c *tick.Chain, v *victim) wire.Chain {
	words := wordsFor(c)
	j := wire.Chain{
		ID: clean(c.ID), Rule: clean(c.Rule), Severity: c.Severity.String(), PID: c.PID, TID: c.TID, Comm: v.name, At: clean(c.At),
		Headline: headline(c, &words), RootCause: words.rootCause(c, v), Fix: words.fix(c, v),
		LostNS: c.Lost.Nanoseconds(), LostMinNS: c.LostMin.Nanoseconds(), LostMaxNS: c.LostMax.Nanoseconds(),
		WindowNS: c.Window.Nanoseconds(), ExcessNS: c.Excess.Nanoseconds(), Steps: c.Steps, SlowSteps: c.Slow,
		Confidence: min(max(c.Confidence, 0), 1), Baseline: clean(c.Baseline), Less: clean(c.Less()),
		StepP50NS: int64(c.StepP50), StepP99NS: int64(c.StepP99), WithoutNS: int64(c.Without), OpP50NS: int64(c.OpP50), OpP99NS: int64(c.OpP99),
		Culprits: []wire.Culprit{}, Timeline: []wire.Moment{}, NotIt: []string{},
	}
	if c.Op != 0 {
		j.Op = c.Op.String()
	}
	if !c.From.IsZero() {
		j.From = c.From.UTC()
	}
	if !c.To.IsZero() {
		j.To = c.To.UTC()
	}
	for i := range c.Culprits {
		x := &c.Culprits[i]
		limit := ""
		if x.Limit.Group != "" {
			limit = clean(x.Limit.Value())
		}
		j.Culprits = append(j.Culprits, wire.Culprit{
			Name: clean(x.Thread.Name.String()), PID: x.Thread.PID, TID: x.Thread.TID, PPID: x.Thread.Parent, Own: x.Own, Agent: x.Agent,
			What: clean(x.What), Cgroup: clean(x.Cgroup), Cmdline: clean(x.Cmdline), Where: clean(x.Where), Parent: clean(x.Parent), Path: clean(x.Path), CPUs: x.CPUs, At: clean(x.At), Waited: clean(x.Waited), LostNS: int64(x.Lost),
			Limit: limit, LimitGroup: clean(x.Limit.Group), LimitFile: clean(x.Limit.File),
			GPU: clean(x.GPU), Sharers: jsonSharers(x.Sharers),
		})
	}
	for _, m := range c.Timeline {
		j.Timeline = append(j.Timeline, wire.Moment{Time: m.Time.UTC(), Source: clean(m.Source), Text: clean(m.Text)})
	}
	for _, n := range c.NotIt {
		j.NotIt = append(j.NotIt, clean(n))
	}
	return j
}

// headline states what slowed, by how much, and why: "cudaStreamSynchronize p99=27.5ms (1.8x p50) -
// CPU taken by stress-ng".
func headline(c *tick.Chain, words *causeWords) string {
	what, p99, p50 := "step", c.StepP99, c.StepP50
	if text := rareSteps(c); text != "" {
		return text + " - " + words.head(c)
	}
	if c.Op != 0 && c.OpP99 > 0 {
		what, p99, p50 = c.Op.String(), c.OpP99, c.OpP50
	}
	if c.Op == 0 && p99 == 0 && c.Steps == 0 { // it is about requests
		return words.head(c)
	}
	if p99 > 0 {
		what += " p99=" + strings.ReplaceAll(Duration(int64(p99)), " ", "")
		if x := float64(p99) / float64(p50); p50 > 0 && x >= 1.05 { // else it is about even rarer calls
			what += fmt.Sprintf(" (%.1fx p50)", x)
		}
	}
	return what + " - " + words.head(c)
}

// rareSteps returns the length of slow steps that are too few to affect the p99: "slow steps take
// 105ms (50.2x p50)".
func rareSteps(c *tick.Chain) string {
	if c.Slow == 0 || c.Slow*100 >= c.Steps || c.StepP50 <= 0 {
		return ""
	}
	each := c.StepP50 + c.Lost/time.Duration(c.Slow)
	x := float64(each) / float64(c.StepP50)
	if x < 2 {
		return ""
	}
	return fmt.Sprintf("slow steps take %s (%.1fx p50)", strings.ReplaceAll(Duration(int64(each)), " ", ""), x)
}

// lostText states the cost of a chain: "1.41 s of 60.0 s (2.4 %): 412 of 3,801 steps were slow;
// without it their p99 would be 15.2 ms, not 27.5 ms".
func lostText(c *wire.Chain) string {
	if c.LostNS == 0 && c.LostMaxNS == 0 {
		return "nothing yet; the severity reflects what may follow"
	}
	s := Duration(c.LostNS)
	if c.LostMinNS < c.LostNS-c.LostNS/20 || c.LostMaxNS > c.LostNS+c.LostNS/20 {
		s += " (" + Duration(c.LostMinNS) + " to " + Duration(c.LostMaxNS) + ")"
	}
	if c.WindowNS > 0 {
		s += " of " + Duration(c.WindowNS) + " (" + Percent(float64(c.LostNS)/float64(c.WindowNS)) + ")"
	}
	if c.Steps > 0 {
		verb := "were"
		if c.SlowSteps == 1 {
			verb = "was"
		}
		s += fmt.Sprintf(": %s of %s %s slow", Count(uint64(max(c.SlowSteps, 0))), plural(uint64(c.Steps), "step"), verb)
	}
	if would, is := Duration(c.WithoutNS), Duration(c.StepP99NS); c.WithoutNS > 0 && c.StepP99NS > 0 && would != is {
		s += "; without it p99 would be " + would + ", not " + is
	}
	return s
}

// confidenceText states the confidence and its base.
func confidenceText(c *wire.Chain) string {
	s := fmt.Sprintf("%.0f %%", 100*c.Confidence)
	if c.ExcessNS > 0 && c.LostNS <= c.ExcessNS {
		s += ": this explains " + Duration(c.LostNS) + " of the " + Duration(c.ExcessNS) + " beyond normal"
	}
	if c.Baseline != "" {
		s += "; baseline: " + c.Baseline
	}
	return s
}

// labelWide is the column at which a chain's text begins.
const labelWide = 13

// field writes a labelled line of a chain if text is not empty.
func (w *writer) field(label, text string) {
	if text != "" {
		w.hang("  "+alignLeft(label, labelWide-2), text)
	}
}

// chain writes one chain.
func (w *writer) chain(c *wire.Chain) {
	w.text("["+c.Severity+"] "+c.Headline, "  ")
	w.field("Lost", lostText(c))
	w.field("Root cause", c.RootCause)
	where := processName(c.Comm, c.PID)
	if c.TID != 0 && c.TID != c.PID {
		where += fmt.Sprintf(", thread %d", c.TID)
	}
	if c.Op != "" {
		where += ", in " + c.Op
	}
	if c.At != "" {
		where += ", at " + c.At
	}
	w.field("Where", where)
	w.timeline(c)
	w.field("Not it", strings.Join(c.NotIt, ", "))
	w.field("Fix", c.Fix)
	w.field("Confidence", confidenceText(c))
}

// timeline writes the events, one line each.
func (w *writer) timeline(c *wire.Chain) {
	if len(c.Timeline) == 0 {
		return
	}
	w.line("  Timeline")
	for _, m := range c.Timeline {
		w.hang("    "+m.Time.In(w.loc).Format("15:04:05.000")+"  "+alignLeft("["+m.Source+"]", 9), m.Text)
	}
}

// chainsHead is the first line of a report: the number of chains and their severities.
func chainsHead(chains []wire.Chain) string {
	var grades []string
	for _, s := range []tick.Severity{tick.High, tick.Medium, tick.Low} {
		n := 0
		for i := range chains {
			if chains[i].Severity == s.String() {
				n++
			}
		}
		if n > 0 {
			grades = append(grades, fmt.Sprintf("%d %s", n, s))
		}
	}
	s := "INCIDENT REPORT - " + plural(uint64(len(chains)), "causal chain") + " found"
	if len(grades) > 0 {
		s += " (" + strings.Join(grades, ", ") + ")"
	}
	return s
}

// victims returns the victim facts by PID.
func victims(ps []tick.Process, host *tick.Host) func(pid uint32) *victim {
	return func(pid uint32) *victim {
		v := &victim{name: fmt.Sprintf("process %d", pid)}
		if host != nil {
			v.cpus = host.CPUs
		}
		for i := range ps {
			if ps[i].PID == pid && ps[i].Comm != "" {
				v.name, v.cgroup, v.where = clean(ps[i].Comm), clean(ps[i].Cgroup), ps[i].Where.Map(clean)
			}
		}
		return v
	}
}

// ofPID returns the chains of a process, the most severe first.
func ofPID(chains []tick.Chain, pid uint32) (out []*tick.Chain) {
	for i := range chains {
		if chains[i].PID == pid {
			out = append(out, &chains[i])
		}
	}
	return out
}
