package symbols

import (
	"ingero/pkg/events"
)

// maxTexts bounds those whose calls have not come: records can be lost.
const maxTexts = 1 << 13

// textKey is a call: a thread makes one at a time.
type textKey struct {
	tid   uint32
	op    events.Op
	start int64
}

// texts are those whose calls have not come yet.
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

// take returns the text of a call, "" where there is none.
func (t texts) take(c *events.Call) string {
	if len(t) == 0 {
		return ""
	}
	k := textKey{c.TID, c.Op, c.Start}
	s := t[k]
	delete(t, k)
	return s
}
