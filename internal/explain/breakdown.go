package explain

import (
	"strings"

	"ingero/internal/tick"
)

// breakdownJSON divides the time of a process's threads. The parts add up to elapsed_ns.
type breakdownJSON struct {
	PID       uint32     `json:"pid"`
	Threads   int        `json:"threads"`
	ElapsedNS uint64     `json:"elapsed_ns"`
	Parts     []partJSON `json:"parts"`
	Steps     int        `json:"steps"`
	StepP50NS int64      `json:"step_p50_ns,omitempty"`
	StepP99NS int64      `json:"step_p99_ns,omitempty"`
	// Time that steps lost by waiting for a CPU after the GPU finished, with its interval.
	CriticalNS    uint64 `json:"critical_ns"`
	CriticalMinNS uint64 `json:"critical_min_ns"`
	CriticalMaxNS uint64 `json:"critical_max_ns"`
	// ByThread is the same time by thread, longest time in calls first.
	ByThread []threadTimeJSON `json:"by_thread,omitempty"`
	Loop     *loopJSON        `json:"loop,omitempty"` // absent: no repetition found
}

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

var bdNames = [bdParts]string{"gpu_wait", "cpu_between_calls", "cpu_in_calls", "runnable", "throttled", "blocked"}
var bdLabels = [bdParts]string{"GPU wait", "CPU between calls", "CPU in calls", "Runnable, waiting", "Throttled", "Blocked"}

// partJSON is one part; by has its shares, if known.
type partJSON struct {
	Name    string      `json:"name"`
	NS      uint64      `json:"ns"`
	Percent float64     `json:"percent"` // one decimal; all add up to 100
	By      []shareJSON `json:"by,omitempty"`
}

type shareJSON struct {
	NS     uint64     `json:"ns"`
	Count  uint64     `json:"count"`
	Comm   string     `json:"comm,omitempty"` // had the CPU, or ended the wait
	PID    uint32     `json:"pid,omitempty"`
	TID    uint32     `json:"tid,omitempty"`
	Own    bool       `json:"own,omitempty"`
	Agent  bool       `json:"agent,omitempty"`
	Idle   bool       `json:"idle,omitempty"`
	ByIRQ  bool       `json:"by_irq,omitempty"`
	Reason string     `json:"reason,omitempty"` // reason of the wait
	Call   string     `json:"syscall,omitempty"`
	File   string     `json:"file,omitempty"`
	Arg    uint64     `json:"arg,omitempty"`
	Dev    string     `json:"dev,omitempty"`
	At     string     `json:"at,omitempty"`     // the GIL: where it was released
	Across string     `json:"across,omitempty"` // the call during which it was held
	Waker  *wakerJSON `json:"waker,omitempty"`
}

// wakerJSON is what the thread that ended the waits did meanwhile.
type wakerJSON struct {
	OnCPUNS     uint64 `json:"on_cpu_ns"`
	RunnableNS  uint64 `json:"runnable_ns"`
	ThrottledNS uint64 `json:"throttled_ns"`
	BlockedNS   uint64 `json:"blocked_ns"`
	Reason      string `json:"reason,omitempty"`
	Call        string `json:"syscall,omitempty"`
	Dev         string `json:"dev,omitempty"`
	ByComm      string `json:"by_comm,omitempty"` // had the CPU while it was runnable
	ByPID       uint32 `json:"by_pid,omitempty"`
	Hypervisor  bool   `json:"hypervisor,omitempty"` // the hypervisor took the CPU
	RootComm    string `json:"root_comm,omitempty"`  // thread at the end of the chain, if another
	RootPID     uint32 `json:"root_pid,omitempty"`
	RootTID     uint32 `json:"root_tid,omitempty"`
	At          string `json:"at,omitempty"` // place in the program where that thread spent most of the time
}

// partsOf returns the parts of a breakdown in order.
func partsOf(b *tick.Breakdown) [bdParts]uint64 {
	return [bdParts]uint64{b.GPUWait, b.GapCPU, b.CallCPU, b.Runnable, b.Throttled, b.Blocked}
}

func breakdownOf(b *tick.Breakdown) breakdownJSON {
	j := breakdownJSON{
		PID: b.PID, Threads: b.Threads, ElapsedNS: b.Elapsed, Steps: b.Steps, StepP50NS: int64(b.StepP50), StepP99NS: int64(b.StepP99),
		CriticalNS: b.Critical, CriticalMinNS: b.CriticalMin, CriticalMaxNS: b.CriticalMax,
	}
	parts := partsOf(b)
	for i, share := range permille(parts[:]) {
		j.Parts = append(j.Parts, partJSON{Name: bdNames[i], NS: parts[i], Percent: float64(share) / 10})
	}
	j.Parts[bdRunnable].By, j.Parts[bdBlocked].By = sharesOf(b.RunnableBy, false), sharesOf(b.BlockedOn, true)
	j.Loop = loopOf(b.Loop)
	for i := range b.ByThread {
		j.ByThread = append(j.ByThread, threadTimeOf(&b.ByThread[i]))
	}
	return j
}

func shareOf(s *tick.Share, blocked bool) shareJSON {
	j := shareJSON{NS: s.NS, Count: s.Count, Comm: clean(s.Who.Name.String()), PID: s.Who.PID, TID: s.Who.TID,
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
		j.Waker = &wakerJSON{OnCPUNS: w.OnCPU, RunnableNS: w.Runnable, ThrottledNS: w.Throttled, BlockedNS: w.Blocked,
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
func (w *writer) breakdown(p *processReport, b *tick.Breakdown) {
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
func breakdownDetail(r *processReport, b *tick.Breakdown, part int) string {
	switch part {
	case bdGPU, bdCalls:
		if r.Time == nil {
			return ""
		}
		return timeDetail(&r.Time.Parts[map[int]int{bdGPU: gpuWait, bdCalls: cpuInCalls}[part]], gpuWait, reportWidth-40)
	case bdRunnable:
		return shareText(b.RunnableBy, b.Runnable, cpuUser)
	case bdBlocked:
		return shareText(b.BlockedOn, b.Blocked, blockedOn)
	}
	return ""
}

// kindsText returns the share of the time in calls of each kind, in any state: "sync 79.8 %, memcpy 3.8
// %".
func kindsText(r *processReport) string {
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
