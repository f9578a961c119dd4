package store

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// accountDetail is an account's JSON.
type accountDetail struct {
	RunnableBy []shareJSON  `json:"runnable_by,omitempty"`
	BlockedOn  []shareJSON  `json:"blocked_on,omitempty"`
	Threads    []threadJSON `json:"threads"`
	Loop       *loopJSON    `json:"loop,omitempty"` // the repeated steps
	Code       []codeJSON   `json:"code,omitempty"`
	Open       *slowJSON    `json:"open,omitempty"` // the unfinished step
}

type codeJSON struct {
	At string `json:"at"`
	NS uint64 `json:"ns"`
}

type threadJSON struct {
	TID  uint32                 `json:"tid"` // 0: all threads that have no entry of their own
	Comm string                 `json:"comm,omitempty"`
	In   [tick.Places]spentJSON `json:"in"` // calls that wait for the GPU, other calls, gaps
}

type spentJSON struct {
	OnCPU      uint64      `json:"on_cpu_ns,omitempty"`
	Runnable   uint64      `json:"runnable_ns,omitempty"`
	Throttled  uint64      `json:"throttled_ns,omitempty"`
	Blocked    uint64      `json:"blocked_ns,omitempty"`
	RunnableBy []shareJSON `json:"runnable_by,omitempty"`
	BlockedOn  []shareJSON `json:"blocked_on,omitempty"`
}

// shareJSON is a share. Numbers that are not times are encoded as in package events.
type shareJSON struct {
	NS     uint64          `json:"ns"`
	Count  uint64          `json:"count,omitempty"`
	Comm   string          `json:"comm,omitempty"`
	PID    uint32          `json:"pid,omitempty"`
	TID    uint32          `json:"tid,omitempty"`
	PPID   uint32          `json:"ppid,omitempty"`
	Own    bool            `json:"own,omitempty"`
	Agent  bool            `json:"agent,omitempty"`
	Idle   bool            `json:"idle,omitempty"`
	ByIRQ  bool            `json:"by_irq,omitempty"`
	Reason events.Reason   `json:"reason,omitempty"`
	Call   events.Syscall  `json:"syscall,omitempty"`
	File   events.FileKind `json:"file,omitempty"`
	Arg    uint64          `json:"arg,omitempty"`
	Dev    uint32          `json:"dev,omitempty"`
	At     string          `json:"at,omitempty"`
	Across events.Op       `json:"across,omitempty"`
	Waker  *wakerJSON      `json:"waker,omitempty"`
}

type wakerJSON struct {
	spentJSON
	Reason events.Reason  `json:"reason,omitempty"`
	Call   events.Syscall `json:"syscall,omitempty"`
	Dev    uint32         `json:"dev,omitempty"`
	Comm   string         `json:"by_comm,omitempty"`
	PID    uint32         `json:"by_pid,omitempty"`
	TID    uint32         `json:"by_tid,omitempty"`

	Hypervisor bool `json:"hypervisor,omitempty"`

	RootComm   string `json:"root_comm,omitempty"`
	RootPID    uint32 `json:"root_pid,omitempty"`
	RootTID    uint32 `json:"root_tid,omitempty"`
	RootParent uint32 `json:"root_ppid,omitempty"`
	At         string `json:"at,omitempty"`
}

func wakerOf(w *tick.WakerShare, at string) *wakerJSON {
	return &wakerJSON{spentOf(&w.Times), w.Reason, w.Call, w.Dev, w.By.Name.String(), w.By.PID, w.By.TID, w.Hypervisor,
		w.Root.Name.String(), w.Root.PID, w.Root.TID, w.Root.Parent, at}
}

func (w *wakerJSON) share() *tick.WakerShare {
	return &tick.WakerShare{Times: w.times(), Reason: w.Reason, Call: w.Call, Dev: w.Dev, Hypervisor: w.Hypervisor,
		By:   events.Thread{PID: w.PID, TID: w.TID, Name: events.NameOf(w.Comm)},
		Root: events.Thread{PID: w.RootPID, TID: w.RootTID, Parent: w.RootParent, Name: events.NameOf(w.RootComm)}}
}

func codesJSON(all []tick.CodeTime) (out []codeJSON) {
	for _, x := range all {
		out = append(out, codeJSON(x))
	}
	return out
}

func codesOf(all []codeJSON) (out []tick.CodeTime) {
	for _, j := range all {
		out = append(out, tick.CodeTime(j))
	}
	return out
}

func spentOf(t *tick.Times) spentJSON {
	return spentJSON{OnCPU: t.OnCPU, Runnable: t.Runnable, Throttled: t.Throttled, Blocked: t.Blocked}
}

func (s *spentJSON) times() tick.Times {
	return tick.Times{OnCPU: s.OnCPU, Runnable: s.Runnable, Throttled: s.Throttled, Blocked: s.Blocked}
}

func threadsJSON(all []tick.ThreadTime) []threadJSON {
	out := make([]threadJSON, 0, len(all))
	for i := range all {
		j := threadJSON{TID: all[i].TID, Comm: all[i].Comm}
		for p := range j.In {
			x := &all[i].In[p]
			j.In[p] = spentOf(&x.Times)
			j.In[p].RunnableBy, j.In[p].BlockedOn = sharesJSON(x.RunnableBy), sharesJSON(x.BlockedOn)
		}
		out = append(out, j)
	}
	return out
}

func (j *threadJSON) time() tick.ThreadTime {
	t := tick.ThreadTime{TID: j.TID, Comm: j.Comm}
	for p := range j.In {
		x := &j.In[p]
		t.In[p] = tick.Spent{Times: x.times(), RunnableBy: sharesOf(x.RunnableBy), BlockedOn: sharesOf(x.BlockedOn)}
	}
	return t
}

// accountShares is how many names a row keeps of each part.
const accountShares = 12

func sharesJSON(all []tick.Share) (out []shareJSON) {
	for i := range all[:min(len(all), accountShares)] {
		s := &all[i]
		j := shareJSON{NS: s.NS, Count: s.Count, Comm: s.Who.Name.String(), PID: s.Who.PID, TID: s.Who.TID, PPID: s.Who.Parent,
			Own: s.Own, Agent: s.Agent, Idle: s.Idle, ByIRQ: s.ByIRQ, Reason: s.Reason, Call: s.Call, File: s.File, Arg: s.Arg, Dev: s.Dev, At: s.At, Across: s.Across}
		if w := s.Waker; w != nil {
			j.Waker = wakerOf(w, s.WakerAt)
		}
		out = append(out, j)
	}
	return out
}

func sharesOf(all []shareJSON) (out []tick.Share) {
	for i := range all {
		j := &all[i]
		s := tick.Share{NS: j.NS, Count: j.Count, Who: events.Thread{PID: j.PID, TID: j.TID, Parent: j.PPID, Name: events.NameOf(j.Comm)},
			Own: j.Own, Agent: j.Agent, Idle: j.Idle, ByIRQ: j.ByIRQ, Reason: j.Reason, Call: j.Call, File: j.File, Arg: j.Arg, Dev: j.Dev, At: j.At, Across: j.Across}
		if w := j.Waker; w != nil {
			s.Waker, s.WakerAt = w.share(), w.At
		}
		out = append(out, s)
	}
	return out
}
