//go:build measure

package ledger

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// wakeUp is the tolerated lateness of a CPU in ns, without an allowance. An allowance of more than
// mostSlower is never made: such a machine is unfit for measurements.
const (
	wakeUp     = 20_000
	mostSlower = 100_000
)

// slower is how much later than wakeUp a CPU of this machine resumes when a lone sleeping thread's
// timer has expired, in ns. It was more than 80 us under a hypervisor that must reschedule an idle
// CPU. Nothing is traced meanwhile. It is 0 if CPUs resume in time.
var slower = sync.OnceValue(func() int64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) }()
	}
	if err != nil {
		return 0
	}
	var late []int64
	for range 200 {
		began := time.Now()
		ts := unix.NsecToTimespec(int64(time.Millisecond))
		if unix.Nanosleep(&ts, nil) == nil {
			late = append(late, int64(time.Since(began)-time.Millisecond))
		}
	}
	if len(late) == 0 {
		return 0
	}
	slices.Sort(late)
	return min(max(late[len(late)*9/10]-wakeUp, 0), mostSlower)
})
