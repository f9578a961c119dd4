package session

import (
	"ingero/internal/proc"
	"ingero/internal/python"
)

// userWalk walks Python stacks of a process's threads from user space, while they run.
type userWalk struct {
	of     *python.Process
	walker *python.Walker
	tids   map[uint32]uint32 // in their own PID namespace
	close  func()
}

// walkFrom walks a process's Python stacks from user space from now on.
func (f *framer) walkFrom(pid uint32, process *python.Process) {
	w, done, err := f.mem.walker(pid, process)
	if err != nil {
		return
	}
	if old := f.users[pid]; old != nil {
		old.close()
	}
	f.users[pid] = &userWalk{of: process, walker: w, tids: map[uint32]uint32{}, close: done}
}

// walk returns the current Python frames of a thread.
func (u *userWalk) walk(fs proc.FS, pid, tid uint32) ([]python.Frame, python.End) {
	own, known := u.tids[tid]
	if !known {
		var err error
		if own, err = fs.ThreadPID(pid, tid); err != nil {
			return nil, python.EndFault
		}
		if len(u.tids) >= 1<<12 {
			clear(u.tids)
		}
		u.tids[tid] = own
	}
	frames, end, err := u.walker.Walk(own)
	if err != nil {
		return nil, python.EndFault
	}
	return frames, end
}
