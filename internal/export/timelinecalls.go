package export

import (
	"cmp"
	"fmt"
	"slices"

	"ingero/internal/query"
	"ingero/pkg/events"
)

// maxHeld bounds a thread's records that wait for its outermost call.
const maxHeld = 4096

// thread is the state of a thread of the current session.
type thread struct {
	pid, tid uint32
	called   bool
	until    int64 // Unix ns: written up to here
	calls    []events.Call
	waits    []events.Wait
}

// span is an interval on a thread's track: a call, a gap, or a wait.
type span struct {
	mark
	rank int // of spans with equal times, the outer one is first
}

// The ranks.
const (
	rankOuter = iota
	rankNested
	rankWait
)

// slice handles a piece of the log.
func (t *timeline) slice(x *query.Slice) error {
	for i := range x.Waits {
		if w := &x.Waits[i]; t.wants(w.PID, w.Op) && t.inWindow(w.End()) {
			th := t.thread(w.PID, w.TID)
			if len(th.waits) >= maxHeld { // a thread without calls
				th.waits = slices.Delete(th.waits, 0, maxHeld/2)
			}
			th.waits = append(th.waits, *w)
		}
	}
	for i := range x.Calls {
		c := &x.Calls[i]
		if !t.wants(c.PID, c.Op) || !t.inWindow(c.Start) {
			continue
		}
		if err := t.call(c); err != nil {
			return err
		}
		if t.res.Calls++; t.progress != nil && t.res.Calls%progressEvery == 0 {
			t.progress(t.res.Calls)
		}
	}
	return nil
}

func (t *timeline) inWindow(at int64) bool {
	return (t.f.From.IsZero() || at >= t.f.From.UnixNano()) && (t.f.To.IsZero() || at < t.f.To.UnixNano())
}

func (t *timeline) thread(pid, tid uint32) *thread {
	th := t.threads[tid]
	if th == nil || th.pid != pid {
		th = &thread{pid: pid, tid: tid}
		t.threads[tid] = th
	}
	return th
}

// call handles a call. Calls inside it came before it, as their records did.
func (t *timeline) call(c *events.Call) error {
	t.res.Coverage.Thinned = t.res.Coverage.Thinned || c.Weight > 1
	th := t.thread(c.PID, c.TID)
	th.called = true
	th.calls = append(th.calls, *c)
	if c.Flags&(events.CallNested|events.CallUnmeasured) != 0 && len(th.calls) < maxHeld {
		return nil
	}
	return t.flush(th, c.End())
}

// rest writes what is held back.
func (t *timeline) rest() error {
	for _, tid := range sortedKeys(t.threads) {
		if th := t.threads[tid]; th.called {
			if err := t.flush(th, 1<<63-1); err != nil {
				return err
			}
		}
	}
	return nil
}

func sortedKeys[V any](m map[uint32]V) []uint32 {
	keys := make([]uint32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// flush writes a thread's calls, the gaps before them, and the waits that began before end.
func (t *timeline) flush(th *thread, end int64) error {
	on, err := t.process(th.pid)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("thread %d", th.tid)
	k := trackKey{node: t.s.Node, pid: th.pid, tid: th.tid, kind: trackThread, began: int64(on.id)}
	if on, err = t.under(on, k, name, th.tid); err != nil {
		return err
	}
	var spans []span
	for i := range th.calls {
		c := &th.calls[i]
		if c.Gap > 0 && c.Flags&(events.CallUnmeasured|events.CallNested) == 0 {
			spans = append(spans, gapSpan(c))
		}
		spans = append(spans, t.callSpan(c))
	}
	left := th.waits[:0]
	for i := range th.waits {
		switch w := &th.waits[i]; {
		case w.Start >= end:
			left = append(left, *w)
		case w.Flags&events.WaitPrevious == 0:
			spans = append(spans, waitSpan(w))
		case len(spans) > 0 && spans[len(spans)-1].rank == rankWait:
			last := &spans[len(spans)-1]
			last.args[len(last.args)-1].text += ", " + culprit(w)
		}
	}
	th.calls, th.waits = th.calls[:0], left
	return t.nest(th, on, spans)
}

// nest writes spans nested. Where two overlap, because of clocks or the subtracted cost of probes,
// it truncates the later one.
func (t *timeline) nest(th *thread, on *track, spans []span) error {
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.until, a.until), cmp.Compare(a.rank, b.rank))
	})
	var open []*span
	var failed error
	add := func(m *mark) {
		if m.on = on; failed == nil {
			failed = t.w.event(m)
		}
	}
	closeTo := func(at int64) {
		for len(open) > 0 && open[len(open)-1].until <= at {
			last := open[len(open)-1]
			add(&mark{kind: markEnd, at: last.until, name: last.name})
			open = open[:len(open)-1]
		}
	}
	for i := range spans {
		s := &spans[i]
		if closeTo(s.at); len(open) == 0 {
			s.at = max(s.at, th.until)
		}
		if s.until = max(s.until, s.at); len(open) > 0 {
			s.until = min(s.until, open[len(open)-1].until)
		}
		add(&s.mark)
		if s.kind == markBegin {
			open = append(open, s)
			th.until = max(th.until, s.until)
		}
	}
	closeTo(1<<63 - 1)
	return failed
}

