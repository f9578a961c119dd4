package cli

import (
	"slices"
	"sync"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// ownProcesses is the set of processes that a recording may name. What other processes did stays in
// the recording, without their identity: a recording made for others must not reveal what
// else ran on the machine.
type ownProcesses struct {
	mu   sync.Mutex
	pids map[uint32]bool
}

func (o *ownProcesses) add(pids ...uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pids == nil {
		o.pids = map[uint32]bool{}
	}
	for _, pid := range pids {
		o.pids[pid] = true
	}
}

func (o *ownProcesses) has(pid uint32) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pids[pid]
}

// batch returns a copy of b without other processes. It does not modify b, which is shared.
func (o *ownProcesses) batch(b *tick.Batch) *tick.Batch {
	out := &tick.Batch{Calls: b.Calls}
	for _, p := range b.Procs {
		if o.has(p.PID) {
			out.Procs = append(out.Procs, p)
		}
	}
	for _, w := range b.Waits {
		if o.has(w.PID) {
			o.wait(&w)
			out.Waits = append(out.Waits, w)
		}
	}
	out.Ended = o.threads(b.Ended)
	return out
}

// wait removes the identity of another process from a wait.
func (o *ownProcesses) wait(w *events.Wait) {
	if o.has(w.Who.PID) {
		w.Who.Cgroup = 0
		if !o.has(w.Who.Parent) {
			w.Who.Parent = 0
		}
		return
	}
	if w.Who.TID != 0 && w.State == events.WaitRunnable {
		w.Flags |= events.WaitOthers
	}
	w.Who = events.Thread{}
}

func (o *ownProcesses) threads(all []tick.Thread) []tick.Thread {
	return slices.DeleteFunc(slices.Clone(all), func(t tick.Thread) bool { return !o.has(t.PID) })
}

// tick returns a copy of t without other processes. It omits chains, which name them; a replay
// finds the chains again.
func (o *ownProcesses) tick(t *tick.Tick) *tick.Tick {
	out := *t
	out.Threads, out.Breakdowns, out.Chains, out.Hidden, out.Episodes = o.threads(t.Threads), nil, nil, nil, nil
	out.Pods, out.Xids, out.GPUs, out.Inference = nil, nil, nil, nil
	out.Requests = slices.DeleteFunc(slices.Clone(t.Requests), func(x tick.Request) bool { return !o.has(x.PID) })
	out.EngineSteps = slices.DeleteFunc(slices.Clone(t.EngineSteps), func(x tick.EngineSteps) bool { return !o.has(x.PID) })
	out.HostSums = o.hostSums(t.HostSums)
	out.Processes, out.Others = o.processes(t.Processes), o.processes(t.Others)
	return &out
}

// hostSums keeps the events of owned processes and those without a process.
func (o *ownProcesses) hostSums(all []tick.HostSum) (out []tick.HostSum) {
	for _, h := range all {
		if !o.has(h.PID) && (h.PID != 0 || h.Object != "") {
			continue
		}
		if h.Kind.Row().Object == "cgroup" {
			h.Object = ""
		}
		if !o.has(h.Sender) {
			h.Sender = 0
		}
		if h.Kind == tick.HostSignal && h.Sender == 0 { // Comm is the sender's name
			h.Comm = ""
		}
		out = append(out, h)
	}
	return out
}

func (o *ownProcesses) processes(all []tick.Process) []tick.Process {
	var out []tick.Process
	for _, p := range all {
		if o.has(p.PID) {
			p.Cgroup, p.Where = "/", tick.Where{}
			if !o.has(p.PPID) {
				p.PPID = 0
			}
			out = append(out, p)
		}
	}
	return out
}
