package causal

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Finding is time that a process lost, with its cause. Times are Unix ns.
type Finding struct {
	PID, TID uint32
	Op       events.Op
	Stack    uint32 // as in tick.Chain
	Group    string // distinguishes findings of one rule and process
	From, To int64
	// Lost is in [Min, Max], ns; both 0: exactly Lost. Window is the observed time; 0: as long as
	// the process is known, at most a minute.
	Lost, Min, Max, Window int64
	Steps, Slow            int   // steps in the window; steps with a loss
	P50, P99, Without      int64 // as in tick.Chain, ns; 0: unknown
	// Severity 0: the engine derives it from the lost share of the window. A rule sets High for a
	// process that cannot go on.
	Severity   tick.Severity
	Confidence float64 // 0: certain
	Baseline   string
	Culprits   []tick.Culprit
	Timeline   []tick.Moment

	// Filled by the engine.
	excess   int64 // ns
	ruledOut []string
	spread   bins    // of Lost; a rule that adds up steps fills it
	peak     float64 // ns: see [tally.peak]
	rule     *Rule
	id       string // of the chain
	judged   bool
	taken    bool     // taken over from another rule
	onCPU    bool     // what caused the waits also costs the victim CPU time, less than they take
	unknown  float64  // ns: what it may have lost besides, where its inputs were shed
	took     string   // ID of the finding that it took over
	instead  []string // IDs of findings that had all of its loss: taken over, or left out
	parts    []string // IDs of findings with a part of its loss: merged
}

// assign gives a finding to a rule.
func (x *Finding) assign(r *Rule) { x.rule, x.id = r, chainID(x.PID, r.Name, x.Group) }

// findings has the findings in a window, by index of the rule.
type findings struct {
	running int                  // rule whose Find runs
	ran     [maxRules]bool       // Find has run, or runs
	claimed [maxRules][]Finding  // cost of the claimed parts, judged
	found   [maxRules][]*Finding // result of Find, judged
}

// find runs the Find of all rules.
func (w *Window) find() (all []*Finding) {
	for r := range Rules {
		w.runRule(r)
	}
	for r := range Rules {
		all = append(all, w.found[r]...)
	}
	return all
}

// runRule returns the findings of a rule that no other rule took over. It runs the rule's Find
// once: a rule may use findings of a later rule in the table.
func (w *Window) runRule(r int) []*Finding {
	if w.ran[r] {
		return w.found[r]
	}
	was := w.running
	w.ran[r], w.running = true, r
	find := Rules[r].Find
	if find == nil {
		find = (*Window).Claimed
	}
	for _, x := range find(w) {
		if w.judge(&Rules[r], &x) {
			w.found[r] = append(w.found[r], &x)
		}
	}
	w.running = was
	return w.found[r]
}

// foundBy returns the findings of the named rule that no other rule took over.
func (w *Window) foundBy(name string) []*Finding { return w.runRule(ruleNamed(name)) }

// Claimed returns the cost of the calling rule's claimed parts: netted, added up by cause, judged,
// without losses that are too small.
func (w *Window) Claimed() []Finding { return w.claimed[w.running] }

// claimed returns a Find that keeps the claimed findings for which keep returns true. keep may
// complete them.
func claimed(keep func(w *Window, x *Finding) bool) func(*Window) []Finding {
	return func(w *Window) []Finding {
		var out []Finding
		for _, x := range w.Claimed() {
			if keep(w, &x) {
				out = append(out, x)
			}
		}
		return out
	}
}

// takeOver returns a Find that takes over those findings of the named rules for which take returns
// true. take may change them. If several rules would take over a finding, the first in the table
// gets it.
func takeOver(names []string, take func(w *Window, x *Finding) bool) func(*Window) []Finding {
	return func(w *Window) (out []Finding) {
		rule := &Rules[w.running]
		for _, name := range names {
			var rest []*Finding
			for _, x := range w.foundBy(name) {
				if w.e.abstains(rule, x.PID, x.From, x.To) || !take(w, x) {
					rest = append(rest, x)
					continue
				}
				x.Group, x.taken, x.took, x.instead = x.id, true, x.id, append(x.instead, x.id)
				out = append(out, *x)
			}
			w.found[ruleNamed(name)] = rest
		}
		return out
	}
}

// give adds a finding to those of another rule, if it cost enough.
func (w *Window) give(rule string, x Finding) {
	if r := ruleNamed(rule); w.judge(&Rules[r], &x) {
		w.found[r] = append(w.found[r], &x)
	}
}

// eachProcess returns a Find that runs find for each process that made calls in the last ns.
func eachProcess(ns int64, find func(w *Window, b *ProcessHistory) (x Finding, ok bool)) func(*Window) []Finding {
	return func(w *Window) (out []Finding) {
		for _, b := range w.Histories() {
			if n := len(b.Seconds); n == 0 || w.Now()-b.Seconds[n-1].To > ns {
				continue
			}
			if x, ok := find(w, b); ok {
				out = append(out, x)
			}
		}
		return out
	}
}

// joinFinds returns a Find that returns the findings of a and b.
func joinFinds(a, b func(*Window) []Finding) func(*Window) []Finding {
	return func(w *Window) []Finding { return append(a(w), b(w)...) }
}
