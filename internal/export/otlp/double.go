package otlp

import "ingero/pkg/events"

// The driver reports a double free only as an invalid argument. Earlier calls show what was freed.

const (
	mostFreed     = 4096 // remembered pointers per process
	mostFreedPIDs = 128
)

// freed remembers, for each process, the pointers that it freed and did not get again.
type freed struct {
	of      map[uint32]*freedOf
	classes []events.Class // by operation: whether it allocates or frees
}

type freedOf struct {
	pointers map[uint64]bool
	order    []uint64 // of pointers, including removed ones
	next     int      // index in order of the oldest, when full
}

func newFreed() freed {
	f := freed{of: map[uint32]*freedOf{}}
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
	of := f.of[c.PID]
	failed := c.Flags&events.CallFailed != 0
	switch {
	case f.classes[c.Op] == events.ClassMalloc:
		if of != nil && !failed {
			delete(of.pointers, p)
		}
	case failed:
		return of != nil && of.pointers[p]
	default:
		f.free(of, c.PID, p)
	}
	return false
}

func (f *freed) free(of *freedOf, pid uint32, p uint64) {
	if of == nil {
		if len(f.of) >= mostFreedPIDs {
			return
		}
		of = &freedOf{pointers: map[uint64]bool{}}
		f.of[pid] = of
	}
	switch {
	case of.pointers[p]:
		return
	case len(of.order) < mostFreed:
		of.order = append(of.order, p)
	default:
		delete(of.pointers, of.order[of.next])
		of.order[of.next] = p
		of.next = (of.next + 1) % mostFreed
	}
	of.pointers[p] = true
}
