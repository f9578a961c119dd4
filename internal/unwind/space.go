package unwind

import "time"

// space is the set of mappings of one or more processes.
type space struct {
	slot  uint32
	id    uint64
	users int
	maps  []Mapping
	files []use     // files that maps refers to
	since time.Time // when they were read
}

func (k *Keeper) setSpace(pid uint32, p *process) {
	if err := k.Kernel.SetSpace(pid, p.space.slot, p.space.id); err != nil {
		k.Log.Warn("stacks", "error", err)
	}
}

// move gives a process a new space with these mappings. Spaces never change, since the walker
// caches what it finds in them.
func (k *Keeper) move(pid uint32, p *process, mapped []Mapping, used []use, now time.Time) bool {
	slot, ok := k.spaces.take()
	if !ok {
		k.files.release(used)
		k.files.figures.Refused++
		return false
	}
	k.made++
	s := &space{slot: slot, id: k.made, users: 1, maps: mapped, files: used, since: now}
	err := k.Kernel.PutMappings(s.slot, s.id, mapped)
	if err == nil {
		err = k.Kernel.SetSpace(pid, s.slot, s.id)
	}
	if err != nil {
		k.Log.Warn("stacks", "error", err)
		k.files.release(used)
		k.spaces.free(s.slot)
		return false
	}
	k.release(p)
	p.space = s
	return true
}

// drop takes a process's space from the kernel.
func (k *Keeper) drop(pid uint32, p *process) {
	if err := k.Kernel.DropSpace(pid); err != nil {
		k.Log.Warn("stacks", "error", err)
	}
	k.release(p)
}

// release drops a process's space, which the kernel no longer uses.
func (k *Keeper) release(p *process) {
	s := p.space
	p.space = nil
	if s == nil {
		return
	}
	if s.users--; s.users > 0 {
		return
	}
	if err := k.Kernel.DropMappings(s.slot); err != nil {
		k.Log.Warn("stacks", "error", err)
	}
	k.spaces.free(s.slot)
	k.files.release(s.files)
}
