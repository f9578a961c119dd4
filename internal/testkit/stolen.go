package testkit

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Stolen returns the CPU time that the hypervisor has withheld from this machine since boot, over
// all CPUs, by the kernel's account. /proc/stat shows it in steps of 10 ms. It is 0 without a
// hypervisor.
func Stolen(t testing.TB) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	var of [8]int64 // CPU times: user, nice, system, idle, iowait, irq, softirq, steal
	args := []any{new(string)}
	for i := range of {
		args = append(args, &of[i])
	}
	if _, err := fmt.Sscan(string(text), args...); err != nil {
		t.Fatalf("/proc/stat: %v", err)
	}
	return time.Duration(of[len(of)-1]) * 10 * time.Millisecond
}

// Settle returns once the hypervisor leaves all CPUs to the machine for a moment, after a minute at
// the latest, since most disturbances are over by then.
func Settle(t testing.TB) {
	t.Helper()
	const moment, little = 300 * time.Millisecond, 10 * time.Millisecond
	quiet := func() bool {
		before := Stolen(t)
		work(moment)
		return Stolen(t)-before <= little
	}
	if !poll(time.Minute, quiet) {
		t.Log("the hypervisor has kept CPUs from the machine for a minute")
	}
}

// work keeps all CPUs busy for a time, since only CPUs that are wanted can be stolen.
func work(d time.Duration) {
	until := time.Now().Add(d)
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for time.Now().Before(until) {
			}
		})
	}
	all.Wait()
}
