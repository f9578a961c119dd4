//go:build measure || smoke

package incidents

import "fmt"

// stopRows are faults that stop the victim.
var stopRows = []row{
	{name: "stopped by a signal, again and again", plan: func(s *seed) plan {
		return plan{victim: trains(one(s, spins, blocks))(s), want: []want{{rules: []string{"stopped"}, culprit: byFault}},
			faults: during(s, long, 3000*ms, stopping("stopper OTHER PID %d %d", s.between(50000, 150000), s.between(200000, 400000)))}
	}},
	{name: "stopped once", plan: func(s *seed) plan {
		return plan{victim: trains(one(s, spins, blocks))(s), want: []want{{rules: []string{"stopped"}, culprit: byFault}},
			faults: during(s, 2000*ms, 2100*ms, stopping("stopper OTHER PID %d 0", s.between(400000, 900000)))}
	}},
	{name: "a worker is stopped", plan: func(s *seed) plan {
		return plan{victim: victim{main: "get; copy 65536; launch 8 300; sync", workers: []string{"cpu 500; put"}, env: blocks},
			want:   []want{{rules: []string{"stopped"}, culprit: byFault}},
			faults: during(s, long, 3000*ms, stopping("stopper OTHER WORKER %d %d", s.between(100000, 200000), s.between(200000, 400000)))}
	}},
	{name: "a debugger looks at it", plan: func(s *seed) plan {
		return plan{victim: trains(one(s, spins, blocks))(s), want: []want{{rules: []string{"debugger"}, culprit: byFault}},
			faults: during(s, long, 3000*ms, stopping("tracer OTHER PID %d %d", s.between(50000, 150000), s.between(200000, 400000)))}
	}},
	{name: "a debugger stops it once", plan: func(s *seed) plan {
		return plan{victim: trains(one(s, spins, blocks))(s), want: []want{{rules: []string{"debugger"}, culprit: byFault}},
			faults: during(s, 2000*ms, 2100*ms, stopping("tracer OTHER PID %d 0", s.between(400000, 900000)))}
	}},
}

// threadRows are faults of the victim's own threads and workers.
var threadRows = []row{
	{name: "a lock that another thread holds", plan: func(s *seed) plan {
		return plan{victim: victim{main: "hold 200; copy 65536; launch 8 400; sync", threads: []string{fmt.Sprintf("~sleep 5000; !holdsleep %d; sleep 500", s.between(8000, 20000))}, env: blocks},
			want: ofItself("lock-wait"), faults: during(s, short, long, inside)}
	}},
	{name: "a lock that another thread holds, before the attach", plan: func(s *seed) plan {
		return plan{victim: victim{main: "hold 200; copy 65536; launch 8 400; sync", running: true, threads: []string{fmt.Sprintf("~sleep 5000; !holdsleep %d; sleep 12000", s.between(8000, 20000))}, env: blocks},
			want: ofItself("lock-wait"), faults: always(inside)}
	}},
	{name: "a lock that another thread holds, and nobody asks for", plan: func(s *seed) plan {
		return plan{victim: victim{main: "copy 65536; launch 8 400; sync", threads: []string{fmt.Sprintf("holdsleep %d; sleep 500", s.between(8000, 20000))}, env: blocks}}
	}},
	{name: "the driver's lock, which another thread holds", alone: true, plan: func(s *seed) plan {
		return plan{victim: victim{main: "driverlock; copy 65536; launch 8 400; sync", threads: []string{fmt.Sprintf("pin OTHER; slowcall %d; !malloc 65536; ~sleep 5000; sleep 300", s.between(2000, 5000))}, env: blocks},
			want: ofItself("lock-wait"), faults: during(s, short, long, inside)}
	}},
	{name: "calls of the driver take longer", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("driverlock; ~slowcall 0; !slowcall %d; copy 65536; launch 8 300; sync", s.between(400, 800)), env: blocks},
			want: cause("call-slow"), faults: during(s, short, long, inside)}
	}},
	{name: "Python's lock, which another thread holds", full: true, plan: func(s *seed) plan {
		return plan{victim: victim{program: python, env: blocks}, want: ofItself("gil-wait"), also: []string{"own-threads"}, faults: during(s, short, long, inside)}
	}},
	{name: "Python's lock, before the attach", full: true, plan: func(s *seed) plan {
		return plan{victim: victim{program: python, env: blocks, running: true}, want: ofItself("gil-wait"), also: []string{"own-threads"}, faults: always(inside)}
	}},
	{name: "its own code computes for longer", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("cpu 300; !cpu %d; copy 65536; launch 8 400; sync", s.between(4000, 12000)), env: blocks},
			want: ofItself("own-code"), faults: during(s, short, long, inside)}
	}},
	{name: "its own code sleeps", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("cpu 300; !sleep %d; copy 65536; launch 8 400; sync", s.between(4000, 12000)), env: blocks},
			want: ofItself("own-code"), faults: during(s, short, long, inside)}
	}},
	{name: "its own code computes while the GPU works", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("cpu 300; copy 65536; launch 8 1500; !cpu %d; sync", s.between(4000, 8000)), env: blocks}, faults: during(s, short, long, inside)}
	}},
	{name: "a loader that computes for too long", alone: true, plan: func(s *seed) plan {
		return plan{victim: victim{main: "get; copy 65536; launch 8 400; sync", workers: []string{fmt.Sprintf("pin OTHER; cpu 1000; put; !cpu %d", s.between(6000, 12000))}, env: blocks},
			want: ofItself("input-wait"), faults: during(s, short, long, inside)}
	}},
	// The worker keeps a CPU busy, and ingero takes a little of it as it attaches.
	{name: "a loader that computes for too long, before the attach", alone: true, plan: func(s *seed) plan {
		return plan{also: []string{"cpu-taken"},
			victim: victim{main: "get; copy 65536; launch 8 400; sync", workers: []string{fmt.Sprintf("pin OTHER; cpu 1000; put; !cpu %d", s.between(6000, 12000))}, env: blocks},
			want:   ofItself("input-wait"), faults: always(inside)}
	}},
	{name: "a loader that is fast enough", alone: true, plan: func(s *seed) plan {
		return plan{victim: victim{main: "get; copy 65536; launch 8 600; sync", depth: 4, workers: []string{fmt.Sprintf("pin OTHER; cpu %d; put", s.between(500, 2500))}, env: blocks}}
	}},
}
