package testkit

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Stolen is for how long the machine's hypervisor has kept CPUs from it that it wanted,
// since it was started, of all its CPUs together: by the kernel's account, which
// /proc/stat shows in steps of 10 ms. It is 0 where there is no hypervisor.
func Stolen(t testing.TB) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	var of [8]int64 // of the CPUs' time: user, nice, system, idle, iowait, irq, softirq, steal
	args := []any{new(string)}
	for i := range of {
		args = append(args, &of[i])
	}
	if _, err := fmt.Sscan(string(text), args...); err != nil {
		t.Fatalf("/proc/stat: %v", err)
	}
	return time.Duration(of[len(of)-1]) * 10 * time.Millisecond
}

// Settle returns once the hypervisor lets the machine have all of its CPUs for a moment,
// and after a minute at the latest: what takes them from it is mostly over by then.
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

// work has all CPUs work for so long: what nobody wants is not kept from anybody.
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
