//go:build measure || smoke

package incidents

import (
	"fmt"
	"time"
)

// takenBy expects the chain of CPU time taken by others.
func takenBy(who func(*run) []int) []want {
	return []want{{rules: []string{"cpu-taken"}, culprit: who}}
}

// cause expects a chain without a culprit.
func cause(rules ...string) []want { return []want{{rules: rules}} }

// ofItself expects a chain whose culprit is the victim itself.
func ofItself(rules ...string) []want { return []want{{rules: rules, culprit: byItself}} }

// onCPU returns a training loop whose step needs cpu µs of CPU time, and the GPU.
func onCPU(s *seed, cpu int) victim {
	return victim{main: fmt.Sprintf("copy 262144; launch 10 %d; sync; cpu %d", s.between(200, 400), cpu), env: one(s, spins, blocks)}
}

// during returns a fault that begins after a while and lasts between least and most.
func during(s *seed, least, most time.Duration, begin func(*run) disturber) []fault {
	from := s.span(1500*ms, 2000*ms)
	return []fault{{from: from, to: from + s.span(least, most), begin: begin}}
}

// always returns a fault that is active from before the trace.
func always(begin func(*run) disturber) []fault { return []fault{{begin: begin}} }

// needed returns the CPU time in µs that a step needs, enough that a hog delays it.
func needed(s *seed) int { return s.between(1500, 4000) }

// busy returns a training loop that needs the CPU.
func busy(s *seed) victim { return onCPU(s, needed(s)) }

// late returns a busy loop that runs before the trace begins.
func late(s *seed) victim {
	v := busy(s)
	v.running = true
	return v
}

const (
	short = 1500 * ms
	long  = 2500 * ms
)

