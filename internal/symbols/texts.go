package symbols

import (
	"ingero/pkg/events"
)

// maxTexts bounds texts that wait for their calls, since records can be lost.
const maxTexts = 1 << 13

// textKey identifies a call: a thread makes one at a time.
type textKey struct {
	tid   uint32
	op    events.Op
	start int64
}

// texts are texts that wait for their calls.
type texts map[textKey]string

func (t texts) add(list []events.Text) {
	for i := range list {
		x := &list[i]
		if actionFor(x.Op).kind != kindDefine {
			continue
		}
		if len(t) >= maxTexts {
			clear(t)
		}
		t[textKey{x.TID, x.Op, x.Time}] = x.Text
	}
}

// take removes and returns the text of a call, "" if there is none.
func (t texts) take(c *events.Call) string {
	if len(t) == 0 {
		return ""
	}
	k := textKey{c.TID, c.Op, c.Start}
	s := t[k]
	delete(t, k)
	return s
}
