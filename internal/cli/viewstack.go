package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"ingero/internal/explain"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of what is kept to show calls with their stacks.
const (
	shownFrames = 1 << 17 // of all stacks that are kept; the oldest go
	heldCalls   = 1 << 13 // that wait for the names of their stack
	heldTicks   = 3       // after so many ticks they are shown without
)

// stackView joins calls with their stacks, whose names come some time after them.
type stackView struct {
	known  map[uint32]*shownStack
	order  []uint32 // of known, the oldest first
	frames int      // of known
	held   []heldCall
	ticks  int
}

type shownStack struct {
	events.Stack
	told bool // to a person who asked for it
}

type heldCall struct {
	events.Call
	tick int // when it came
}

// add takes stacks in.
func (v *stackView) add(list []events.Stack) {
	if v.known == nil && len(list) > 0 {
		v.known = map[uint32]*shownStack{}
	}
	for _, s := range list {
		if v.known[s.ID] != nil {
			continue
		}
		v.known[s.ID] = &shownStack{Stack: s}
		v.order = append(v.order, s.ID)
		v.frames += len(s.Frames)
	}
	for v.frames > shownFrames {
		id := v.order[0]
		v.frames -= len(v.known[id].Frames)
		v.order = v.order[1:]
		delete(v.known, id)
	}
}

// wait keeps a call until the names of its stack are known, if it has one and they are
// not, and there is room.
func (v *stackView) wait(c *events.Call) bool {
	if c.Stack == 0 || v.known[c.Stack] != nil || len(v.held) >= heldCalls {
		return false
	}
	v.held = append(v.held, heldCall{*c, v.ticks})
	return true
}

// release hands over calls that have waited and need not any more.
func (v *stackView) release(show func(*events.Call)) {
	v.held = slices.DeleteFunc(v.held, func(h heldCall) bool {
		if v.known[h.Stack] == nil && v.ticks-h.tick < heldTicks {
			return false
		}
		show(&h.Call)
		return true
	})
}

// tick counts a tick; at the last one nothing need be waited for.
func (v *stackView) tick(final bool) {
	v.ticks++
	if final {
		v.ticks += heldTicks
	}
}

// stack returns the stack of a call, nil where it is not known.
func (v *stackView) stack(c *events.Call) *events.Stack {
	if s := v.known[c.Stack]; s != nil {
		return &s.Stack
	}
	return nil
}

// tell writes the stack of a call, once for each stack.
func (v *stackView) tell(w io.Writer, c *events.Call, kernel string) {
	s := v.known[c.Stack]
	if s == nil || s.told {
		return
	}
	s.told = true
	lines := explain.StackLines(&s.Stack, kernel)
	_, _ = fmt.Fprintf(w, "[DEBUG] stack trace for %s (PID %d, TID %d, %d frames):\n", c.Op, c.PID, c.TID, len(lines))
	for i, line := range lines {
		_, _ = fmt.Fprintf(w, "[DEBUG]   [%d] %s\n", i, oneLine(line))
	}
}

// stackDrops are the reasons for which stacks, or parts of them, are lost.
var stackDrops = []string{"stack-left-out", "stack-not-named", "python-left-out"}

// warnEvery is how often at most it is said that stacks are lost.
const warnEvery = 5 * time.Second

// stackLosses tells of stacks that are lost while more are.
type stackLosses struct {
	counts map[string]uint64
	told   time.Time
}

// grown returns what there is to say, "" mostly: that of a reason more were lost than when
// that was last said.
func (l *stackLosses) grown(t *tick.Tick) string {
	var text []string
	for _, d := range t.Drops {
		if n := d.Count - l.counts[d.Reason]; slices.Contains(stackDrops, d.Reason) && d.Count > l.counts[d.Reason] {
			text = append(text, fmt.Sprintf("%d %s", n, d.Reason))
		}
	}
	if len(text) == 0 || !l.told.IsZero() && t.Time.Sub(l.told) < warnEvery && !t.Final {
		return ""
	}
	l.told, l.counts = t.Time, map[string]uint64{}
	for _, d := range t.Drops {
		l.counts[d.Reason] = d.Count
	}
	return "stacks are lost: " + strings.Join(text, ", ") + "; calls are still counted and timed"
}
