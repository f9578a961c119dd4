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
	began   map[string]time.Time // start of the last look, by GPU
	looks   chan gpuLook         // with room for the only look that runs
	looking bool
	found   []tick.HostSum // not taken yet
	unread  uint64         // processes, the most of a look
}

// gpuLook is the result of a look.
type gpuLook struct {
	users  []tick.HostSum
	unread uint64 // processes
}

const (
	gpuLookAgain = 30 * time.Second // shortest time between two looks that begin for a GPU
	// maxGPUUsers bounds the processes of a GPU whose start is read: a read costs some 0.1 ms.
	maxGPUUsers = 256
	maxGPUNames = 256 // of began
)

func newGPUUsers(fs proc.FS, machine gpu.Machine) *gpuUsers {
	return &gpuUsers{fs: fs, machine: machine, began: map[string]time.Time{}, looks: make(chan gpuLook, 1)}
}

// seek begins a look if the last one for a GPU was long ago, and a chain of the tick about that GPU has grown since then.
// The look is for all GPUs whose chains have grown since their last one: it reads the open files of all processes.
func (u *gpuUsers) seek(t *tick.Tick, traced map[uint32]tracedProcess) {
	if u.looking {
		return
	}
	var names []string
	due := false
	for i := range t.Chains {
		for j := range t.Chains[i].Culprits {
			name := t.Chains[i].Culprits[j].GPU
			began := u.began[name]
			if name == "" || !t.Chains[i].To.After(began) || slices.Contains(names, name) {
				continue
			}
			names = append(names, name)
			due = due || t.Time.Sub(began) >= gpuLookAgain
		}
	}
	if !due {
		return
	}
	if len(u.began)+len(names) > maxGPUNames {
		clear(u.began)
	}
	for _, name := range names {
		u.began[name] = t.Time
	}
	u.looking = true
	skip := map[uint32]bool{uint32(os.Getpid()): true}
	for pid := range traced {
		skip[pid] = true
	}
	states := slices.Clone(t.GPUs)
	go func() { u.looks <- u.look(names, states, skip) }()
}

// take returns the users that looks have found, at most as many as are described in a tick: the others at the next calls.
// unread is how many processes a look could not read, at most.
func (u *gpuUsers) take() (users []tick.HostSum, unread uint64) {
	select {
	case x := <-u.looks:
		u.looking = false
		u.unread = max(u.unread, x.unread)
		u.found = slices.DeleteFunc(u.found, func(old tick.HostSum) bool { // a later look at a GPU replaces an earlier one
			return slices.ContainsFunc(x.users, func(s tick.HostSum) bool { return s.Object == old.Object })
		})
		u.found = append(u.found, x.users...)
	default:
	}
	n := min(len(u.found), lookups)
	users = append(users, u.found[:n]...)
	u.found = u.found[n:]
	return users, u.unread
}

// look returns the untraced users of some GPUs.
func (u *gpuUsers) look(names []string, states []tick.GPU, skip map[uint32]bool) (x gpuLook) {
	gpus, loaded := u.fs.CharMajor("nvidia", "nvidia-frontend")
	major, used := u.fs.CharMajor("nvidia-uvm")
	if !loaded || !used {
		return x
	}
	uvm := proc.Device{Major: major}
	devices, named := []proc.Device{uvm}, map[string]proc.Device{}
	for _, name := range names {
		if minor, known := u.machine.Minor(name, states); known {
			named[name] = proc.Device{Major: gpus, Minor: minor}
			if !slices.Contains(devices, named[name]) {
				devices = append(devices, named[name])
			}
		}
	}
	if len(named) == 0 {
		return x
	}
	opened, unread, err := u.fs.WithOpen(devices, skip)
	if err != nil {
		return x
	}
	x.unread = unread
	read := map[uint32]*proc.Process{}
	for _, name := range names {
		device, known := named[name]
		if !known {
			continue
		}
		var pids []uint32
		for i := range opened {
			if o := &opened[i]; len(pids) < maxGPUUsers && slices.Contains(o.Devices, uvm) && slices.Contains(o.Devices, device) {
				pids = append(pids, o.PID)
			}
		}
		x.users = append(x.users, u.last(name, pids, read)...)
	}
	return x
}

// last returns the users of a GPU: of many, those that started last. Workers that such a program forked have its files
// open, too, and come last. read has the processes that were read before, nil: ended.
func (u *gpuUsers) last(name string, pids []uint32, read map[uint32]*proc.Process) (sums []tick.HostSum) {
	var found []*proc.Process
	programs := map[uint32]string{}
	for _, pid := range pids {
		p, known := read[pid]
		if !known {
			if now, err := u.fs.Process(pid); err == nil {
				p = &now
			}
			read[pid] = p
		}
		if p != nil {
			found = append(found, p)
			programs[pid] = p.Exe
		}
	}
	forked := func(p *proc.Process) int {
		if exe, ok := programs[p.PPID]; ok && exe == p.Exe {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(found, func(a, b *proc.Process) int {
		return cmp.Or(cmp.Compare(forked(a), forked(b)), cmp.Compare(b.StartTicks, a.StartTicks))
	})
	for _, p := range found[:min(len(found), tick.MaxSharers)] {
		sums = append(sums, tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostGPUOpen, PID: p.PID, Object: tick.GPUObject + name}, Comm: p.Comm, Count: 1})
	}
	return sums
}
