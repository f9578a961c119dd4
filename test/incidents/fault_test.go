package incidents

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"ingero/internal/testkit"
)

// disturb starts the faults program.
func (r *run) disturb(args ...string) *testkit.Child {
	r.t.Helper()
	c := testkit.Start(r.t, exec.Command(filepath.Join(r.lab.dir, "faults"), args...))
	r.join(c.PID())
	c.Line("ready")
	return c
}

// killed is a fault that is over once its processes are.
func killed(all ...*testkit.Child) disturber {
	d := disturber{end: func() {
		for _, c := range all {
			c.Signal(syscall.SIGKILL)
			_ = c.Wait()
		}
	}}
	for _, c := range all {
		d.pids = append(d.pids, c.PID())
	}
	return d
}

// hogs are some on the victim's CPU. how is the nice value, or "fifo".
func hogs(n int, how string) func(*run) disturber {
	return func(r *run) disturber {
		var all []*testkit.Child
		for range n {
			all = append(all, r.disturb("hog", strconv.Itoa(r.cpu), how))
		}
		return killed(all...)
	}
}

// hogElsewhere is one on the other CPU.
func hogElsewhere(r *run) disturber { return killed(r.disturb("hog", strconv.Itoa(1-r.cpu))) }

// inside is what the victim does to itself: the operations of its script that begin
// with "!", instead of those with "~".
func inside(r *run) disturber {
	r.clock.fault(true)
	return disturber{pids: r.pids, end: func() { r.clock.fault(false) }}
}
