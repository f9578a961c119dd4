package causal

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Finding is time that a process lost and its cause, as a rule has found it. Times are Unix ns.
type Finding struct {
	PID, TID uint32
	Op       events.Op
	Group    string // tells findings of one rule and process apart
	From, To int64
	// Lost is in [Min, Max], ns; both 0: exactly Lost. Window is the time looked at, 0:
	// what is known of the process, a minute at most.
	Lost, Min, Max, Window int64
	Steps, Slow            int
	P50, P99, Without      int64 // as in tick.Chain, ns; 0: not known
	// Severity is by the share of the time that was lost where it is 0. A process that
	// cannot go on has lost all: High.
	Severity   tick.Severity
	Confidence float64 // 0: 1
	Baseline   string
	Culprits   []tick.Culprit
	Timeline   []tick.Moment

	// The engine's own: of what claimed parts cost, and who has found it.
	excess int64 // ns; 0: Lost
	notIt  []string
	spread []tick.Loss
	rule   *Rule
	id     string // of the chain that it becomes
	judged bool
	taken  bool // over, by rule, from another
}

// by makes a finding a rule's.
func (x *Finding) by(r *Rule) { x.rule, x.id = r, chainID(x.PID, r.Name, x.Group) }

// findings is what rules have found in a window so far.
type findings struct {
	asking  int                  // the rule whose Find runs
	ran     [maxRules]bool       // rules whose Find has run, or runs
	claimed [maxRules][]Finding  // what the parts that a rule claims cost
	found   [maxRules][]*Finding // what it has found, judged
}

// find asks every rule.
func (w *Window) find() (all []*Finding) {
	for r := range Rules {
		w.of(r)
	}
	for r := range Rules {
		all = append(all, w.found[r]...)
	}
	return all
}

// of returns what a rule has found and nobody took over so far. It is asked now if it was not
// before: a rule that builds on another may stand before it in the table.
func (w *Window) of(r int) []*Finding {
	if w.ran[r] {
		return w.found[r]
	}
	was := w.asking
	w.ran[r], w.asking = true, r
	find := Rules[r].Find
	if find == nil {
		find = (*Window).Claimed
	}
	for _, x := range find(w) {
		if w.judge(&Rules[r], &x) {
			w.found[r] = append(w.found[r], &x)
		}
	}
	w.asking = was
	return w.found[r]
}

// Claimed returns what the parts cost that the rule which asks claims: after netting, and
// judged, but for what is too little.
func (w *Window) Claimed() []Finding { return w.claimed[w.asking] }

// claimed makes a Find of a rule that tells what its claimed parts cost where tell says that
// this is worth telling. tell may complete it.
func claimed(tell func(w *Window, x *Finding) bool) func(*Window) []Finding {
	return func(w *Window) []Finding {
		var out []Finding
		for _, x := range w.Claimed() {
			if tell(w, &x) {
				out = append(out, x)
			}
		}
		return out
	}
}

// takesOver makes a Find of a rule that has findings of others instead of these, where take says
// so. take may change what they say. Of rules that would take the same one, the first in the
// table has it.
func takesOver(names []string, take func(w *Window, x *Finding) bool) func(*Window) []Finding {
	return func(w *Window) (out []Finding) {
		rule := &Rules[w.asking]
		for _, name := range names {
			r := ruleNamed(name)
			var rest []*Finding
			for _, x := range w.of(r) {
				if w.e.abstains(rule, x.PID, x.From, x.To) || !take(w, x) {
					rest = append(rest, x)
					continue
				}
				x.Group, x.taken = x.id, true
				out = append(out, *x)
			}
			w.found[r] = rest
		}
		return out
	}
}

// both makes one Find of two.
func both(a, b func(*Window) []Finding) func(*Window) []Finding {
	return func(w *Window) []Finding { return append(a(w), b(w)...) }
}
