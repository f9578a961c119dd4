package incidents

import "time"

// taken is the chain that says that the faults' processes had the CPU.
func taken() []want { return []want{{rules: []string{"cpu-taken"}, culprit: byFault}} }

var cpuRows = []row{
	{name: "a hog on the core", plan: func(s *seed) plan {
		from := s.span(1500*ms, 2000*ms)
		return plan{victim: victim{main: training, env: one(s, spins, blocks)}, want: taken(),
			faults: []fault{{from: from, to: from + s.span(2*time.Second, 3*time.Second), begin: hogs(1, "0")}}}
	}},
	{name: "a hog on the core, before the attach", plan: func(s *seed) plan {
		return plan{victim: victim{main: training, env: one(s, spins, blocks), running: true}, want: taken(),
			faults: []fault{{begin: hogs(1, "0")}}}
	}},
}
