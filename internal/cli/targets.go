package cli

import (
	"errors"
	"fmt"

	"ingero/internal/proc"
)

// checkPIDs returns a problem if a process cannot be traced. waiting has the processes that
// have not loaded CUDA yet.
func checkPIDs(pids []uint32, names proc.Names) (waiting []proc.Process, err error) {
	var fs proc.FS
	for _, pid := range pids {
		p, err := fs.Process(pid)
		switch {
		case errors.Is(err, proc.ErrExited), err == nil && p.Zombie:
			return nil, &problem{What: fmt.Sprintf("no such process: %d", pid),
				Do: "ingero check lists the processes that use CUDA; ingero run -- COMMAND traces a program from its first call", Err: err}
		case err != nil:
			return nil, err
		case p.ThreadOf != 0:
			return nil, threadProblem(&p, "trace")
		case p.Kernel:
			return nil, &problem{What: fmt.Sprintf("process %d (%s) is a kernel thread: it makes no CUDA calls", pid, p.Comm),
				Do: "ingero check lists the processes that use CUDA"}
		}
		libs, err := fs.Libraries(pid, names)
		if errors.Is(err, proc.ErrExited) {
			return nil, &problem{What: fmt.Sprintf("process %d (%s) has just ended", pid, p.Comm), Err: err,
				Do: "trace the program from its first call: ingero run -- COMMAND"}
		}
		if err != nil {
			return nil, err
		}
		if len(libs) == 0 {
			waiting = append(waiting, p)
		}
	}
	return waiting, nil
}

// threadProblem names the process of a thread, and the command with that process.
func threadProblem(thread *proc.Process, command string) *problem {
	name := ""
	if p, err := (proc.FS{}).Process(thread.ThreadOf); err == nil {
		name = fmt.Sprintf(" (%s)", p.Comm)
	}
	return &problem{What: fmt.Sprintf("%d is a thread of process %d%s", thread.PID, thread.ThreadOf, name),
		Do: fmt.Sprintf("%s the process: ingero %[1]s --pid %d", command, thread.ThreadOf)}
}
