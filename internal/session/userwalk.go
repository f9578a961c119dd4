package session

import (
	"ingero/internal/proc"
	"ingero/internal/python"
)

// userWalk reads the Python functions that threads of a process are in, while it runs on.
type userWalk struct {
	of     *python.Process
	walker *python.Walker
	tids   map[uint32]uint32 // numbers in their own PID namespace
	close  func()
}

// walkFrom reads a process's Python functions from now on.
func (f *framer) walkFrom(pid uint32, of *python.Process) {
	w, done, err := f.mem.walker(pid, of)
	if err != nil {
		return
	}
	if old := f.users[pid]; old != nil {
		old.close()
	}
	f.users[pid] = &userWalk{of: of, walker: w, tids: map[uint32]uint32{}, close: done}
}

// walk returns the functions that a thread is in now.
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
