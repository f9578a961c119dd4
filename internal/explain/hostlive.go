package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// mostVerdicts is the number of processes with their own line at the top, and in the breakdown
// table.
const mostVerdicts = 4

// verdicts writes the main line of each process, those with problems first. It reports whether it
// wrote any.
func (s *screen) verdicts(t *tick.Tick, zone *time.Location) bool {
	order := byGravity(t)
	for i, b := range order {
		if i == mostVerdicts {
			s.addLine(span{fmt.Sprintf("and %d more", len(order)-i), plain})
			break
		}
		line, wrong := verdict(b, ofPID(t.Chains, b.PID), t.Time, zone)
		color := green
		switch {
		case wrong:
			color = red
		case openWait(b) != nil:
			color = plain
		}
		name := cut(joined("  ", nameOf(t.Processes, b.PID), whereTextByPID(t.Processes, b.PID)), s.width)
		if cells(name)+2+cells(line) <= s.width {
			s.addLine(span{name + "  ", bold}, span{line, color})
			continue
		}
		s.addLine(span{name, bold})
		for _, l := range wrap("  "+line, "  ", s.width) {
			s.addLine(span{l, color})
		}
	}
	return len(order) > 0
}

// byGravity sorts the processes: largest loss first, then most activity.
func byGravity(t *tick.Tick) []*tick.Breakdown {
	var out []*tick.Breakdown
	left := make(map[uint32]*tick.Breakdown, len(t.Breakdowns))
	for i := range t.Breakdowns {
		left[t.Breakdowns[i].PID] = &t.Breakdowns[i]
	}
	add := func(pid uint32) {
		if b := left[pid]; b != nil {
			delete(left, pid)
			out = append(out, b)
		}
	}
	for i := range t.Chains {
		add(t.Chains[i].PID)
	}
	for _, ended := range []bool{false, true} {
		for i := range t.Processes {
			if !t.Processes[i].Ended.IsZero() == ended {
				add(t.Processes[i].PID)
			}
		}
	}
	for i := range t.Breakdowns {
		add(t.Breakdowns[i].PID)
	}
	return out
}

// nameOf returns the name of a process in the tick.
func nameOf(ps []tick.Process, pid uint32) string {
	for i := range ps {
		if ps[i].PID == pid {
			return processName(ps[i].Comm, pid)
		}
	}
	return processName("", pid)
}

// shares writes the table of where each process's time went. Each line adds up to 100 %.
func (s *screen) shares(t *tick.Tick) {
	order := slices.DeleteFunc(byGravity(t), func(b *tick.Breakdown) bool { return b.Elapsed == 0 })
	if len(order) == 0 {
		return
	}
	const name = 23
	s.title(alignLeft("Where the time went", name+2) + alignRight("GPU wait", 9) + alignRight("in calls", 9) + alignRight("between", 9) +
		alignRight("runnable", 9) + alignRight("throttled", 10) + alignRight("blocked", 9))
	for i, b := range order {
		if i == mostVerdicts {
			s.addLine(span{fmt.Sprintf("  and %d more", len(order)-i), plain})
			break
		}
		parts := []uint64{b.GPUWait, b.CallCPU, b.GapCPU, b.Runnable, b.Throttled, b.Blocked}
		row := "  " + alignLeft(cut(nameOf(t.Processes, b.PID), name-1), name)
		for j, share := range permille(parts) {
			wide := 9
			if j == 4 {
				wide = 10
			}
			row += alignRight(tenths(share, parts[j])+" %", wide)
		}
		s.row(uint64(2*(len(order)-i)), []span{{row, plain}})
		if more := s.names(b); more != "" {
			s.row(uint64(2*(len(order)-i)-1), []span{{cut("    "+more, s.width), plain}})
		}
	}
}

// names lists CPU users and wait reasons with at least a tenth of a percent.
func (s *screen) names(b *tick.Breakdown) string {
	var parts []string
	if b.Runnable >= b.Elapsed/1000 && len(b.RunnableBy) > 0 && b.Runnable > 0 {
		parts = append(parts, "runnable: "+topShare(b.RunnableBy, b.Runnable, cpuUser))
	}
	if b.Blocked >= b.Elapsed/1000 && len(b.BlockedOn) > 0 && b.Blocked > 0 {
		parts = append(parts, "blocked: "+topShare(b.BlockedOn, b.Blocked, blockedOn))
	}
	return strings.Join(parts, " · ")
}

// topShare returns the largest share of a part, with its process and its time.
func topShare(shares []tick.Share, total uint64, name func(*tick.Share) string) string {
	named, _ := byName(shares, total, name)
	if len(named) == 0 {
		return ""
	}
	n := &named[0]
	s := n.name
	if x := &shares[0]; x.Reason == 0 && !x.Own && !x.Idle && len(n.pids) > 0 {
		s += " (" + numbers(n.pids) + ")"
	}
	return s + " " + short(ns64(n.ns))
}

