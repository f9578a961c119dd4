package session

import (
	"cmp"
	"os"
	"slices"
	"time"

	"ingero/internal/gpu"
	"ingero/internal/proc"
	"ingero/internal/tick"
)

// gpuUsers looks for untraced processes that may use a GPU that became slower: those that use CUDA and have its device
// file open. CUDA has nvidia-uvm open, and monitors of GPUs do not. Its methods are for the session's goroutine. A look
// runs on another one, which nobody waits for: the driver may not answer while a GPU hangs.
type gpuUsers struct {
	fs      proc.FS
	machine gpu.Machine
	began   map[string]time.Time // of the last look, by GPU
	looks   chan gpuLook         // with room for the only look that runs
	looking bool
	unread  uint64 // processes, the most of a look
}

// gpuLook is the result of a look.
type gpuLook struct {
	users  []tick.HostSum
	unread uint64 // processes
}

const (
	gpuLookAgain = 30 * time.Second // shortest time between two looks
	// maxGPUUsers bounds the processes whose start is read: a read costs some 0.1 ms.
	maxGPUUsers = 256
	maxGPUNames = 256 // of began
)

func newGPUUsers(fs proc.FS, machine gpu.Machine) *gpuUsers {
	return &gpuUsers{fs: fs, machine: machine, began: map[string]time.Time{}, looks: make(chan gpuLook, 1)}
}

// seek begins a look if a chain of a tick has grown since the last one.
func (u *gpuUsers) seek(t *tick.Tick, traced map[uint32]tracedProcess) {
	for i := range t.Chains {
		for j := range t.Chains[i].Culprits {
			name := t.Chains[i].Culprits[j].GPU
			began := u.began[name]
			if name == "" || u.looking || t.Time.Sub(began) < gpuLookAgain || !t.Chains[i].To.After(began) {
				continue
			}
			if len(u.began) >= maxGPUNames {
				clear(u.began)
			}
			u.looking, u.began[name] = true, t.Time
			skip := map[uint32]bool{uint32(os.Getpid()): true}
			for pid := range traced {
				skip[pid] = true
			}
			states := slices.Clone(t.GPUs)
			go func() { u.looks <- u.look(name, states, skip) }()
		}
	}
}

// take returns the users that a look has found since the last call, and how many processes a look could not read, at most.
func (u *gpuUsers) take() ([]tick.HostSum, uint64) {
	select {
	case x := <-u.looks:
		u.looking = false
		u.unread = max(u.unread, x.unread)
		return x.users, u.unread
	default:
		return nil, u.unread
	}
}

// look returns the untraced users of a GPU: of many, those that started last. Workers that such a
// program forked have its files open, too, and come last.
func (u *gpuUsers) look(name string, states []tick.GPU, skip map[uint32]bool) (x gpuLook) {
	minor, known := u.machine.Minor(name, states)
	gpus, loaded := u.fs.CharMajor("nvidia", "nvidia-frontend")
	uvm, used := u.fs.CharMajor("nvidia-uvm")
	if !known || !loaded || !used {
		return x
	}
	pids, unread, err := u.fs.WithOpen([]proc.Device{{Major: gpus, Minor: minor}, {Major: uvm}}, skip)
	if err != nil {
		return x
	}
	x.unread = unread
	var found []proc.Process
	for _, pid := range pids[:min(len(pids), maxGPUUsers)] {
		if p, err := u.fs.Process(pid); err == nil {
			found = append(found, p)
		}
	}
	programs := map[uint32]string{}
	for i := range found {
		programs[found[i].PID] = found[i].Exe
	}
	forked := func(p *proc.Process) int {
		if exe, ok := programs[p.PPID]; ok && exe == p.Exe {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(found, func(a, b proc.Process) int {
		return cmp.Or(cmp.Compare(forked(&a), forked(&b)), cmp.Compare(b.StartTicks, a.StartTicks))
	})
	for i := range found[:min(len(found), tick.MaxSharers)] {
		p := &found[i]
		x.users = append(x.users, tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostGPUOpen, PID: p.PID, Object: tick.GPUObject + name}, Comm: p.Comm, Count: 1})
	}
	return x
}
