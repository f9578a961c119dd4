package causal

import (
	"fmt"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// notInitialized is the error of every CUDA call in a forked child whose parent has used CUDA.
const notInitialized = 3

var cudaAfterFork = Rule{
	Name: "cuda-after-fork", Needs: NeedState, Problems: []string{"15", "16"},
	Doc: "A child process that was forked after its parent had called CUDA calls CUDA itself. CUDA does not support this.",
	Find: func(w *Window) []Finding {
		var out []Finding
		at := map[uint32]int{} // index in out, by parent
		for i := range w.Tick.States {
			s := &w.Tick.States[i]
			parent, child := w.forked(s)
			if parent == 0 {
				continue
			}
			e := firstOf(s, notInitialized)
			n, there := at[parent]
			if !there {
				n = len(out)
				at[parent] = n
				out = append(out, Finding{
					PID: parent, Op: e.Op, From: e.First, To: e.Last, Severity: tick.High, Baseline: "child processes that do not call CUDA",
					Timeline: []tick.Moment{moment(e.First, "CUDA", "%s in the forked child %d fails: %s (%d)", e.Op, s.PID, e.Name(), e.Code)},
				})
			}
			x := &out[n]
			x.From, x.To = min(x.From, e.First), max(x.To, e.Last)
			if len(x.Culprits) < maxCulprits {
				x.Culprits = append(x.Culprits, tick.Culprit{
					Thread: events.Thread{PID: s.PID, TID: s.PID, Name: events.NameOf(child.Comm), Parent: parent},
					What:   fmt.Sprintf("forked after its parent had called CUDA, then called %s", e.Op),
				})
			}
		}
		return out
	},
}

func firstOf(s *tick.State, code int32) *tick.CallError {
	for i := range s.Errors.First {
		if e := &s.Errors.First[i]; e.Code == code {
			return e
		}
	}
	return nil
}

// forked returns a process whose CUDA calls fail as not initialized, and its parent, which uses
// CUDA; 0 for other processes.
func (w *Window) forked(s *tick.State) (parent uint32, child *tick.Process) {
	e := firstOf(s, notInitialized)
	if e == nil || w.Now()-e.Last > windowSeconds*1e9 {
		return 0, nil
	}
	for i := range w.Tick.Processes {
		if p := &w.Tick.Processes[i]; p.PID == s.PID {
			child = p
		}
	}
	if child == nil || child.PPID == 0 {
		return 0, nil
	}
	if b := w.History(child.PPID); b == nil || w.State(child.PPID) == nil {
		return 0, nil // the parent does not use CUDA, as far as known
	}
	return child.PPID, child
}
