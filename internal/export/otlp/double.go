package otlp

import "ingero/pkg/events"

// The driver reports a double free only as an invalid argument. Earlier calls show what was freed.

const (
	mostFreed     = 4096 // remembered pointers per process
	mostFreedPIDs = 128
)

// freed remembers, for each process, the pointers that it freed and did not get again.
type freed struct {
	processes map[uint32]*freedProcess
	classes   []events.Class // by operation: whether it allocates or frees
}

type freedProcess struct {
	pointers map[uint64]bool
	order    []uint64 // of pointers, including removed ones
	next     int      // index in order of the oldest, when full
}

func newFreed() freed {
	f := freed{processes: map[uint32]*freedProcess{}}
	for i := range events.Catalog {
		r := &events.Catalog[i]
		if r.Class != events.ClassMalloc && r.Class != events.ClassFree || !r.Has(events.RolePtr) {
			continue
		}
		if n := int(r.Op) + 1; n > len(f.classes) {
			f.classes = append(f.classes, make([]events.Class, n-len(f.classes))...)
		}
		f.classes[r.Op] = r.Class
	}
	return f
}

// add handles a call and reports whether it frees a pointer a second time.
func (f *freed) add(c *events.Call) (double bool) {
	if int(c.Op) >= len(f.classes) || f.classes[c.Op] == events.ClassOther {
		return false
	}
	p, known := c.Value(events.RolePtr)
	if !known || p == 0 {
		return false
	}
	process := f.processes[c.PID]
	failed := c.Flags&events.CallFailed != 0
	switch {
	case f.classes[c.Op] == events.ClassMalloc:
		if process != nil && !failed {
			delete(process.pointers, p)
		}
	case failed:
		return process != nil && process.pointers[p]
	default:
		f.free(process, c.PID, p)
	}
	return false
}

func (f *freed) free(process *freedProcess, pid uint32, p uint64) {
	if process == nil {
		if len(f.processes) >= mostFreedPIDs {
			return
		}
		process = &freedProcess{pointers: map[uint64]bool{}}
		f.processes[pid] = process
	}
	switch {
	case process.pointers[p]:
		return
	case len(process.order) < mostFreed:
		process.order = append(process.order, p)
	default:
		delete(process.pointers, process.order[process.next])
		process.order[process.next] = p
		process.next = (process.next + 1) % mostFreed
	}
	process.pointers[p] = true
}
