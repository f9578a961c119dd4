package symbols

import (
	"slices"
	"time"

	"ingero/pkg/events"
)

const (
	maxTexts = 1 << 13 // whose calls have not come
	// textSlack is how far the beginning of a call and that of its text may differ:
	// two readings of one clock in a program that can be preempted.
	textSlack = int64(10 * time.Millisecond)
)

type textKey struct {
	tid uint32
	op  events.Op
}

// texts are those whose calls have not come yet, oldest first.
type texts map[textKey][]events.Text

func (t texts) add(list []events.Text) {
	for i := range list {
		if actionFor(list[i].Op).kind != kindDefine {
			continue
		}
		k := textKey{list[i].TID, list[i].Op}
		if len(t) >= maxTexts { // of calls that were lost
			clear(t)
		}
		t[k] = append(t[k], list[i])
	}
}

// take returns the text of a call, "" where there is none or it was too long to be a
// name. Texts of calls before it, whose records were lost, are dropped.
func (t texts) take(c *events.Call) string {
	k := textKey{c.TID, c.Op}
	list := t[k]
	n := 0
	for n < len(list) && list[n].Time <= c.End()+textSlack && (n == 0 || list[n].Time <= c.End()) {
		n++
	}
	if n == 0 {
		return ""
	}
	found := list[n-1]
	if n == len(list) {
		delete(t, k)
	} else {
		t[k] = slices.Delete(list, 0, n)
	}
	if found.PID != c.PID || found.Time < c.Start-textSlack {
		return ""
	}
	return found.Text
}