var cpuRows = []row{
	{name: "a hog on the core", plan: func(s *seed) plan {
		return plan{victim: busy(s), want: takenBy(byFault), faults: during(s, short, long, program(1, "hog CPU"))}
	}},
	{name: "a hog, before the attach", plan: func(s *seed) plan {
		return plan{victim: late(s), want: takenBy(byFault), faults: always(program(1, "hog CPU"))}
	}},
	{name: "four hogs", plan: func(s *seed) plan {
		return plan{victim: busy(s), want: takenBy(byFault), faults: during(s, short, long, program(4, "hog CPU"))}
	}},
	{name: "four hogs, before the attach", plan: func(s *seed) plan {
		return plan{victim: late(s), want: takenBy(byFault), faults: always(program(4, "hog CPU"))}
	}},
	{name: "a hog of many threads", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 262144; launch 4 %d; sync; cpu 300", s.between(300, 600)), env: spins}, want: takenBy(byFault),
			faults: during(s, short, long, program(1, "threads CPU %d", s.between(5, 12)))}
	}},
	{name: "a real-time hog", plan: func(s *seed) plan {
		on := s.between(4000, 20000)
		return plan{victim: busy(s), want: takenBy(byFault),
			faults: during(s, long, 3*time.Second, realTime("hog CPU fifo %d %d", on, s.between(2, 4)*on))}
	}},
	{name: "a real-time hog, before the attach", plan: func(s *seed) plan {
		on := s.between(4000, 20000)
		return plan{victim: late(s), want: takenBy(byFault), faults: always(realTime("hog CPU fifo %d %d", on, s.between(2, 4)*on))}
	}},
	{name: "a nice hog", plan: func(s *seed) plan {
		return plan{victim: busy(s), want: takenBy(byFault), faults: during(s, long, 3500*ms, program(1, "hog CPU %d", s.between(3, 6)))}
	}},
	{name: "a nice hog, before the attach", plan: func(s *seed) plan {
		return plan{victim: late(s), want: takenBy(byFault), faults: always(program(1, "hog CPU %d", s.between(3, 6)))}
	}},
	{name: "a hog that goes first", plan: func(s *seed) plan {
		return plan{victim: busy(s), want: takenBy(byFault), faults: during(s, short, long, program(1, "hog CPU %d", s.between(-8, -4)))}
	}},
	{name: "a hog now and then", plan: func(s *seed) plan {
		return plan{victim: busy(s), want: takenBy(byFault),
			faults: during(s, 3*time.Second, 3500*ms, program(1, "hog CPU 0 %d %d", s.between(60000, 120000), s.between(250000, 400000)))}
	}},
	{name: "a hog for half a second", plan: func(s *seed) plan {
		return plan{victim: onCPU(s, 4000), want: takenBy(byFault), faults: during(s, 500*ms, 700*ms, program(1, "hog CPU"))}
	}},
	{name: "a hog while the queue fills, which costs nothing", plan: func(s *seed) plan {
		return plan{victim: victim{main: "launch 5 2000 260; hog 1; launch 25 2000 260; hog 0; sync", env: one(s, spins, blocks)}}
	}},
	{name: "a hog of what is left over", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 262144; launch 10 %d; sync; cpu %d", s.between(200, 400), s.between(1500, 3000)), env: spins},
			faults: during(s, long, 3*time.Second, program(1, "hog CPU idle"))}
	}},
	{name: "a thread of its own on the other core", alone: true, plan: func(s *seed) plan {
		v := busy(s)
		v.threads = []string{"pin OTHER; cpu 3000"}
		return plan{victim: v}
	}},
	{name: "a hog on the other core", alone: true, plan: func(s *seed) plan {
		return plan{victim: busy(s), faults: during(s, long, 3500*ms, program(1, "hog OTHER"))}
	}},
	{name: "four hogs on the other core", alone: true, plan: func(s *seed) plan {
		return plan{victim: busy(s), faults: always(program(4, "hog OTHER"))}
	}},
	{name: "a hog on the loader's core", alone: true, plan: func(s *seed) plan {
		return plan{victim: victim{main: "get; copy 65536; launch 8 400; sync", workers: []string{fmt.Sprintf("pin OTHER; cpu %d; put", s.between(1500, 2500))}},
			want: []want{{rules: []string{"cpu-taken"}, culprit: byFault, with: []string{"input-wait"}}}, faults: during(s, short, long, program(1, "hog OTHER"))}
	}},
	{name: "own threads beside the loop", plan: func(s *seed) plan {
		v := busy(s)
		v.threads = []string{"!cpu 2000; ~sleep 20000", "!cpu 3000; ~sleep 20000"}
		return plan{victim: v, want: ofItself("own-threads"), faults: during(s, short, long, inside)}
	}},
	{name: "own threads, before the attach", plan: func(s *seed) plan {
		v := late(s)
		v.threads = []string{"!cpu 2000; ~sleep 20000", "!cpu 3000; ~sleep 20000"}
		return plan{victim: v, want: ofItself("own-threads"), faults: always(inside)}
	}},
	{name: "loader threads on the loop's core", plan: func(s *seed) plan {
		return plan{victim: victim{main: "get; copy 65536; launch 8 300; sync; cpu 2000", depth: 4,
			threads: []string{"cpu 500; put", "!cpu 4000; ~sleep 5000", "!cpu 4000; ~sleep 5000", "!cpu 4000; ~sleep 5000"}},
			want: ofItself("own-threads"), faults: during(s, short, long, inside)}
	}},
	{name: "more threads in parallel than cores", plan: func(s *seed) plan {
		us := s.between(1200, 2500)
		return plan{victim: victim{main: fmt.Sprintf("copy 65536; launch 8 300; sync; ~parallel 1 %d; !parallel %d %d", us, s.between(4, 6), us), env: blocks},
			want:   []want{{rules: []string{"own-threads"}, culprit: byItself, with: []string{"lock-wait"}}},
			faults: during(s, short, long, inside)}
	}},
	{name: "a CPU quota", plan: func(s *seed) plan {
		return plan{victim: busy(s), want: cause("cpu-throttled"), faults: during(s, short, long, quota(s.span(30*ms, 40*ms), 100*ms))}
	}},
	{name: "a CPU quota, before the attach", plan: func(s *seed) plan {
		return plan{victim: late(s), want: cause("cpu-throttled"), faults: always(quota(s.span(30*ms, 40*ms), 100*ms))}
	}},
	{name: "a CPU quota of short periods", plan: func(s *seed) plan {
		return plan{victim: busy(s), want: cause("cpu-throttled"), faults: during(s, short, long, quota(s.span(4*ms, 6*ms), 20*ms))}
	}},
	{name: "a CPU quota that suffices", plan: func(s *seed) plan {
		return plan{victim: busy(s), faults: always(quota(100*ms, 100*ms))}
	}},
	// The victim uses both CPUs, and ingero takes a little of them as it attaches. The victim's
	// threads sometimes share one CPU.
	{name: "a cpuset of one core less", alone: true, plan: func(s *seed) plan {
		from := s.span(2700*ms, 3000*ms) // not while the victim can still choose its CPUs
		return plan{length: 6500 * ms, victim: victim{main: "copy 65536; launch 8 300; sync; cpu 3000", threads: []string{"cpu 2000"}, roams: true, env: blocks},
			want: cause("cpuset-shrunk"), also: []string{"cpu-taken", "own-threads"}, faults: []fault{{from: from, to: from + s.span(short, long), begin: oneCPU}}}
	}},
	{name: "a burst of programs", plan: func(s *seed) plan {
		return plan{victim: busy(s), want: []want{{rules: []string{"burst-of-programs"}, culprit: byFault}},
			faults: during(s, short, long, program(1, "spawner CPU %d %d", s.between(4000, 8000), s.between(1000, 3000)))}
	}},
	{name: "a burst of programs, before the attach", plan: func(s *seed) plan {
		return plan{victim: late(s), want: []want{{rules: []string{"burst-of-programs"}, culprit: byFault}},
			faults: always(program(1, "spawner CPU %d %d", s.between(4000, 8000), s.between(1000, 3000)))}
	}},
	{name: "a burst of programs on the other core", alone: true, plan: func(s *seed) plan {
		return plan{victim: busy(s), faults: during(s, long, 3500*ms, program(1, "spawner OTHER 3000 200"))}
	}},
	{name: "a hog and a quota", plan: func(s *seed) plan {
		from := s.span(1500*ms, 1800*ms)
		return plan{victim: onCPU(s, s.between(3000, 4000)), length: 7 * time.Second,
			faults: []fault{{from: from, to: from + 3500*ms, begin: program(1, "hog CPU 5")}, {from: from, to: from + 3500*ms, begin: quota(20*ms, 100*ms)}},
			want:   []want{{rules: []string{"cpu-taken"}, culprit: byFault, lost: beside(throttled)}, {rules: []string{"cpu-throttled"}, lost: throttled, fault: 1}}}
	}},
	{name: "a hog, then a quota", plan: func(s *seed) plan {
		from := s.span(1000*ms, 1200*ms)
		return plan{victim: busy(s), length: 7 * time.Second,
			faults: []fault{{from: from, to: from + 1800*ms, begin: program(1, "hog CPU")}, {from: from + 2500*ms, to: from + 4300*ms, begin: quota(30*ms, 100*ms)}},
			want:   []want{{rules: []string{"cpu-taken"}, culprit: byFaultNo(0), lost: within(0)}, {rules: []string{"cpu-throttled"}, lost: within(1), fault: 1}}}
	}},
}
