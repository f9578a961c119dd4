package explain

import (
	"strings"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// The parts of a breakdown.
const (
	bdGPU = iota
	bdBetween
	bdCalls
	bdRunnable
	bdThrottled
	bdBlocked
	bdParts
)

// shownCode is the number of places of own code in a report.
const shownCode = 3

var bdNames = [bdParts]string{"gpu_wait", "cpu_between_calls", "cpu_in_calls", "runnable", "throttled", "blocked"}
var bdLabels = [bdParts]string{"GPU wait", "CPU between calls", "CPU in calls", "Runnable, waiting", "Throttled", "Blocked"}

// partsOf returns the parts of a breakdown in order.
func partsOf(b *tick.Breakdown) [bdParts]uint64 {
	return [bdParts]uint64{b.GPUWait, b.GapCPU, b.CallCPU, b.Runnable, b.Throttled, b.Blocked}
}

func breakdownOf(b *tick.Breakdown) wire.Breakdown {
	j := wire.Breakdown{
		PID: b.PID, Threads: b.Threads, ElapsedNS: b.Elapsed, Steps: b.Steps, StepP50NS: int64(b.StepP50), StepP99NS: int64(b.StepP99),
		CriticalNS: b.Critical, CriticalMinNS: b.CriticalMin, CriticalMaxNS: b.CriticalMax,
	}
	parts := partsOf(b)
	for i, share := range permille(parts[:]) {
		j.Parts = append(j.Parts, wire.BreakdownPart{Name: bdNames[i], NS: parts[i], Percent: float64(share) / 10})
	}
	j.Parts[bdRunnable].By, j.Parts[bdBlocked].By = sharesOf(b.RunnableBy, false), sharesOf(b.BlockedOn, true)
	for _, x := range b.Code {
		j.Code = append(j.Code, wire.CodeTime{At: clean(x.At), NS: x.NS})
	}
	j.Loop = loopOf(b.Loop)
	for i := range b.ByThread {
		j.ByThread = append(j.ByThread, threadTimeOf(&b.ByThread[i]))
	}
	return j
}

func shareOf(s *tick.Share, blocked bool) wire.Share {
	j := wire.Share{NS: s.NS, Count: s.Count, Comm: clean(s.Who.Name.String()), PID: s.Who.PID, TID: s.Who.TID,
		Own: s.Own, Agent: s.Agent, Idle: s.Idle, ByIRQ: s.ByIRQ}
	if !blocked && s.Reason != 0 {
		j.Reason = s.Reason.String()
	}
	if blocked {
		j.Reason, j.Call, j.File, j.Arg = s.Reason.String(), s.Call.String(), s.File.String(), s.Arg
		if s.Dev != 0 {
			j.Dev = device(s.Dev)
		}
		if j.At = clean(s.At); s.Across != 0 {
			j.Across = s.Across.String()
		}
	}
	if w := s.Waker; w != nil {
		j.Waker = &wire.Waker{OnCPUNS: w.OnCPU, RunnableNS: w.Runnable, ThrottledNS: w.Throttled, BlockedNS: w.Blocked,
			ByComm: clean(w.By.Name.String()), ByPID: w.By.PID, Hypervisor: w.Hypervisor,
			RootComm: clean(w.Root.Name.String()), RootPID: w.Root.PID, RootTID: w.Root.TID, At: clean(s.WakerAt)}
		if w.Blocked > 0 {
			j.Waker.Reason, j.Waker.Call = w.Reason.String(), w.Call.String()
		}
		if w.Dev != 0 {
			j.Waker.Dev = device(w.Dev)
		}
	}
	return j
}

// breakdown writes where the time of a process went.
func (w *writer) breakdown(p *wire.ProcessReport, b *tick.Breakdown) {
	head := "WHERE THE TIME WENT   " + processName(p.Comm, p.PID) + ", " + Duration(ns64(p.Breakdown.ElapsedNS))
	if b.Threads > 1 {
		head += " of " + plural(uint64(b.Threads), "thread")
	}
	w.line(w.cut(head, reportWidth))
	for i := range p.Breakdown.Parts {
		part := &p.Breakdown.Parts[i]
		row := "  " + alignLeft(bdLabels[i], 18) + alignRight(short(ns64(part.NS)), 9) + alignRight(percentText(part.Percent, part.NS)+" %", 9)
		if part.NS == 0 {
			w.line(row)
			continue
		}
		w.hang(row+"  ", breakdownDetail(p, b, i))
	}
	if kinds := kindsText(p); kinds != "" {
		w.text("  In calls, by kind: "+kinds, "    ")
	}
	w.steps(b)
}

// breakdownDetail describes the contents of a part: calls, culprits or reasons.
func breakdownDetail(r *wire.ProcessReport, b *tick.Breakdown, part int) string {
	switch part {
	case bdGPU, bdCalls:
		if r.Time == nil {
			return ""
		}
		return timeDetail(&r.Time.Parts[map[int]int{bdGPU: gpuWait, bdCalls: cpuInCalls}[part]], gpuWait, reportWidth-40)
	case bdBetween:
		var at []string
		for _, x := range r.Breakdown.Code[:min(len(r.Breakdown.Code), shownCode)] {
			at = append(at, x.At+" "+Duration(ns64(x.NS)))
		}
		return strings.Join(at, ", ")
	case bdRunnable:
		return shareText(b.RunnableBy, b.Runnable, cpuUser)
	case bdBlocked:
		return shareText(b.BlockedOn, b.Blocked, blockedOn)
	}
	return ""
}

// kindsText returns the share of the time in calls of each kind, in any state: "sync 79.8 %, memcpy 3.8
// %".
func kindsText(r *wire.ProcessReport) string {
	if r.Time == nil || len(r.Time.Classes) == 0 {
		return ""
	}
	ns := []uint64{r.Breakdown.ElapsedNS}
	for _, c := range r.Time.Classes {
		ns = append(ns, c.NS)
		ns[0] -= min(c.NS, ns[0])
	}
	shares := permille(ns)
	var parts []string
	for i, c := range r.Time.Classes {
		parts = append(parts, c.Class+" "+tenths(shares[i+1], c.NS)+" %")
	}
	return strings.Join(parts, ", ")
}

// shareText names the largest shares of a part, "stress-ng 1.37 s · kworker 30 ms", and the unnamed
// rest.
func shareText(shares []tick.Share, total uint64, name func(*tick.Share) string) string {
	const most = 3
	named, unnamed := byName(shares, total, name)
	var parts []string
	for i, n := range named {
		if i == most || n.ns < total/100 {
			break
		}
		parts = append(parts, n.name+" "+short(ns64(n.ns)))
	}
	if unnamed > total/20 && len(parts) > 0 {
		parts = append(parts, "short waits "+short(ns64(unnamed)))
	}
	return strings.Join(parts, " · ")
}

// breakdowns returns the account of each process, once. An account without time comes from a
// recording without thread accounts.
func breakdowns(list []tick.Breakdown) map[uint32]*tick.Breakdown {
	out := map[uint32]*tick.Breakdown{}
	for i := range list {
		b := list[i]
		if b.Elapsed == 0 {
			continue
		}
		if was := out[b.PID]; was != nil {
			b = was.Plus(&b)
		}
		out[b.PID] = &b
	}
	return out
}
