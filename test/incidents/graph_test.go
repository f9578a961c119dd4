//go:build measure || smoke

package incidents

import "fmt"

var graphRows = joined(
	twins("captured anew for new batch sizes", "graph-recapture", "graph-recapture", every(15, 25, 15000, 35000)),
	twins("captured, and then not used", "graph-unused", "graph-unused", func(s *seed) []string {
		return []string{"--launches", "100", "--kernel-us", "15", "--dispatch-us", fmt.Sprint(s.between(15, 25))}
	}),
	twins("launches are slow, the pool is full", "graph-pool", "graph-pool", every(1, 1, 2500, 5000)),
	twins("no memory during a capture", "graph-oom", "graph-oom", every(30, 50, 10000, 30000)),
	[]row{
		{name: "captured before a warm-up", plan: func(s *seed) plan {
			return faulty("graph-warmup", "graph-warmup", nothing)(s).from(unknown)
		}},
		{name: "captured after a warm-up", plan: sound("graph-warmup", nothing)},
		{name: "a hog while graphs are launched", plan: func(s *seed) plan {
			p := faulty("cpu-taken", "graph", needsCPU)(s)
			p.faults[0].begin, p.want = program(1, "hog CPU"), takenBy(byFault)
			return p
		}},
	},
)

// needsCPU returns options for steps that wait for the CPU, not only for the GPU.
func needsCPU(s *seed) []string { return []string{"--cpu-us", fmt.Sprint(needed(s))} }
