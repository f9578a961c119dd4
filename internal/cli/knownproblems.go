package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"ingero/internal/config"
	"ingero/internal/lock"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/query"
	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/store/log"
)

// knownProblems lists the errors with their own message and remedy. The first function that returns
// a problem wins.
var knownProblems = []func(error) *problem{
	settingProblem,
	lockedProblem,
	unsafeLockProblem,
	storeProblem,
	notRecordedProblem,
	namespaceProblem,
	processGoneProblem,
	kernelProblem,
	privilegeProblem,
	diskFullProblem,
}

func settingProblem(err error) *problem {
	var e *config.Error
	if !errors.As(err, &e) {
		return nil
	}
	return &problem{What: e.Error(), Do: e.Do, Code: exitUsage}
}

func lockedProblem(err error) *problem {
	var held *lock.LockedError
	if !errors.As(err, &held) {
		return nil
	}
	h := held.Holder
	who := fmt.Sprintf("pid %d", h.PID)
	if !h.Since.IsZero() {
		who += ", since " + h.Since.Local().Format("15:04:05")
	}
	if h.Command != "" {
		who += ": " + h.Command
	}
	do := fmt.Sprintf("ingero status shows what it does; sudo kill %d stops it", h.PID)
	if h.DB != "" {
		do += "; it records to " + h.DB
	}
	return &problem{What: "another trace is already running (" + who + ")", Do: do}
}

func unsafeLockProblem(err error) *problem {
	var unsafe *lock.UnsafeError
	if !errors.As(err, &unsafe) {
		return nil
	}
	return &problem{
		What: fmt.Sprintf("the lock %s %s, so it does not belong to ingero", unsafe.Path, unsafe.Why),
		Do:   "find out who created it, then remove it: sudo rm " + unsafe.Path,
	}
}

func notRecordedProblem(err error) *problem {
	var e query.Missing
	if !errors.As(err, &e) {
		return nil
	}
	return &problem{What: e.Error(), Do: e.Do()}
}

func storeProblem(err error) *problem {
	var held *store.LockedError
	var unsafe *store.UnsafeError
	var old *store.OldError
	var room *query.RoomError
	switch {
	case errors.As(err, &room):
		return &problem{What: room.Error(), Do: "free disk space there, or set TMPDIR to a directory with more space", Err: err}
	case errors.As(err, &old):
		return &problem{What: err.Error(), Do: "convert it: ingero merge " + old.Path + " -o NEW.db; or name another database with --db PATH"}
	case errors.As(err, &held):
		return &problem{What: held.Error(), Do: "record elsewhere: --db PATH"}
	case errors.As(err, &unsafe) && unsafe.Do != "":
		return &problem{What: unsafe.Error() + ", so ingero does not write there", Do: unsafe.Do + ", if its content is yours; or record elsewhere: --db PATH"}
	case errors.As(err, &unsafe):
		return &problem{What: unsafe.Error() + ", so root does not write there", Do: "record elsewhere: --db PATH"}
	case errors.Is(err, query.ErrLost):
		what, _, _ := strings.Cut(oneLine(err.Error()), "; "+query.ErrLost.Error())
		return &problem{What: what, Do: query.ErrLost.Error(), Err: err}
	case store.Damaged(err) && !errors.Is(err, store.ErrNotDatabase):
		return &problem{What: oneLine(err.Error()), Do: "the disk may be failing; ingero sql can still read the intact parts", Err: err}
	case errors.Is(err, store.ErrNotDatabase):
		return &problem{What: err.Error(), Do: "name another database with --db PATH, or move the file away"}
	case errors.Is(err, log.ErrVersion):
		return &problem{What: err.Error(), Do: "install that version of ingero or a newer one"}
	}
	return nil
}

func namespaceProblem(err error) *problem {
	if !errors.Is(err, session.ErrPIDNamespace) {
		return nil
	}
	return &problem{What: "ingero runs in its own PID namespace and cannot trace from here",
		Do: "use the host's PID namespace: docker run --pid=host, or hostPID: true in Kubernetes"}
}

func processGoneProblem(err error) *problem {
	if !errors.Is(err, proc.ErrExited) {
		return nil
	}
	return &problem{
		What: "the process ended before the probes were attached",
		Do:   "trace the program from its first call: ingero run -- COMMAND",
	}
}

func kernelProblem(err error) *problem {
	if !errors.Is(err, probes.ErrNotSupported) {
		return nil
	}
	return &problem{What: "not supported by this kernel: " + err.Error(), Do: "ingero check lists what the kernel supports and what it lacks"}
}

func privilegeProblem(err error) *problem {
	if !errors.Is(err, os.ErrPermission) {
		return nil
	}
	var file *os.PathError
	if errors.As(err, &file) {
		return &problem{What: fmt.Sprintf("not permitted: %s %s", file.Op, file.Path), Do: "run the command with sudo, or as the owner of that path"}
	}
	return &problem{What: "this user is not permitted to trace", Do: "run ingero with sudo, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"}
}

func diskFullProblem(err error) *problem {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	return &problem{
		What: "the disk is full: " + err.Error(),
		Do:   "free disk space, record elsewhere with --db PATH, or trace with --record=false",
	}
}
