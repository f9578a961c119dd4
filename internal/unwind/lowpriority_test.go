package unwind

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// nice returns the calling thread's nice value.
func nice(t *testing.T) int {
	t.Helper()
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 - nice
	if err != nil {
		t.Error(err)
	}
	return 20 - n
}

// Work runs at the lowest priority, and the caller's priority stays.
func TestLowPriority(t *testing.T) {
	before, during := nice(t), 0
	runLowPriority(time.Hour, func() { during = nice(t) })
	if after := nice(t); during != lowest || after != before {
		t.Errorf("nice %d during the work, %d after it; want %d, %d", during, after, lowest, before)
	}
}

// A thread that gets no CPU time returns to the priority of its caller.
func TestStarvedReturnsToNormalPriority(t *testing.T) {
	testkit.NeedRoot(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		const own = 3
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, own); err != nil {
			t.Error(err)
			return
		}
		runLowPriority(time.Millisecond, func() {
			testkit.Eventually(t, "the caller's priority", func() bool { return nice(t) == own })
		})
	}()
	<-done
}

// cpuTime returns the same CPU time as the thread reads itself.
func TestCPUTime(t *testing.T) {
	runLowPriority(time.Hour, func() {
		var a, b unix.Timespec
		clock := func(at *unix.Timespec) {
			if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, at); err != nil {
				t.Error(err)
			}
		}
		clock(&a)
		used := cpuTime(unix.Gettid())
		clock(&b)
		if used < time.Duration(a.Nano()) || used > time.Duration(b.Nano()) {
			t.Errorf("%v, want %v to %v", used, time.Duration(a.Nano()), time.Duration(b.Nano()))
		}
	})
}
