//go:build measure

package ledger

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// wakeUp is how late, in ns, a CPU may come without anything being granted for it. More
// than mostSlower is never granted: such a machine cannot be measured on.
const (
	wakeUp     = 20_000
	mostSlower = 100_000
)

// slower is by how much a CPU of this machine comes later than that when the timer of a
// thread that sleeps alone has run out, in ns: under a hypervisor that has to bring an
// idle CPU back more than 80 us were seen. Nobody traces meanwhile. 0 where CPUs come in time.
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
