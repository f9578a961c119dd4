package causal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

var ncclMissing = Rule{
	Name: "nccl-missing", Needs: NeedState, Problems: []string{"1", "20"},
	Doc:     "A rank had not entered a collective in which the other ranks waited.",
	Find:    rollCalls(false),
	Instead: []string{"nccl-straggler", "gpu-slower", "gpu-shared", "lock-wait", "driver-slow"},
}

var ncclDead = Rule{
	Name: "nccl-dead", Needs: NeedState, Problems: []string{"1", "20"},
	Doc:     "A rank of a communicator has ended, and the other ranks wait for it.",
	Find:    rollCalls(true),
	Instead: []string{"nccl-missing", "nccl-straggler", "gpu-slower", "gpu-shared", "lock-wait", "driver-slow"},
}

// rollCalls returns a Find of the roll-calls with waiting ranks: with dead, those missing a rank
// that has ended, else the others. A process loses the time of a stall once, however many of its
// collectives miss a rank.
func rollCalls(dead bool) func(*Window) []Finding {
	return func(w *Window) (out []Finding) {
		type waiting struct {
			pid   uint32
			stall string
		}
		of := map[waiting]called{}
		var order []waiting
		for i := range w.devices.called {
			c := w.devices.root(&w.devices.called[i])
			if slices.ContainsFunc(c.Missing, ended) != dead {
				continue
			}
			for _, pid := range w.waiting(&c) {
				k := waiting{pid, c.stall}
				first, known := of[k]
				if !known {
					first, order = c, append(order, k)
				}
				first.Since, first.to = min(first.Since, c.Since), max(first.to, c.to)
				of[k] = first
			}
		}
		for _, k := range order {
			c := of[k]
			if x, ok := c.finding(w, k.pid); ok {
				out = append(out, x)
			}
		}
		return out
	}
}

func ended(m tick.Missing) bool { return m.End.Time != 0 || m.State != tick.CommActive }

// maxChain is the maximum number of collectives from a wait to its root.
const maxChain = 8

// root returns a collective with the missing ranks at the root of the wait: a missing rank may itself
// wait in a collective of another communicator, for another rank. If ranks wait in a circle, the
// collective stays as it is.
func (d *devices) root(c *called) called {
	last := c
	for range maxChain {
		next := d.awaited(last)
		if next == nil {
			x := *c
			x.Missing, x.Ranks, x.stall = last.Missing, last.Ranks, last.stall
			return x
		}
		last = next
	}
	return *c
}

// awaited returns the collective in which the missing ranks of c wait, nil if one of them waits in none.
// Of a process with several ranks, it is unknown which of them waits.
func (d *devices) awaited(c *called) (first *called) {
	for i := range c.Missing {
		m := &c.Missing[i]
		if ended(*m) || !waitsForRank(m.Open.Op) || c.entered(m.PID) {
			return nil
		}
		at := slices.IndexFunc(d.called, func(o called) bool {
			return o.Comm != c.Comm && o.Since <= c.Since+soon && c.to <= o.to+soon && o.entered(m.PID)
		})
		if at < 0 {
			return nil
		}
		first = cmp.Or(first, &d.called[at])
	}
	return first
}

// entered reports whether a rank of a process has entered a collective.
func (c *called) entered(pid uint32) bool {
	return slices.ContainsFunc(c.Entered, func(r tick.Rank) bool { return r.PID == pid })
}

// waitsForRank reports whether a call may wait for the end of a collective.
func waitsForRank(op events.Op) bool {
	c := classOf(op)
	return c == events.ClassSync || c == events.ClassMemcpy || c == events.ClassCollective
}

// waiting returns the processes that wait: those that entered, or, if none did, all in the
// communicator.
func (w *Window) waiting(c *called) (pids []uint32) {
	for _, r := range c.Entered {
		pids = append(pids, r.PID)
	}
	if len(pids) > 0 {
		return pids
	}
	for i := range w.Tick.States {
		s := &w.Tick.States[i]
		in := slices.ContainsFunc(s.Comms.First, func(x tick.Comm) bool { return x.ID == c.Comm && x.State == tick.CommActive })
		if in && !slices.ContainsFunc(c.Missing, func(m tick.Missing) bool { return m.PID == s.PID }) {
			pids = append(pids, s.PID)
		}
	}
	return pids
}

