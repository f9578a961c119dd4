package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"ingero/internal/lock"
	"ingero/internal/probes"
	"ingero/internal/proc"
)

// known are the errors that have words of their own. The first row that returns
// something is taken.
var known = []func(error) *problem{
	wordsHeld,
	wordsUnsafe,
	wordsGone,
	wordsKernel,
	wordsPrivilege,
	wordsFull,
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
	return &problem{What: "not permitted: " + trimPermission(err), Do: "run it with sudo, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"}
}

// trimPermission leaves out the kernel's word for what has been said already.
func trimPermission(err error) string {
	s := err.Error()
	for _, e := range []syscall.Errno{syscall.EPERM, syscall.EACCES} {
		s = strings.TrimSuffix(s, ": "+e.Error())
	}
	return s
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
