package unwind

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lowest  = 19                     // nice value of a thread that leaves the CPUs to all others
	starved = 500 * time.Millisecond // period in which such a thread gets less than a tenth of a CPU
)

// runLowPriority runs f on a thread of the lowest priority, so that f takes no CPU from traced
// processes. On a machine with busy CPUs, that thread would hardly run. After a period with less
// than a tenth of a CPU, it therefore returns to the priority of its process, which requires
// CAP_SYS_NICE. runLowPriority returns when f does.
func runLowPriority(period time.Duration, f func()) {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 - nice
	if err != nil {
		own = 20
	}
	thread, done := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		thread <- unix.Gettid()
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, lowest)
		f()
	}()
	tid := <-thread
	tick := time.NewTicker(period)
	defer tick.Stop()
	for before := time.Duration(0); ; {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		used := cpuTime(tid)
		if used-before < period/10 {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, 20-own)
			<-done
			return
		}
		before = used
	}
}

// cpuTime returns how long a thread of this process has run, 0 if it has ended.
func cpuTime(tid int) time.Duration {
	const perThread, scheduler = 4, 2 // include/linux/posix-timers_types.h, CPUCLOCK_*
	var t unix.Timespec
	if unix.ClockGettime(int32(^tid<<3|perThread|scheduler), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
