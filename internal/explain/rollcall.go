package explain

import (
	"fmt"
	"strconv"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// mostMissing is the number of missing ranks that are described.
const mostMissing = 4

func rankOf(r tick.Rank) wire.RankProcess {
	j := wire.RankProcess{PID: r.PID}
	if r.Rank >= 0 {
		j.Rank = new(r.Rank)
	}
	return j
}

func rollCallsOf(t *tick.Tick) (out []wire.RollCall) {
	comms := map[uint32]string{}
	for i := range t.Processes {
		comms[t.Processes[i].PID] = t.Processes[i].Comm
	}
	for i := range t.RollCalls {
		out = append(out, rollCallOf(&t.RollCalls[i], t.Time, comms))
	}
	return out
}

func rollCallOf(c *tick.RollCall, now time.Time, comms map[uint32]string) wire.RollCall {
	j := wire.RollCall{Comm: fmt.Sprintf("%016x", c.Comm), Ranks: c.Ranks, Seq: c.Seq, Since: unix(c.Since), WaitNS: max(now.UnixNano()-c.Since, 0),
		Entered: []wire.RankProcess{}, Missing: []wire.MissingRank{}}
	if c.Op != 0 {
		j.Op = c.Op.String()
	}
	for _, r := range c.Entered {
		j.Entered = append(j.Entered, rankOf(r))
	}
	for i := range c.Missing {
		m := &c.Missing[i]
		x := wire.MissingRank{RankProcess: rankOf(m.Rank), Comm: clean(comms[m.PID]), Entered: m.Seq, State: m.State.String(), At: clean(m.At), Instead: Instead(m, now)}
		if m.Last.Op != 0 {
			x.LastOp, x.Last = m.Last.Op.String(), unix(m.Last.Time)
		}
		if e := &m.End; e.Time != 0 {
			x.Ended, x.How = unix(e.Time), "exit"
			switch {
			case e.OOM:
				x.How = "oom-kill"
			case e.Exec:
				x.How = "exec"
			case e.Signal != 0:
				x.How, x.Signal, x.Sender, x.SentBy = "kill", tick.SignalName(e.Signal), new(e.By), clean(e.Comm)
			}
		}
		if m.Lives {
			x.TID, x.Now = m.TID, threadStateOf(&m.Now)
			if m.Open.Op != 0 {
				x.Open = &wire.OpenCall{Op: m.Open.Op.String(), Start: unix(m.Open.Start)}
			}
		}
		j.Missing = append(j.Missing, x)
	}
	return j
}

// RollCall describes the missing and the waiting ranks: "rank 1 of 4 has not entered ncclAllReduce
// #12, which ranks 0 and 2 entered 41.2 s ago".
func RollCall(c *tick.RollCall, now time.Time) string {
	var missing []tick.Rank
	for i := range c.Missing {
		missing = append(missing, c.Missing[i].Rank)
	}
	s := Ranks(missing)
	if c.Ranks > 0 {
		s += fmt.Sprintf(" of %d", c.Ranks)
	}
	verb := " has"
	if len(missing) > 1 {
		verb = " have"
	}
	what := "collective"
	if c.Op != 0 {
		what = c.Op.String()
	}
	s += verb + fmt.Sprintf(" not entered %s #%d", what, c.Seq)
	if len(c.Entered) == 0 {
		return s
	}
	return s + ", which " + Ranks(c.Entered) + " entered " + Duration(max(now.UnixNano()-c.Since, 0)) + " ago"
}

// Ranks names ranks: "rank 3", "ranks 0, 1 and 4". Ranks with an unknown number are named by their
// process.
func Ranks(ranks []tick.Rank) string {
	const most = 8
	var names []string
	known := true
	for _, r := range ranks {
		known = known && r.Rank >= 0
	}
	for i, r := range ranks {
		if i == most && len(ranks) > most+1 {
			names = append(names, fmt.Sprintf("%d more", len(ranks)-most))
			break
		}
		n := strconv.Itoa(int(r.Rank))
		if !known {
			n = strconv.FormatUint(uint64(r.PID), 10)
		}
		names = append(names, n)
	}
	word := map[bool]string{true: "rank", false: "process"}[known]
	if len(ranks) > 1 {
		word = map[bool]string{true: "ranks", false: "processes"}[known]
	}
	return word + " " + list(names)
}

// Instead describes what a missing rank does: "was killed by SIGKILL from bash (99)", "has been in
// cudaMalloc for 3.00 s: it runs on CPU 2".
func Instead(m *tick.Missing, now time.Time) string {
	ago := func(ns int64) string { return Duration(max(now.UnixNano()-ns, 0)) }
	if e := &m.End; e.Time != 0 {
		return ending(e) + " " + ago(e.Time) + " ago"
	}
	switch {
	case m.State != tick.CommActive:
		return "has " + m.State.String() + " the communicator"
	case !m.Lives:
		return "has ended the thread that entered its last collective"
	}
	s := doing(&m.Now, now)
	if m.Open.Op == 0 {
		if m.Last.Op != 0 && m.At != "" {
			s += "; its last collective was made at " + clean(m.At)
		}
		return s
	}
	in := "has been in " + m.Open.Op.String() + " for " + ago(m.Open.Start)
	if m.At != "" {
		in += ", at " + clean(m.At)
	}
	return in + ": it " + s
}

// ending describes how a process ended.
func ending(e *tick.Ending) string {
	switch {
	case e.OOM:
		return "was killed by the OOM killer"
	case e.Exec:
		return "executed another program"
	case e.Signal != 0 && e.By != 0:
		return "was killed by " + tick.SignalName(e.Signal) + " from " + processName(e.Comm, e.By)
	case e.Signal != 0:
		return "was killed by " + tick.SignalName(e.Signal)
	}
	return "ended"
}

// doing describes a thread's current activity.
func doing(d *tick.ThreadState, now time.Time) string {
	lasts := ""
	if d.Since > 0 {
		lasts = " for " + Duration(max(now.UnixNano()-d.Since, 0))
	}
	switch d.State {
	case 0:
		return fmt.Sprintf("runs on CPU %d", d.CPU) + lasts
	case events.WaitRunnable:
		return fmt.Sprintf("has been waiting for CPU %d", d.CPU) + lasts
	case events.WaitThrottled:
		return "is throttled by the CPU quota of its cgroup" + lasts
	}
	on := blockReason(d.Reason, d.Syscall, d.Dev)
	if d.Syscall != 0 && on != d.Syscall.String() {
		on = d.Syscall.String() + ", waiting for " + on
	}
	return "is in " + on + lasts
}

// rollCalls shows the collectives with missing ranks: all other ranks stand still.
func (s *screen) rollCalls(t *tick.Tick) {
	for i := range t.RollCalls {
		c := &t.RollCalls[i]
		text := RollCall(c, t.Time)
		for j := range c.Missing {
			m := &c.Missing[j]
			if j == mostMissing {
				text += fmt.Sprintf("; and %d more", len(c.Missing)-j)
				break
			}
			text += "; "
			if len(c.Missing) > 1 {
				text += Ranks([]tick.Rank{m.Rank})
			} else {
				text += "it"
			}
			text += fmt.Sprintf(" (%d) ", m.PID) + Instead(m, t.Time)
		}
		for _, l := range wrap(text, "  ", s.width) {
			s.addLine(span{l, red})
		}
	}
}
