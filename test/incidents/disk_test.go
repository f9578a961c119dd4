//go:build measure || smoke

package incidents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// dataSize is FILE_SIZE of testdata/victim_host.c.
const dataSize = 64 << 20

// data creates the file that the victim reads.
func data(r *run) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "data"), make([]byte, dataSize), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// coldData creates the file, and drops it from the page cache: the reader then pays for the memory.
func coldData(r *run) {
	r.t.Helper()
	data(r)
	f, err := os.Open(filepath.Join(r.dir, "data"))
	if err == nil {
		defer f.Close()
		err = errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// saves returns a training loop that saves its state every few steps.
func saves(s *seed, every, bytes int) victim {
	return victim{main: fmt.Sprintf("copy 262144; launch 10 %d; sync; cpu 300; @%d ckpt %d", s.between(300, 600), every, bytes), env: one(s, spins, blocks)}
}

// loads returns a training loop that a worker process feeds.
func loads(load string) victim {
	return victim{main: "get; copy 65536; launch 8 300; sync", workers: []string{"pin OTHER; " + load + "; put"}, prepare: data, env: blocks}
}

var diskRows = []row{
	{name: "another writes while it saves", alone: true, plan: func(s *seed) plan {
		return plan{victim: saves(s, s.between(8, 15), 1<<20), want: cause("disk-wait"), length: 7 * time.Second,
			faults: during(s, 3*time.Second, 3500*ms, program(2, "writer OTHER DIR/noise %d", s.between(48, 96)<<20))}
	}},
	{name: "another writes while it saves, before the attach", alone: true, plan: func(s *seed) plan {
		v := saves(s, s.between(8, 15), 1<<20)
		v.running = true
		return plan{victim: v, want: cause("disk-wait"), faults: always(program(2, "writer OTHER DIR/noise %d", s.between(48, 96)<<20))}
	}},
	{name: "many small writes of another while it saves", alone: true, plan: func(s *seed) plan {
		return plan{victim: saves(s, 4, 65536), want: cause("disk-wait"), length: 7 * time.Second,
			faults: during(s, 3*time.Second, 3500*ms, program(4, "writer OTHER DIR/noise %d", s.between(12, 20)<<20))}
	}},
	{name: "the disk is bounded while it saves", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 262144; launch 10 400; sync; cpu 300; @%d read 4194304", s.between(8, 15)), prepare: data, env: blocks},
			want: cause("disk-wait"), faults: during(s, short, long, slowDisk(s.between(30, 60)<<20))}
	}},
	{name: "the loop reads past the cache", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("~cached 1048576; !read %d; copy 262144; launch 8 400; sync", s.between(10, 15)<<20), prepare: data, env: blocks},
			want: cause("disk-wait"), faults: during(s, short, long, inside)}
	}},
	{name: "the loader's reads are slow", alone: true, plan: func(s *seed) plan {
		return plan{victim: loads("read 1048576"), want: cause("disk-wait"), faults: during(s, short, long, slowDisk(s.between(40, 80)<<20))}
	}},
	{name: "the loader's reads are slow, before the attach", alone: true, plan: func(s *seed) plan {
		return plan{victim: loads(fmt.Sprintf("!read %d; !read %d; ~cached 1048576", s.between(8, 15)<<20, s.between(8, 15)<<20)), want: cause("disk-wait"), faults: always(inside)}
	}},
	{name: "the loader reads past the cache", alone: true, plan: func(s *seed) plan {
		return plan{victim: loads(fmt.Sprintf("!read %d; !read %d; ~cached 1048576", s.between(8, 15)<<20, s.between(8, 15)<<20)), want: cause("disk-wait"), faults: during(s, short, long, inside)}
	}},
	{name: "another reads while the loader does", plan: func(s *seed) plan {
		return plan{victim: loads("read 4194304"), want: cause("disk-wait"), also: []string{"cpu-taken"},
			faults: during(s, short, long, program(4, "reader OTHER DIR/data 16777216"))}
	}, alone: true},
	{name: "slow reads for half a second", alone: true, plan: func(s *seed) plan {
		return plan{victim: loads("read 1048576"), want: cause("disk-wait"), faults: during(s, 600*ms, 800*ms, slowDisk(20<<20))}
	}},
	{name: "another writes, and it has no files", plan: func(s *seed) plan {
		return plan{victim: trains(spins)(s), faults: during(s, long, 3*time.Second, program(2, "writer OTHER DIR/noise %d", s.between(16, 64)<<20))}
	}, alone: true},
	{name: "another writes, and it reads from the cache", plan: func(s *seed) plan {
		return plan{victim: victim{main: "cached 262144; copy 262144; launch 10 400; sync; cpu 300", prepare: data, env: blocks},
			faults: during(s, long, 3*time.Second, program(1, "writer OTHER DIR/noise %d", s.between(16, 64)<<20))}
	}, alone: true},
	{name: "a hog, and slow reads", full: true, plan: func(s *seed) plan {
		from := s.span(1000*ms, 1200*ms)
		return plan{victim: victim{main: "read 262144; copy 262144; launch 8 300; sync; cpu 2500", prepare: data, env: blocks}, length: 7 * time.Second,
			faults: []fault{{from: from, to: from + 1800*ms, begin: program(1, "hog CPU")}, {from: from + 2500*ms, to: from + 4300*ms, begin: slowDisk(s.between(15, 25) << 20)}},
			want:   []want{{rules: []string{"cpu-taken"}, culprit: byFaultNo(0), lost: within(0)}, {rules: []string{"disk-wait"}, lost: within(1), fault: 1}}}
	}},
	{name: "a hog and slow reads at once", full: true, plan: func(s *seed) plan {
		from := s.span(1200*ms, 1500*ms)
		return plan{victim: victim{main: "read 262144; copy 262144; launch 8 300; sync; cpu 2500", prepare: data, env: blocks}, length: 7 * time.Second,
			faults: []fault{{from: from, to: from + 3500*ms, begin: program(1, "hog CPU")}, {from: from, to: from + 3500*ms, begin: slowDisk(s.between(20, 30) << 20)}},
			want:   []want{{rules: []string{"cpu-taken"}, culprit: byFaultNo(0), lost: delayed(0)}, {rules: []string{"disk-wait"}, lost: beside(delayed(0)), fault: 1}}}
	}},
}
