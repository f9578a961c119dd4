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

// Limits for showing calls with their stacks.
const (
	shownFrames = 1 << 17 // frames of all kept stacks; the oldest are evicted
	heldCalls   = 1 << 13 // calls that wait for their stack
	heldTicks   = 3       // ticks after which a call is shown without its stack
)

// stackView joins calls with their stacks, whose symbol names arrive later.
type stackView struct {
	known  map[uint32]*shownStack
	order  []uint32 // keys of known, oldest first
	frames int      // number of frames in known
	held   []heldCall
	ticks  int
}

type shownStack struct {
	events.Stack
	printed bool // already shown to a person
}

type heldCall struct {
	events.Call
	tick int // tick in which it arrived
}

// add adds stacks and evicts the oldest ones.
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

// wait holds a call whose stack is not known yet, and reports whether it did. It does not hold
// calls beyond the limit.
func (v *stackView) wait(c *events.Call) bool {
	if c.Stack == 0 || v.known[c.Stack] != nil || len(v.held) >= heldCalls {
		return false
	}
	v.held = append(v.held, heldCall{*c, v.ticks})
	return true
}

// release calls show for the held calls whose stack is known or overdue.
func (v *stackView) release(show func(*events.Call)) {
	v.held = slices.DeleteFunc(v.held, func(h heldCall) bool {
		if v.known[h.Stack] == nil && v.ticks-h.tick < heldTicks {
			return false
		}
		show(&h.Call)
		return true
	})
}

// tick counts a tick. The final tick makes all held calls overdue.
func (v *stackView) tick(final bool) {
	v.ticks++
	if final {
		v.ticks += heldTicks
	}
}

// stack returns the stack of a call, nil if unknown.
func (v *stackView) stack(c *events.Call) *events.Stack {
	if s := v.known[c.Stack]; s != nil {
		return &s.Stack
	}
	return nil
}

// print prints the stack of a call. It prints each stack once.
func (v *stackView) print(w io.Writer, c *events.Call, kernel string) {
	s := v.known[c.Stack]
	if s == nil || s.printed {
		return
	}
	s.printed = true
	lines := explain.StackLines(&s.Stack, kernel)
	_, _ = fmt.Fprintf(w, "[DEBUG] stack trace for %s (PID %d, TID %d, %d frames):\n", c.Op, c.PID, c.TID, len(lines))
	for i, line := range lines {
		_, _ = fmt.Fprintf(w, "[DEBUG]   [%d] %s\n", i, oneLine(line))
	}
}

// stackDrops lists the drop reasons for stacks and parts of stacks.
var stackDrops = []string{"stack-left-out", "stack-not-named", "python-left-out"}

// warnEvery is the minimum time between warnings about dropped stacks.
const warnEvery = 5 * time.Second

// stackLosses warns while more stacks are dropped.
type stackLosses struct {
	counts  map[string]uint64
	printed time.Time
}

// grown returns a warning if more stacks were dropped since the last warning, else "".
func (l *stackLosses) grown(t *tick.Tick) string {
	var text []string
	for _, d := range t.Drops {
		if n := d.Count - l.counts[d.Reason]; slices.Contains(stackDrops, d.Reason) && d.Count > l.counts[d.Reason] {
			text = append(text, fmt.Sprintf("%d %s", n, d.Reason))
		}
	}
	if len(text) == 0 || !l.printed.IsZero() && t.Time.Sub(l.printed) < warnEvery && !t.Final {
		return ""
	}
	l.printed, l.counts = t.Time, map[string]uint64{}
	for _, d := range t.Drops {
		l.counts[d.Reason] = d.Count
	}
	return "stacks are lost: " + strings.Join(text, ", ") + "; calls are still counted and timed"
}
