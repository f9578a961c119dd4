package proc

import (
	"slices"
)

// Selector says which processes to trace. The zero value selects none.
type Selector struct {
	PIDs []uint32 // these; UIDs and All then count for nothing
	UIDs []uint32 // those of these users
	All  bool     // everybody's
	// Alone leaves out the children of PIDs. A process is selected with the
	// children that it has, else, and those that it has later are the kernel
	// side's.
	Alone bool
}

// Match tells whether the process itself is selected. It does not know of its
// ancestors: Scan does.
func (s *Selector) Match(p *Process) bool {
	if p.Kernel {
		return false
	}
	if len(s.PIDs) > 0 {
		return slices.Contains(s.PIDs, p.PID)
	}
	return s.All || slices.Contains(s.UIDs, p.UID)
}
