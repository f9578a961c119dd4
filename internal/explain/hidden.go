package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

func hiddenOf(list []tick.Hidden) (out []wire.Hidden) {
	for i := range list {
		h := &list[i]
		c := &h.Chain
		j := wire.Hidden{ID: clean(c.ID), Rule: clean(c.Rule), Severity: c.Severity.String(), PID: c.PID, Culprit: clean(c.Culprit()),
			LostNS: int64(c.Lost), Why: string(h.Why), What: clean(h.Silence.What), Reason: clean(h.Silence.Reason)}
		if !h.Silence.Until.IsZero() {
			j.Until = h.Silence.Until.UTC()
		}
		out = append(out, j)
	}
	return out
}

// hiddenNotes lists what was found but is not shown, so that nothing is hidden without a note.
func hiddenNotes(list []tick.Hidden, zone *time.Location) (notes []string) {
	for _, of := range []struct {
		why  tick.HiddenReason
		text string
	}{
		{tick.HiddenSilenced, "silenced"},
		{tick.HiddenRule, "of disabled rules (causes.rules-off)"},
		{tick.HiddenSeverity, "below causes.min-severity"},
	} {
		var parts []string
		n := uint64(0)
		for i := range list {
			if h := &list[i]; h.Why == of.why {
				n++
				if part := hiddenText(h, zone); !slices.Contains(parts, part) {
					parts = append(parts, part)
				}
			}
		}
		if n == 0 {
			continue
		}
		verb := " are "
		if n == 1 {
			verb = " is "
		}
		const most = 4
		text := strings.Join(parts[:min(len(parts), most)], "; ")
		if more := len(parts) - most; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		notes = append(notes, plural(n, "chain")+verb+of.text+": "+text+".")
	}
	return notes
}

// hiddenText describes a hidden chain: "cpu-taken by stress-ng (c-7f3a), 1.37 s lost, until 18:00
// (nightly backup)".
func hiddenText(h *tick.Hidden, zone *time.Location) string {
	c := &h.Chain
	s := clean(c.Rule)
	if by := clean(c.Culprit()); by != "" {
		s += " by " + by
	}
	s += " (" + clean(c.ID) + "), " + Duration(int64(c.Lost)) + " lost"
	if h.Why == tick.HiddenSilenced {
		s += ", until " + h.Silence.Until.In(zone).Format("15:04")
		if h.Silence.Reason != "" {
			s += " (" + clean(h.Silence.Reason) + ")"
		}
	}
	return s
}