// gapSpan returns the time between a call and the previous one.
func gapSpan(e *events.Call) span {
	c := call{Call: e}
	s := span{mark: mark{kind: markBegin, at: e.Start - e.Gap, until: e.Start, name: "gap", categories: [2]string{"gap"}}, rank: rankOuter}
	s.args = appendParts(nil, c.gap(), c.gapSplit(), [4]int64{e.GapOnCPU, e.GapRunnable, e.GapThrottled, e.GapBlocked})
	return s
}

var partNames = [4]string{"oncpu_ns", "runnable_ns", "throttled_ns", "blocked_ns"}

// appendParts appends where the time went, without unknown parts.
func appendParts(args []arg, known, split bool, ns [4]int64) []arg {
	for i, v := range ns {
		if known && (split || i == 1 || i == 2) {
			args = append(args, arg{name: partNames[i], number: v})
		}
	}
	return args
}

// callSpan returns a call; one without a seen return is an instant.
func (t *timeline) callSpan(e *events.Call) span {
	c := call{Call: e, s: t.s}
	s := span{mark: mark{kind: markBegin, at: e.Start, until: e.End(), name: e.Op.String(), categories: [2]string{e.Op.Source().String()}}, rank: rankOuter}
	if e.Flags&events.CallNested != 0 {
		s.rank = rankNested
	}
	if !c.measured() {
		s.kind, s.until = markInstant, e.Start
	} else {
		s.args = append(s.args, arg{name: "duration_ns", number: e.Duration})
	}
	if e.Flags&events.CallFailed != 0 {
		s.categories[1] = "failed"
		s.args = append(s.args, arg{name: "error", kind: argText, text: events.ErrorName(e.Op, e.Result)})
	}
	s.args = appendParts(s.args, c.ledger(), c.split(), [4]int64{e.OnCPU, e.Runnable, e.Throttled, e.Blocked})
	s.args = c.appendArgs(s.args)
	if name := t.s.function(t.s.funcs.Name(e)); !name.IsNull() {
		s.args = append(s.args, arg{name: "function", kind: argText, text: string(name.ByteArray())})
	}
	if e.Weight > 1 {
		s.args = append(s.args, arg{name: "calls", number: int64(e.Weight)})
	}
	if e.Flags&events.CallNested == 0 {
		s.out, s.in = t.flows(e)
	}
	return s
}

// handles are the roles whose values are addresses or similar numbers.
var handles = map[events.Role]bool{
	events.RolePtr: true, events.RoleDst: true, events.RoleSrc: true, events.RoleStream: true, events.RoleFunc: true, events.RoleEvent: true,
	events.RoleGraph: true, events.RoleExec: true, events.RoleContext: true, events.RolePool: true, events.RoleHandle: true, events.RoleModule: true,
	events.RoleLibrary: true, events.RoleKernel: true, events.RoleName: true, events.RoleComm: true, events.RoleCommID: true, events.RoleParent: true,
	events.RoleImage: true,
}

// appendArgs appends the call's arguments, by role.
func (c *call) appendArgs(args []arg) []arg {
	op := c.Op
	if c.Flags&events.CallInherited != 0 {
		op = c.Parent
	}
	if c.Device > 0 {
		args = append(args, arg{name: "device", number: int64(c.Device) - 1})
	}
	row := op.Row()
	if row == nil {
		return args
	}
	for _, keep := range row.Keep {
		role, _ := events.SplitRole(keep)
		v, known := c.Value(role)
		if role == events.RoleNone || !known {
			continue
		}
		a := arg{name: role.String(), kind: argNatural, number: int64(v)}
		switch {
		case role == events.RoleGrid || role == events.RoleBlock:
			x, y, z := events.UnpackDim3(v)
			a.kind, a.text = argText, fmt.Sprintf("%dx%dx%d", x, y, z)
		case handles[role]:
			a.kind = argHandle
		}
		args = append(args, a)
	}
	return args
}

// waitSpan returns an off-CPU time, at its true place.
func waitSpan(w *events.Wait) span {
	s := span{mark: mark{kind: markBegin, at: w.Start, until: w.End(), name: w.State.String(), categories: [2]string{"ledger", w.State.String()}}, rank: rankWait}
	if w.State == events.WaitBlocked {
		s.name += ": " + w.Reason.String()
		if file := w.File.String(); file != "" {
			s.args = append(s.args, arg{name: "file", kind: argText, text: file})
		}
	}
	name := "woken_by"
	if w.State == events.WaitRunnable {
		name = "cpu_had"
	}
	s.args = append(s.args, arg{name: name, kind: argText, text: culprit(w)})
	return s
}

// culprit returns who had the CPU, and for how long, or who ended the wait.
func culprit(w *events.Wait) string {
	who := "not known"
	switch {
	case w.Who.TID != 0:
		who = fmt.Sprintf("%s %d", w.Who.Name, w.Who.PID)
	case w.Flags&events.WaitByIRQ != 0:
		who = "an interrupt or a timer"
	case w.Flags&events.WaitIdle != 0:
		who = "nobody"
	case w.State == events.WaitRunnable && w.Reason == events.ReasonHypervisor:
		who = "others of the hypervisor"
	case w.Flags&events.WaitOthers != 0:
		who = "others"
	}
	if w.State == events.WaitRunnable {
		who += fmt.Sprintf(" for %d us", w.Taken/1000)
	}
	return who
}
