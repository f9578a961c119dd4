package mute

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"ingero/internal/causal"
	"ingero/internal/tick"
)

// Filter selects the chains that a report shows. The zero value selects all.
type Filter struct {
	Least    tick.Severity
	Off      []string // rules
	Silences []tick.Silence
}

// Split separates the chains that a report shows at a time from the hidden chains. It keeps their
// order and does not change its argument.
func (f *Filter) Split(chains []tick.Chain, now time.Time) (shown []tick.Chain, hidden []tick.Hidden) {
	for i := range chains {
		h := tick.Hidden{Chain: chains[i]}
		if f.hides(&h, now) {
			if hidden == nil {
				shown = append(shown, chains[:i]...)
			}
			hidden = append(hidden, h)
		} else if hidden != nil {
			shown = append(shown, chains[i])
		}
	}
	if hidden == nil {
		return chains, nil
	}
	return shown, hidden
}

// hides reports whether a chain is hidden, and why.
func (f *Filter) hides(h *tick.Hidden, now time.Time) bool {
	for i := range f.Silences {
		if s := &f.Silences[i]; now.Before(s.Until) && matches(s.What, &h.Chain) {
			h.Why, h.Silence = tick.HiddenSilenced, *s
			return true
		}
	}
	switch {
	case slices.ContainsFunc(f.Off, func(name string) bool { return causal.RuleCalled(name) == h.Chain.Rule }):
		h.Why = tick.HiddenRule
	case h.Chain.Severity < f.Least:
		h.Why = tick.HiddenSeverity
	}
	return h.Why != ""
}

// matches reports whether a silence applies to a chain.
func matches(what string, c *tick.Chain) bool {
	if what == c.ID {
		return true
	}
	rule, culprit, some := strings.Cut(what, "@")
	return causal.RuleCalled(rule) == c.Rule && (!some || culprit == c.Culprit())
}

var chainID = regexp.MustCompile(`^c-[0-9a-f]{1,16}$`)

// Check returns an error unless what can be silenced: the ID of a chain, a rule, or a rule and the
// name of a culprit, separated by @.
func Check(what string) error {
	rule, culprit, some := strings.Cut(what, "@")
	switch {
	case chainID.MatchString(what):
		return nil
	case !slices.Contains(causal.RuleNames(), causal.RuleCalled(rule)):
		return fmt.Errorf("%q is neither a chain ID (such as c-7f3a12bc) nor one of the rules %s", rule, strings.Join(causal.RuleNames(), ", "))
	case some && culprit == "":
		return fmt.Errorf("%q has no culprit after the @", what)
	}
	return nil
}