// hanging returns the running processes that wait in collectives with missing ranks.
func (w *Window) hanging() (pids map[uint32]bool) {
	for i := range w.devices.called {
		for _, pid := range w.waiting(&w.devices.called[i]) {
			if pids == nil {
				pids = map[uint32]bool{}
			}
			pids[pid] = w.until(pid) == w.Now()
		}
	}
	return pids
}

// finding returns what one waiting process has lost.
func (c *called) finding(w *Window, pid uint32) (x Finding, ok bool) {
	x = Finding{PID: pid, Op: c.Op, From: c.Since, To: c.to, Severity: tick.High, Group: c.stall,
		Baseline: "earlier collectives, which every rank entered"}
	x.TID, x.Lost, x.To = w.stalled(pid, c.Since, c.to, 0.5) // earlier hangs are not usual
	x.To = min(max(x.To, c.to), w.until(pid))
	x.Min, x.Max = x.Lost-x.Lost/50, x.Lost+x.Lost/50
	x.Window = max(w.known(pid), x.To-x.From, x.Lost) // the loss is that of the whole hang
	if x.Lost < int64(leastLost) {
		return x, false
	}
	x.Slow, x.Steps = 1, 1
	for i := range c.Missing {
		m := &c.Missing[i]
		name := w.called(m.PID)
		x.Culprits = append(x.Culprits, tick.Culprit{
			Thread: events.Thread{PID: m.PID, TID: max(m.TID, m.PID), Name: name}, Own: m.PID == pid,
			What: rankName(m.Rank, c.Ranks) + " " + instead(m), Lost: time.Duration(x.Lost / int64(len(c.Missing))),
		})
		if m.End.Time != 0 {
			x.Timeline = insert(x.Timeline, moment(m.End.Time, "HOST", "%s %s", rankName(m.Rank, c.Ranks), instead(m)))
		}
		if len(x.Culprits) == maxCulprits {
			break
		}
	}
	if len(c.Entered) > 0 {
		op := "collective"
		if c.Op != 0 {
			op = c.Op.String()
		}
		x.Timeline = insert(x.Timeline, moment(c.Since, "CUDA", "the first of %d ranks enters %s #%d", len(c.Entered), op, c.Seq))
	}
	return x, true
}

// rankName returns "rank 1 of 4", or the process of a rank without a known number.
func rankName(r tick.Rank, ranks uint32) string {
	if r.Rank < 0 {
		return fmt.Sprintf("the rank of process %d", r.PID)
	}
	s := fmt.Sprintf("rank %d", r.Rank)
	if ranks > 0 {
		s += fmt.Sprintf(" of %d", ranks)
	}
	return s
}

// instead describes what a missing rank did, as of the last tick that missed it.
func instead(m *tick.Missing) string {
	switch e := &m.End; {
	case e.OOM:
		return "was killed by the OOM killer"
	case e.Exec:
		return "executed another program"
	case e.Signal != 0 && e.By != 0:
		return fmt.Sprintf("was killed by %s from %s (%d)", tick.SignalName(e.Signal), e.Comm, e.By)
	case e.Signal != 0:
		return "was killed by " + tick.SignalName(e.Signal)
	case e.Time != 0:
		return "had ended"
	case m.State != tick.CommActive:
		return "had " + m.State.String() + " the communicator"
	case !m.Lives:
		return "had ended the thread that makes its collectives"
	}
	var parts []string
	if m.Open.Op != 0 {
		parts = append(parts, "was in "+m.Open.Op.String())
	}
	switch m.Now.State {
	case 0:
		parts = append(parts, "ran on a CPU")
	case events.WaitRunnable:
		parts = append(parts, "waited for a CPU")
	case events.WaitThrottled:
		parts = append(parts, "was throttled by its CPU quota")
	default:
		s := "waited for " + m.Now.Reason.String()
		if m.Now.Syscall != 0 {
			s += " in " + m.Now.Syscall.String()
		}
		parts = append(parts, s)
	}
	if m.At != "" {
		parts = append(parts, "at "+m.At)
	}
	return strings.Join(parts, ", ")
}
