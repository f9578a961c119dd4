package cli

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/lock"
	"ingero/internal/service"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// publisher is the sink that publishes the trace's state for `ingero status`, by the wall clock:
// its readers compare the times with theirs.
type publisher struct {
	tick.TicksOnly
	lock     *lock.Lock
	log      *slog.Logger
	database func() (bytes int64, problem error)
	exports  func() []wire.Export
	losses   uint64    // number of lost events at the last tick
	lastLoss time.Time // by the session's clock
	failed   bool      // a failed Publish has been logged
	manager  service.Manager
}

// Tick implements [tick.Sink]. A failure to publish does not end the trace.
func (p *publisher) Tick(t *tick.Tick) error {
	s := wire.TraceState{
		Updated: t.Time.Add(t.Ahead), Libraries: len(t.Libraries), Records: t.Records,
		CPU: t.Self.CPU, RSS: t.Self.RSS, Drops: map[string]uint64{},
	}
	for i := range t.Processes {
		if x := &t.Processes[i]; x.Ended.IsZero() {
			s.Processes = append(s.Processes, wire.TracedProcess{PID: x.PID, Comm: x.Comm, Mapped: wallTime(t, x.Mapped), Attached: wallTime(t, x.Attached), Counted: x.Counted})
		}
	}
	for i := range t.Libraries {
		s.Probes += t.Libraries[i].Probes
	}
	for i := range t.Ops {
		s.Calls += t.Ops[i].Sum.Calls
	}
	if t.Overhead.Budget > 0 {
		s.Overhead, s.Shed = explain.Overhead(&t.Overhead), t.Overhead.Shed
	}
	for _, d := range t.Drops {
		if d.Count > 0 {
			s.Drops[d.Reason] = d.Count
		}
	}
	if losses := explain.Lost(t.Drops); losses > p.losses {
		p.losses, p.lastLoss = losses, t.Time
	}
	s.LastLoss = wallTime(t, p.lastLoss)
	s.Open, s.MoreOpen = openCalls(t)
	s.RollCalls, s.Unranked = rollCalls(t), numUnknownRanks(t)
	if p.database != nil {
		var err error
		if s.DBBytes, err = p.database(); err != nil {
			s.Problems = append(s.Problems, "not recording: "+oneLine(problemOf(err).What))
		}
	}
	if p.exports != nil {
		s.Exports = p.exports()
	}
	if p.manager.Watchdog() > 0 {
		_ = p.manager.Alive(aliveText(&s)) // on an error, the watchdog ends this process
	}
	if err := p.lock.Publish(s); err != nil && !p.failed {
		p.failed = true
		p.log.Warn("cannot publish the trace's state: ingero status will be out of date", "error", err)
	}
	return nil
}

// aliveText returns the status text for systemctl status.
func aliveText(s *wire.TraceState) string {
	text := fmt.Sprintf("%s; processes that use CUDA: %d", counted(s.Calls, "call"), len(s.Processes))
	if len(s.Problems) > 0 {
		text += "; " + s.Problems[0]
	}
	return text
}

// openFor is the minimum age of reported open calls. Most calls that are open at a tick
// return at once.
const openFor = 200 * time.Millisecond

// openCalls returns the calls of a tick that have been open for at least openFor, longest
// first, and the number of further ones.
func openCalls(t *tick.Tick) (calls []wire.PendingCall, more int) {
	comms := map[uint32]string{}
	for i := range t.Processes {
		comms[t.Processes[i].PID] = t.Processes[i].Comm
	}
	for i := range t.Threads {
		x := &t.Threads[i]
		if x.Ended || len(x.Open) == 0 || x.Until-x.Open[0].Start < int64(openFor) {
			continue
		}
		c := wire.PendingCall{PID: x.PID, TID: x.TID, Comm: comms[x.PID], Op: x.Open[0].Op.String(), Since: wallOf(t, x.Open[0].Start)}
		if x.Comm != c.Comm {
			c.Thread = x.Comm
		}
		if n := len(x.Open); n > 1 {
			c.Inner = x.Open[n-1].Op.String()
		}
		setThreadState(&c, &x.Now, t)
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b wire.PendingCall) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.TID, b.TID))
	})
	if len(calls) > lock.MaxOpen {
		calls, more = calls[:lock.MaxOpen], len(calls)-lock.MaxOpen
	}
	return calls, more
}

// maxRollCalls limits the roll-calls of a state, and the missing ranks of each.
const maxRollCalls = 16

// rollCalls returns the collectives of a tick with missing ranks.
func rollCalls(t *tick.Tick) (out []wire.PendingCollective) {
	for i := range t.RollCalls[:min(len(t.RollCalls), maxRollCalls)] {
		c := &t.RollCalls[i]
		x := wire.PendingCollective{Collective: wire.Collective{Comm: fmt.Sprintf("%016x", c.Comm), Ranks: c.Ranks, Seq: c.Seq,
			Since: wallOf(t, c.Since), Text: explain.RollCall(c, t.Time), Entered: []wire.EnteredRank{}}}
		if c.Op != 0 {
			x.Op = c.Op.String()
		}
		for _, r := range c.Entered {
			x.Entered = append(x.Entered, wire.EnteredRank{Rank: r.Rank, PID: r.PID})
		}
		for j := range c.Missing[:min(len(c.Missing), maxRollCalls)] {
			m := &c.Missing[j]
			l := wire.PendingRank{Rank: m.Rank.Rank, Lives: m.Lives, At: m.At, Instead: explain.Instead(m, t.Time),
				PendingCall: wire.PendingCall{PID: m.PID, TID: m.TID, Comm: commOf(t, m.PID), FD: -1}}
			if m.Lives {
				setThreadState(&l.PendingCall, &m.Now, t)
			}
			if m.Lives && m.Open.Op != 0 {
				l.Op, l.Since = m.Open.Op.String(), wallOf(t, m.Open.Start)
			}
			x.Missing = append(x.Missing, l)
		}
		out = append(out, x)
	}
	return out
}

// numUnknownRanks counts the processes with communicators that were created before tracing began.
func numUnknownRanks(t *tick.Tick) (n int) {
	for i := range t.States {
		if slices.ContainsFunc(t.States[i].Comms.First, func(c tick.Comm) bool { return c.Began == 0 && c.State == tick.CommActive && c.Seq > 0 }) {
			n++
		}
	}
	return n
}

func commOf(t *tick.Tick, pid uint32) string {
	for i := range t.Processes {
		if t.Processes[i].PID == pid {
			return t.Processes[i].Comm
		}
	}
	return ""
}

// wallTime returns a time of the session by the wall clock; zero stays zero.
func wallTime(t *tick.Tick, at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(t.Ahead)
}

// wallOf is wallTime for Unix ns.
func wallOf(t *tick.Tick, ns int64) time.Time { return time.Unix(0, ns).Add(t.Ahead) }

// setThreadState sets the state of the call's thread.
func setThreadState(c *wire.PendingCall, d *tick.ThreadState, t *tick.Tick) {
	c.State, c.CPU, c.FD = "on-cpu", d.CPU, -1
	if d.Since > 0 {
		c.StateSince = wallOf(t, d.Since)
	}
	if d.State == 0 {
		return
	}
	c.State = d.State.String()
	if d.State != events.WaitBlocked {
		return
	}
	c.Reason, c.Syscall, c.File, c.Dev = d.Reason.String(), d.Syscall.String(), d.File.String(), d.Dev
	if d.Syscall.Row().FD && d.Arg <= math.MaxInt32 {
		c.FD = int(d.Arg)
	}
}

// Close implements [tick.Sink].
func (p *publisher) Close() error { return nil }
