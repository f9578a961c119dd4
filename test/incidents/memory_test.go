//go:build measure || smoke

package incidents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// swapFile is the machine's swap file while a scenario needs it.
var swapFile struct {
	sync.Mutex
	path  string
	users int
}

// swap gives the machine swap space during the run.
func swap(r *run) {
	r.t.Helper()
	testkit.NeedTool(r.t, "fallocate", "mkswap", "swapon", "swapoff")
	swapFile.Lock()
	defer swapFile.Unlock()
	if swapFile.users++; swapFile.users == 1 {
		swapFile.path = filepath.Join(r.lab.dir, "swap")
		if out, err := exec.Command("fallocate", "-l", "512M", swapFile.path).CombinedOutput(); err != nil {
			r.t.Fatalf("fallocate: %v\n%s", err, out)
		}
		if err := os.Chmod(swapFile.path, 0o600); err != nil {
			r.t.Fatal(err)
		}
		swapCommand(r.t, "mkswap", swapFile.path)
		swapCommand(r.t, "swapon", swapFile.path)
	}
	r.t.Cleanup(func() {
		swapFile.Lock()
		defer swapFile.Unlock()
		if swapFile.users--; swapFile.users == 0 {
			swapCommand(r.t, "swapoff", swapFile.path)
		}
	})
}

func swapCommand(t testing.TB, name, path string) {
	t.Helper()
	if out, err := exec.Command(name, path).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

// inMemory puts the victim into a memory cgroup, limited to mib MiB unless mib is 0.
func inMemory(mib int) func(*run) {
	return func(r *run) {
		r.memory = r.control("memory")
		if mib > 0 {
			r.bound(mib)
		}
	}
}

// withSwap is inMemory with swap. If the disk is too slow, the victim waits, but is not killed.
func withSwap(mib int) func(*run) {
	return func(r *run) {
		swap(r)
		inMemory(mib)(r)
		r.set(r.memory, "memory.oom_control", "1")
	}
}

// bound sets the limit, which takes a while if more memory is in use.
func (r *run) bound(mib int) {
	r.t.Helper()
	testkit.Eventually(r.t, "a limit on memory", func() bool {
		return r.memory.write("memory.limit_in_bytes", fmt.Sprint(mib<<20)) == nil
	})
}

// limit returns a fault that limits the memory of the victim's cgroup.
func limit(mib int) func(*run) disturber {
	return func(r *run) disturber {
		r.bound(mib)
		return disturber{pids: r.processes(), end: func() { r.set(r.memory, "memory.limit_in_bytes", "-1") }}
	}
}

// limitAbove returns a fault that limits the memory of the victim's cgroup to mib MiB more than its
// processes have used at most, without the page cache. Less than the disk's readahead, often 8 MiB, is
// too little: the kernel cannot reclaim pages while a slow disk reads them, and kills the victim.
func limitAbove(mib int) func(*run) disturber {
	return func(r *run) disturber {
		kib := uint64(0)
		for _, pid := range r.processes() {
			status := group(fmt.Sprintf("/proc/%d", pid))
			kib += status.number("status", "VmHWM:") - status.number("status", "RssFile:") - status.number("status", "RssShmem:")
		}
		return limit(mib + int(kib>>10))(r)
	}
}

// crowd returns a fault: a process in the victim's limited cgroup that uses so much memory that
// reclaim begins.
func crowd(mib int) func(*run) disturber {
	return func(r *run) disturber {
		return killed(r.startFault(fmt.Sprintf("memory OTHER %d 3000", mib<<20), r.all, r.memory))
	}
}

// pagesOut is a fault: a process that repeatedly swaps out the memory of the victim's cgroup.
func pagesOut(r *run) disturber {
	return killed(r.startFault(fmt.Sprintf("pager OTHER %s/memory.force_empty 100000", r.memory), r.all))
}

var memoryRows = []row{
	{name: "another has its memory swapped out", alone: true, plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 65536; launch 8 400; sync; @8 touch %d", s.between(16, 24)<<20), prepare: withSwap(0), env: blocks},
			want: cause("swap-in"), faults: during(s, long, 3*time.Second, pagesOut)}
	}},
	{name: "a neighbour has its memory swapped out", alone: true, plan: func(s *seed) plan {
		return plan{victim: victim{main: "copy 65536; launch 8 400; sync; @50 touch 41943040", prepare: withSwap(76), env: blocks},
			want: cause("swap-in", "memory-limit"), also: []string{"memory-limit", "memory-reclaim", "swap-in"},
			faults: during(s, long, 3*time.Second, crowd(s.between(61, 64)))}
	}},
	{name: "its limit is less than its memory, with swap", alone: true, plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 65536; launch 8 400; sync; ~@30 touch 4194304; !@30 touch %d", s.between(15, 17)<<20), prepare: withSwap(14), env: blocks},
			want: cause("swap-in", "memory-limit"), also: []string{"memory-limit", "memory-reclaim", "swap-in"},
			faults: during(s, long, 3*time.Second, inside)}
	}},
	{name: "its limit makes it wait for reclaim", plan: func(s *seed) plan {
		return plan{victim: victim{main: "copy 65536; launch 8 400; sync; cached 8388608; @3 fresh 25165824", prepare: func(r *run) { inMemory(0)(r); coldData(r) }, env: blocks},
			want:   []want{{rules: []string{"memory-limit", "memory-reclaim"}, with: []string{"disk-wait"}}},
			faults: during(s, long, 3*time.Second, limitAbove(s.between(12, 14)))}
	}},
	{name: "a worker is killed for want of memory", plan: func(s *seed) plan {
		return plan{victim: victim{main: "get; copy 65536; launch 4 200; sync", prepare: inMemory(0), env: blocks, depth: 1,
			workers: []string{"sleep 6000; put", "sleep 6000; put; !grow 4194304"}},
			want: cause("oom-kill"), also: []string{"memory-limit", "memory-reclaim"},
			faults: []fault{{from: s.span(1500*ms, 2500*ms), begin: func(r *run) disturber {
				for _, file := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"} {
					r.set(r.memory, file, "%d", 64<<20)
				}
				return inside(r)
			}}}}
	}},
	{name: "another uses much memory, and there is enough", alone: true, plan: func(s *seed) plan {
		return plan{victim: victim{main: "copy 65536; launch 8 400; sync; @10 touch 16777216", env: blocks},
			faults: during(s, long, 3*time.Second, program(1, "memory OTHER %d 3000", s.between(200, 400)<<20))}
	}},
	{name: "a limit that suffices", plan: func(s *seed) plan {
		return plan{victim: victim{main: "copy 65536; launch 8 400; sync; fresh 1048576", prepare: inMemory(0), env: blocks},
			faults: always(limit(256))}
	}},
}