// host writes the kernel's facts about the traced processes.
func (s *screen) host(t *tick.Tick, seen *Seen, zone *time.Location) {
	s.title("Host Context")
	if len(t.Breakdowns) > 0 {
		s.scheduler(t.Breakdowns)
	}
	ended := 0
	for i := range t.Processes {
		if !t.Processes[i].Ended.IsZero() {
			ended++
		}
	}
	line := fmt.Sprintf("  processes  %d traced, %d ended", len(t.Processes), ended)
	if seen != nil && seen.forks+seen.execs > 0 {
		line += " · " + plural(seen.forks, "fork") + ", " + plural(seen.execs, "exec") + ", " + plural(seen.exits, "exit")
	}
	s.addLine(span{line, plain})
	s.pods(t.Pods)
	if seen == nil {
		s.hostSums(t.HostSums, t.Reports)
		return
	}
	for i := range seen.last {
		s.row(uint64(i)+1, []span{{cut("             "+life(&seen.last[i], t, zone), s.width), plain}})
	}
	s.hostSums(seen.sums.List(), t.Reports)
	s.correlations(t, seen)
}

// scheduler sums up the traced threads' time off the CPU. It counts waits of 20 us and more.
func (s *screen) scheduler(list []tick.Breakdown) {
	var throttled uint64
	for _, part := range [...]struct {
		label string
		of    func(b *tick.Breakdown) (uint64, []tick.Share)
		name  func(*tick.Share) string
	}{
		{"runnable", func(b *tick.Breakdown) (uint64, []tick.Share) { return b.Runnable, b.RunnableBy }, cpuUser},
		{"blocked", func(b *tick.Breakdown) (uint64, []tick.Share) { return b.Blocked, b.BlockedOn }, func(x *tick.Share) string { return blockReason(x.Reason, x.Call, x.Dev) }},
	} {
		var total, count uint64
		var shares []tick.Share
		for i := range list {
			ns, by := part.of(&list[i])
			total += ns
			shares = append(shares, by...)
		}
		for i := range shares {
			count += shares[i].Count
		}
		line := "  " + alignLeft(part.label, 11) + Duration(ns64(total))
		if count > 0 {
			line += " · " + plural(count, "wait") + ": " + shareText(shares, total, part.name)
		}
		s.addLine(span{cut(line, s.width), plain})
	}
	for i := range list {
		throttled += list[i].Throttled
	}
	if throttled > 0 {
		s.addLine(span{"  " + alignLeft("throttled", 11) + Duration(ns64(throttled)) + ", by the CPU quota of the cgroup", yellow})
	}
}

// life describes one event in a process's life.
func life(e *tick.ProcEvent, t *tick.Tick, zone *time.Location) string {
	at := time.Unix(0, e.Time).In(zone).Format("15:04:05.000") + "  "
	switch e.Kind {
	case tick.ProcForked:
		return at + nameOf(t.Processes, e.PID) + " forked " + processName(e.Comm, e.Peer)
	case tick.ProcExeced:
		return at + processName("process", e.PID) + " runs " + clean(e.Comm)
	}
	switch e.Kind {
	case tick.ProcOOM:
		return at + processName(e.Comm, e.PID) + " is killed by the OOM killer"
	case tick.ProcKilled:
		from := "the kernel"
		if e.Peer != 0 {
			from = processName(e.Comm, e.Peer)
		}
		return at + nameOf(t.Processes, e.PID) + " gets " + tick.SignalName(e.Signal) + " from " + from
	}
	if e.Comm != "" {
		return at + processName(e.Comm, e.PID) + " exited"
	}
	return at + nameOf(t.Processes, e.PID) + " exited"
}

// mostCorrelated is the number of operations with a line about their waits.
const mostCorrelated = 2

// correlations writes how slow calls waited for a CPU: how often, how long, and the CPU's user.
func (s *screen) correlations(t *tick.Tick, seen *Seen) {
	shown := 0
	for _, op := range seen.correlated() {
		if shown == mostCorrelated {
			return
		}
		x := seen.waits[op]
		line := op.String()
		if q := quantilesOfOp(t.Ops, op); q.known {
			line += " p99 = " + q.text(q.p99)
		}
		line += fmt.Sprintf(": %s for a CPU, avg %s", plural(x.count, "wait"), short(int64(x.ns/max(x.count, 1))))
		if top := x.top(); top != nil {
			line += fmt.Sprintf(" (%s %d)", threadName(top), top.PID)
		}
		for _, l := range wrap("  "+line, "    ", s.width) {
			s.addLine(span{l, yellow})
		}
		shown++
	}
}

// quantilesOfOp returns the quantiles of an operation over all processes.
func quantilesOfOp(ops []tick.Op, op events.Op) quantiles {
	var list []tick.Op
	for i := range ops {
		if ops[i].Op == op {
			list = append(list, ops[i])
		}
	}
	if len(list) == 0 {
		return quantiles{}
	}
	sum := joinOps(list)
	return quantilesOf(sum[0].Dur, sum[0].Hist, sum[0].Thinned)
}
