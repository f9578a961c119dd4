//go:build measure || smoke

package incidents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingero/internal/testkit"
)

// startFault starts the faults program in some cgroups. The word CPU stands for the victim's CPU,
// OTHER for the other one, PID for the victim, WORKER for its first worker, DIR for its directory.
func (r *run) startFault(what string, in ...group) *testkit.Child {
	r.t.Helper()
	words := []string{"DIR", r.dir}
	for i, pid := range r.processes() {
		words = append(words, []string{"PID", "WORKER", "WORKER2", "WORKER3"}[min(i, 3)], strconv.Itoa(pid))
	}
	what = strings.NewReplacer(words...).Replace(r.place(what))
	// The fault begins once the program is in its cgroups: earlier time would be counted elsewhere.
	waiting := []string{"-c", `read -r _ && exec "$0" "$@"`, filepath.Join(r.lab.dir, "faults")}
	c := testkit.Start(r.t, exec.Command("sh", append(waiting, strings.Fields(what)...)...))
	for _, g := range in {
		r.join(g, c.PID())
	}
	c.Send("go")
	r.reported = c.Line("re")
	return c
}

// killed returns a fault that ends when its processes are killed.
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

// program returns a fault: n runs of the faults program.
func program(n int, format string, args ...any) func(*run) disturber {
	return func(r *run) disturber {
		var all []*testkit.Child
		for range n {
			all = append(all, r.startFault(fmt.Sprintf(format, args...), r.all))
		}
		return killed(all...)
	}
}

// realTime returns a fault with real-time priority, which only the root cgroup may have.
func realTime(format string, args ...any) func(*run) disturber {
	return func(r *run) disturber {
		root := group(filepath.Dir(string(r.all)))
		c := r.startFault(fmt.Sprintf(format, args...), root)
		testkit.NeedKernel(r.t, "real-time priorities in this cgroup", r.reported == "ready")
		return killed(c)
	}
}

// stopping returns a fault that stops the victim, and continues it at the end.
func stopping(format string, args ...any) func(*run) disturber {
	return func(r *run) disturber {
		d := killed(r.startFault(fmt.Sprintf(format, args...), r.all))
		kill := d.end
		d.end = func() {
			kill()
			for _, pid := range r.processes() {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		}
		return d
	}
}

// inside is a fault in the victim itself: its script runs the operations that begin with "!"
// instead of those with "~".
func inside(r *run) disturber {
	r.clock.fault(true)
	return disturber{pids: r.pids, end: func() { r.clock.fault(false) }}
}

// quota returns a fault that limits the victim's CPU time.
func quota(limit, period time.Duration) func(*run) disturber {
	return func(r *run) disturber {
		r.set(r.group, "cpu.cfs_period_us", "%d", period.Microseconds())
		r.set(r.group, "cpu.cfs_quota_us", "%d", limit.Microseconds())
		return disturber{end: func() { r.set(r.group, "cpu.cfs_quota_us", "-1") }}
	}
}

// oneCPU is a fault that removes one of two CPUs from the victim's cpuset.
func oneCPU(r *run) disturber {
	g := r.control("cpuset")
	both, err := os.ReadFile(v1 + "cpuset/cpuset.cpus")
	if err != nil {
		r.t.Fatal(err)
	}
	r.set(g, "cpuset.cpus", "%s", both)
	r.set(g, "cpuset.mems", "0")
	for _, pid := range r.processes() {
		r.join(g, pid)
	}
	r.set(g, "cpuset.cpus", "%d", r.cpu)
	return disturber{end: func() { r.set(g, "cpuset.cpus", "%s", both) }}
}

// slowDisk returns a fault that limits the bytes per second that the victim may read and write.
func slowDisk(perSecond int) func(*run) disturber {
	return func(r *run) disturber {
		g := r.control("blkio")
		for _, pid := range r.processes() {
			r.join(g, pid)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(r.dir, &st); err != nil {
			r.t.Fatal(err)
		}
		// The limit applies to a disk, not to its partition; this is the disk's number.
		disk := fmt.Sprintf("%d:%d", st.Dev>>8&0xfff, st.Dev&0xff)
		for _, file := range []string{"blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"} {
			r.set(g, file, "%s %d", disk, perSecond)
		}
		return disturber{end: func() {
			for _, file := range []string{"blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"} {
				r.set(g, file, "%s 0", disk)
			}
		}}
	}
}

// processes returns the victim's current processes.
func (r *run) processes() []int {
	if pids := r.clock.pids(); len(pids) > 0 {
		return pids
	}
	return r.pids
}
