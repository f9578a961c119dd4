package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

func loopOf(l *tick.Loop) *wire.Loop {
	if l == nil {
		return nil
	}
	j := &wire.Loop{TID: l.TID, Op: l.Op.String(), Waits: l.Waits, Range: clean(l.Range), Steps: l.Steps, TotalNS: int64(l.Total), P50NS: int64(l.P50), P99NS: int64(l.P99),
		Usual: stepParts(&l.Usual), Slowest: []wire.Step{}}
	for i := range l.Slowest {
		s := &l.Slowest[i]
		x := wire.Step{From: s.From.UTC(), To: s.To.UTC(), NS: int64(s.Length()), Parts: stepParts(&s.Times), Why: stepDifferences(s, &l.Usual)}
		for k := range s.Took {
			x.Took = append(x.Took, shareOf(&s.Took[k], s.Took[k].Reason != 0))
		}
		j.Slowest = append(j.Slowest, x)
	}
	return j
}

func stepParts(t *tick.StepTimes) (out []wire.StepPart) {
	for i, p := range t.Parts() {
		out = append(out, wire.StepPart{Name: tick.StepParts[i].Name, NS: int64(*p)})
	}
	return out
}

// stepDifferences describes the differences of a step from the usual one, largest first: "+12.0 ms
// waiting for a CPU (hog 8.00 ms), -4.80 ms GPU wait".
func stepDifferences(s *tick.LoopStep, usual *tick.StepTimes) string {
	type part struct {
		text string
		ns   int64
	}
	var parts []part
	var sum time.Duration
	for _, p := range usual.Parts() {
		sum += *p
	}
	for i, p := range s.Times.Parts() {
		ns := int64(*p - *usual.Parts()[i])
		if max(ns, -ns) < max(int64(sum)/20, 1000) {
			continue
		}
		text := "+" + Duration(ns) + " " + tick.StepParts[i].Label
		if ns < 0 {
			text = "-" + Duration(-ns) + " " + tick.StepParts[i].Label
		} else if names := tookIn(s, i); names != "" {
			text += " (" + names + ")"
		}
		parts = append(parts, part{text, max(ns, -ns)})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.ns, a.ns) })
	var out []string
	for _, p := range parts {
		out = append(out, p.text)
	}
	return strings.Join(out, ", ")
}

// The indexes of the parts with names.
const (
	stepRunnable = 3
	stepBlocked  = 5
)

// tookIn names what took a part of a step.
func tookIn(s *tick.LoopStep, part int) string {
	var list []tick.Share
	name := cpuUser
	for i := range s.Took {
		if blocked := s.Took[i].Reason != 0; blocked && part == stepBlocked || !blocked && part == stepRunnable {
			list = append(list, s.Took[i])
		}
	}
	if part == stepBlocked {
		name = blockedOn
	}
	return shareText(list, uint64(*s.Times.Parts()[part]), name)
}

// stepsOf returns the steps as a person counts them: those of the loop if the program names them or
// each waits for the GPU more than once, else the times from wait to wait.
func stepsOf(b *tick.Breakdown) (n uint64, p50, p99 time.Duration) {
	if l := b.Loop; l != nil && (l.Waits > 1 || l.Range != "") {
		return l.Steps, l.P50, l.P99
	}
	return uint64(max(b.Steps, 0)), b.StepP50, b.StepP99
}

// rangeName returns the name of an NVTX range, which the program chooses: quoted, safe to show, and
// truncated.
func rangeName(name string) string {
	const most = 48
	if runes := []rune(clean(name)); len(runes) > most {
		name = string(runes[:most-3]) + "..."
	}
	return strconv.Quote(clean(name))
}

// rangeOf names the range of the steps, "" if the program does not name them.
func rangeOf(b *tick.Breakdown) string {
	if b.Loop == nil || b.Loop.Range == "" {
		return ""
	}
	return " (NVTX range " + rangeName(b.Loop.Range) + ")"
}

// steps writes the lengths of the steps, and the slowest of them with the reasons.
func (w *writer) steps(b *tick.Breakdown) {
	n, p50, p99 := stepsOf(b)
	if n == 0 {
		return
	}
	line := "  Steps: " + Count(n) + ", p50 " + Duration(int64(p50)) + ", p99 " + Duration(int64(p99))
	switch l := b.Loop; {
	case l != nil && l.Range != "":
		line += ", each the NVTX range " + rangeName(l.Range)
	case l != nil && l.Waits > 1:
		line += fmt.Sprintf(", each with %d GPU waits, ending with %s", l.Waits, l.Op)
	}
	if b.Critical > 0 {
		line += "; they lost " + Duration(ns64(b.Critical)) + " waiting for a CPU when the GPU was done"
	}
	w.text(line, "    ")
	const most = 3
	if l := b.Loop; l != nil && len(l.Slowest) > 0 && l.Slowest[0].Length() > l.P50+l.P50/5 {
		w.line("  Slowest steps")
		for i := range l.Slowest[:min(most, len(l.Slowest))] {
			s := &l.Slowest[i]
			w.hang("    "+s.From.In(w.loc).Format("15:04:05.000")+alignRight(Duration(int64(s.Length())), 10)+"  ", stepDifferences(s, &l.Usual))
		}
	}
}
