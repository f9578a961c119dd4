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
)

// known are the errors that have words of their own. The first row that returns
// something is taken.
var known = []func(error) *problem{
	wordsSetting,
	wordsHeld,
	wordsUnsafe,
	wordsStore,
	wordsNotRecorded,
	wordsNamespace,
	wordsGone,
	wordsKernel,
	wordsPrivilege,
	wordsFull,
}

func wordsSetting(err error) *problem {
	var e *config.Error
	if !errors.As(err, &e) {
		return nil
	}
	return &problem{What: e.Error(), Do: e.Do, Code: exitUsage}
}

func wordsHeld(err error) *problem {
	var held *lock.HeldError
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
	do := fmt.Sprintf("ingero status shows what it does; sudo kill %d ends it", h.PID)
	if h.DB != "" {
		do += "; it records to " + h.DB
	}
	return &problem{What: "another ingero traces this machine (" + who + ")", Do: do}
}

func wordsUnsafe(err error) *problem {
	var unsafe *lock.UnsafeError
	if !errors.As(err, &unsafe) {
		return nil
	}
	return &problem{
		What: fmt.Sprintf("the lock %s %s, so it is not ingero's", unsafe.Path, unsafe.Why),
		Do:   "see who put it there, then: sudo rm " + unsafe.Path,
	}
}

func wordsNotRecorded(err error) *problem {
	var e *query.NotRecordedError
	if !errors.As(err, &e) {
		return nil
	}
	return &problem{What: e.Error(), Do: e.Do()}
}

func wordsStore(err error) *problem {
	var held *store.HeldError
	var unsafe *store.UnsafeError
	var old *store.OldError
	switch {
	case errors.As(err, &old):
		return &problem{What: err.Error(), Do: "convert it: ingero merge " + old.Path + " -o NEW.db; or name another with --db PATH"}
	case errors.As(err, &held):
		return &problem{What: held.Error(), Do: "record elsewhere: --db PATH"}
	case errors.As(err, &unsafe) && unsafe.Do != "":
		return &problem{What: unsafe.Error() + ", so nothing is written there", Do: unsafe.Do + ", if what is in it is yours; or record elsewhere: --db PATH"}
	case errors.As(err, &unsafe):
		return &problem{What: unsafe.Error() + ", so root will not write there", Do: "record elsewhere: --db PATH"}
	case errors.Is(err, query.ErrLost):
		what, _, _ := strings.Cut(oneLine(err.Error()), "; "+query.ErrLost.Error())
		return &problem{What: what, Do: query.ErrLost.Error(), Err: err}
	case store.Damaged(err) && !errors.Is(err, store.ErrNotDatabase):
		return &problem{What: oneLine(err.Error()), Do: "its disk may be failing; ingero sql can still read what is whole", Err: err}
	case errors.Is(err, store.ErrNotDatabase):
		return &problem{What: err.Error(), Do: "name another with --db PATH, or move that file away"}
	case errors.Is(err, store.ErrVersion):
		return &problem{What: err.Error(), Do: "install that ingero, or a newer one"}
	}
	return nil
}

func wordsNamespace(err error) *problem {
	if !errors.Is(err, session.ErrPIDNamespace) {
		return nil
	}
	return &problem{What: "this container numbers processes on its own, so nothing can be traced from here",
		Do: "give it the host's numbers: docker run --pid=host, or hostPID: true in Kubernetes"}
}

func wordsGone(err error) *problem {
	if !errors.Is(err, proc.ErrGone) {
		return nil
	}
	return &problem{
		What: "the process ended before the probes were attached",
		Do:   "trace it from its first call: ingero run -- COMMAND",
	}
}

func wordsKernel(err error) *problem {
	if !errors.Is(err, probes.ErrNotSupported) {
		return nil
	}
	return &problem{What: "this kernel cannot: " + err.Error(), Do: "ingero check says what it has and what it lacks"}
}

func wordsPrivilege(err error) *problem {
	if !errors.Is(err, os.ErrPermission) {
		return nil
	}
	var file *os.PathError
	if errors.As(err, &file) {
		return &problem{What: fmt.Sprintf("not permitted: %s %s", file.Op, file.Path), Do: "run it with sudo, or as the owner of that"}
	}
	return &problem{What: "tracing is not permitted to this user", Do: "run it with sudo, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"}
}

func wordsFull(err error) *problem {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	return &problem{
		What: "the disk is full: " + err.Error(),
		Do:   "make room, record elsewhere with --db PATH, or trace with --record=false",
	}
}
