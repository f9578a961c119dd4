package causal

import (
	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// didOf is what a blocked thread did, by what it waited for. What a disk was wanted for says
// the system call.
var didOf = map[events.Reason]tick.Did{
	events.ReasonDisk: tick.DidRead, events.ReasonFile: tick.DidRead, events.ReasonFault: tick.DidPage,
	events.ReasonSocket: tick.DidPeer, events.ReasonPoll: tick.DidPeer, events.ReasonPipe: tick.DidPeer, events.ReasonChild: tick.DidPeer,
	events.ReasonSleep: tick.DidSleep, events.ReasonLock: tick.DidLock, events.ReasonGIL: tick.DidLock,
	events.ReasonGPU: tick.DidGPU, events.ReasonDevice: tick.DidGPU,
}

// writes are the system calls that wait until something is on a disk.
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

// root returns what a part comes down to.
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
	case p.Who.TID != 0 && (r.Did == tick.DidLock || r.Did == tick.DidPeer): // it is another that acts
		r.Whose = p.Whose
	}
	return r
}

// did is what the thread of a blocked part did.
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

// kin is what ticks say of who belongs to whom.
type kin struct {
	parents map[uint32]uint32
	names   map[uint32]string
	traced  map[uint32]bool   // processes that use CUDA
	steps   map[uint32]bool   // and have steps of their own
	masters map[uint32]string // where the ranks of a job meet, by process
}

const (
	maxKin    = 1 << 14
	maxParent = 8 // ancestors that are looked at
)

// note takes in the processes of a tick. What has ended stays until there is no room.
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

// add notes who has steps.
func (k *kin) add(s *ledger.Step) {
	if !s.Period && k.steps != nil && !k.steps[s.PID] {
		k.steps[s.PID] = true
	}
}

// whose says how a thread belongs to a process. Its descendants are its workers, or ranks where
// they have steps of their own. To its job belong, too, the processes above it that use CUDA as
// well, the ranks that meet at the same place, and all descendants of these.
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

// name gives who had the CPU the name of its process, and names the parent of programs of which
// no more is known.
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
