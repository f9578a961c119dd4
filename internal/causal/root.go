package causal

import (
	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// didOf maps the reason of a blocked thread to what it did. For a disk, the system call says
// whether it read or wrote.
var didOf = map[events.Reason]tick.Did{
	events.ReasonDisk: tick.DidRead, events.ReasonFile: tick.DidRead, events.ReasonFault: tick.DidPage,
	events.ReasonSocket: tick.DidPeer, events.ReasonPoll: tick.DidPeer, events.ReasonPipe: tick.DidPeer, events.ReasonChild: tick.DidPeer,
	events.ReasonSleep: tick.DidSleep, events.ReasonLock: tick.DidLock, events.ReasonGIL: tick.DidLock,
	events.ReasonGPU: tick.DidGPU, events.ReasonDevice: tick.DidGPU,
}

// writes has the system calls that wait until data is on a disk.
var writes = map[events.Syscall]bool{}

func init() {
	for _, name := range []string{"write", "pwrite64", "writev", "pwritev", "pwritev2", "fsync", "fdatasync", "sync_file_range", "syncfs", "sync",
		"msync", "ftruncate", "fallocate", "rename", "renameat2", "unlink", "unlinkat", "close"} {
		for i := range events.Syscalls {
			if events.Syscalls[i].Name == name {
				writes[events.Syscall(i)] = true
			}
		}
	}
}

// root returns the root of a part.
func (p *Part) root() tick.Root {
	switch {
	case p.State == 0:
		return tick.Root{}
	case p.State != events.WaitBlocked && p.Whose.OfJob():
		return tick.Root{Whose: p.Whose, Did: tick.DidCrowd}
	case p.State != events.WaitBlocked, p.Busy:
		return tick.Root{Whose: p.Whose, Did: tick.DidCompute}
	}
	r := tick.Root{Whose: tick.OfItself, Did: p.did()}
	switch {
	case r.Did == tick.DidNotKnown:
		return tick.Root{}
	case p.Via.TID != 0:
		r.Whose = p.ViaWhose
	case p.Who.TID != 0 && (r.Did == tick.DidLock || r.Did == tick.DidPeer): // the other thread acts
		r.Whose = p.Whose
	}
	return r
}

// did returns what the thread of a blocked part did.
func (p *Part) did() tick.Did {
	d := didOf[p.Reason]
	if p.Flags&events.WaitIO != 0 && p.Reason != events.ReasonFault {
		d = tick.DidRead
	}
	if d == tick.DidRead && writes[p.Call] {
		return tick.DidWrite
	}
	return d
}

// kin has the relations between processes, as of the ticks.
type kin struct {
	parents map[uint32]uint32
	names   map[uint32]string
	traced  map[uint32]bool   // processes that use CUDA
	steps   map[uint32]bool   // of these, processes with their own steps
	masters map[uint32]string // meeting place of a job's ranks, by process
}

const (
	maxKin    = 1 << 14
	maxParent = 8 // ancestors to examine
)

// note takes in the processes of a tick. Ended processes stay until the table is full.
func (k *kin) note(t *tick.Tick) {
	if k.parents == nil || len(k.parents) > maxKin {
		*k = kin{map[uint32]uint32{}, map[uint32]string{}, map[uint32]bool{}, map[uint32]bool{}, map[uint32]string{}}
	}
	for _, list := range [][]tick.Process{t.Others, t.Processes} {
		for i := range list {
			p := &list[i]
			k.names[p.PID] = p.Comm
			k.parents[p.PID], k.masters[p.PID], k.traced[p.PID] = p.PPID, p.Master, !p.Mapped.IsZero() || !p.Attached.IsZero()
		}
	}
}

// add records that a process has steps.
func (k *kin) add(s *ledger.Step) {
	if !s.Period && k.steps != nil && !k.steps[s.PID] {
		k.steps[s.PID] = true
	}
}

// whose returns the relation of a thread to a process. Descendants are its workers, or ranks if
// they have their own steps. The job also includes ancestors that use CUDA, ranks with the same
// meeting place, and the descendants of both.
func (k *kin) whose(pid uint32, who *events.Thread) tick.Whose {
	switch {
	case who.TID == 0 && who.Parent == 0:
		return tick.NoThread
	case who.PID == pid:
		return tick.OfProcess
	}
	master, top := k.masters[pid], pid
	for n := 0; n < maxParent && k.traced[k.parents[top]]; n++ {
		top = k.parents[top]
	}
	for at, n := max(who.PID, kthreadd+1), 0; at > kthreadd && n < maxParent; n++ {
		switch {
		case at == pid && k.steps[who.PID]:
			return tick.OfRank
		case at == pid:
			return tick.OfWorker
		case at == top || master != "" && k.masters[at] == master:
			return tick.OfRank
		}
		if at == who.PID && who.Parent != 0 {
			at = who.Parent
			continue
		}
		at = k.parents[at]
	}
	return tick.OfStranger
}

// name gives the thread that had the CPU the name of its process, and names the parent of otherwise
// unknown programs.
func (k *kin) name(p *Part) {
	if p.State != events.WaitRunnable || p.Whose == tick.OfProcess {
		return
	}
	w := &p.Who
	orphans := w.TID == 0 && w.Parent != 0
	if orphans {
		*w = events.Thread{PID: w.Parent, TID: w.Parent}
	}
	if name := k.names[w.PID]; name != "" && (orphans || w.TID != w.PID) {
		w.Name = events.NameOf(name)
	}
}
