//go:build measure || smoke

package incidents

import (
	"fmt"
	"os"

	"ingero/internal/testkit"
)

// reports returns a fault that writes a GPU fault to the kernel log, which names a process of the
// victim.
func reports(code, which int) func(*run) disturber {
	return func(r *run) disturber {
		testkit.KernelLog(r.t, false)
		pid := r.processes()[which]
		line := fmt.Sprintf("NVRM: Xid (PCI:0000:75:00): %d, pid=%d, name=victim, Ch 00000008, intr 00000000\n", code, pid) // without a newline the kernel log holds the line back
		if err := os.WriteFile("/dev/kmsg", []byte(line), 0); err != nil {
			r.t.Fatal(err)
		}
		d := inside(r)
		d.pids = []int{pid}
		return d
	}
}

var xidRows = []row{
	// Both processes launch all the time. On one CPU each would wait for the other, longer the more
	// they launch, and cpu-taken would be true.
	{name: "a fault ends a process", alone: true, plan: func(s *seed) plan {
		return plan{victim: victim{main: "copy 262144; launch 20 400; sync; cpu 300", workers: []string{"pin OTHER; launch 8 300; sync; !sleep 100000; !quit"}, env: blocks},
			want: []want{{rules: []string{"xid"}, lost: itsLast}}, faults: during(s, short, long, reports(one(s, 13, 31), 1))}
	}},
	{name: "a fault that nobody feels", plan: func(s *seed) plan {
		return plan{victim: trains(one(s, spins, blocks))(s), faults: during(s, short, long, reports(43, 0))}
	}},
}

// itsLast is how long the process exists after the fault.
func itsLast(*run) lost { return lost{Min: 90 * ms, Mid: 110 * ms, Max: 150 * ms} }
