//go:build measure || smoke

package incidents

import (
	"fmt"
	"path/filepath"
	"strconv"
)

var (
	spins  = []string{"INGERO_SIM_SYNC=spin"}
	blocks = []string{"INGERO_SIM_SYNC=block"}
	yields = []string{"INGERO_SIM_SYNC=yield"}
)

// healthy returns the row of a workload that must have no chain.
func healthy(name string, make func(s *seed) victim) row {
	return row{name: name, plan: func(s *seed) plan { return plan{victim: make(s)} }}
}

// trains returns a training loop with one way to wait for the GPU.
func trains(wait []string) func(s *seed) victim {
	return func(s *seed) victim {
		return victim{main: fmt.Sprintf("copy 262144; launch 20 %d; sync; cpu %d", s.between(200, 800), s.between(100, 500)), env: wait}
	}
}

// sims returns a program of the simulated stack without a step clock.
func sims(name string, args ...string) func(s *seed) victim {
	return func(s *seed) victim {
		return victim{noClock: true, env: one(s, spins, blocks), program: func(r *run) []string {
			return append([]string{"taskset", "-c", strconv.Itoa(r.cpu), r.lab.stack.Program(name), "--hold"}, args...)
		}}
	}
}

// python returns the command of the training loop in Python.
func python(r *run) []string {
	return []string{"python3", filepath.Join("testdata", "victim.py"), "--sim", r.lab.stack.Dir, "--cpu", strconv.Itoa(r.cpu), "--log", r.log}
}

var healthyRows = []row{
	healthy("training, synchronise spins", trains(spins)),
	healthy("training, synchronise blocks", trains(blocks)),
	healthy("training, synchronise yields", trains(yields)),
	healthy("short steps", func(s *seed) victim {
		return victim{main: fmt.Sprintf("copy 65536; launch 8 %d; sync; cpu 200", s.between(100, 200)), env: one(s, spins, blocks)}
	}),
	healthy("work on the CPU in every step", busy),
	healthy("traced late", late),
	healthy("a deep queue", func(s *seed) victim {
		return victim{main: fmt.Sprintf("launch 30 %d 260; sync", s.between(1000, 2000)), env: one(s, spins, blocks)}
	}),
	healthy("paced requests", func(s *seed) victim {
		return victim{main: fmt.Sprintf("sleep %d; copy 65536; launch 8 300; back 16384", s.between(8000, 20000)), env: blocks, service: true}
	}),
	healthy("random requests", sims("infer", "--seconds", "60", "--rate", "60", "--kernel-us", "300")),
	healthy("an allocation now and then", sims("train", "--seconds", "60", "--kernel-us", "400")),
	healthy("a graph that is launched again and again", sims("graph", "--steps", "1000000")),
	healthy("loader processes that keep up", func(s *seed) victim {
		return victim{main: "get; copy 65536; launch 10 400; sync", depth: 4,
			workers: []string{"pin OTHER; sleep 4500; cpu 300; put", "pin OTHER; sleep 4500; cpu 300; put", "pin OTHER; sleep 4500; cpu 300; put"}, env: one(s, spins, blocks)}
	}),
	healthy("a loader thread that keeps up", func(s *seed) victim {
		return victim{main: "get; copy 65536; launch 10 600; sync", depth: 4, threads: []string{"sleep 1000; put"}, env: blocks}
	}),
	healthy("two threads, each with a stream", func(s *seed) victim {
		return victim{main: "copy 65536; launch 10 500; sync; cpu 200", threads: []string{"copy 65536; launch 10 700; sync; cpu 200"}, env: blocks}
	}),
	healthy("checkpoints, many", func(s *seed) victim {
		return victim{main: fmt.Sprintf("copy 262144; launch 10 400; sync; cpu 300; @%d ckpt 1048576", s.between(10, 20)), env: one(s, spins, blocks)}
	}),
	healthy("a file of the cache is read in each step", func(s *seed) victim {
		return victim{main: "cached 262144; copy 262144; launch 10 400; sync; cpu 300", prepare: data, env: one(s, spins, blocks)}
	}),
	healthy("a lock that nobody else holds for long", func(s *seed) victim {
		return victim{main: "hold 200; copy 65536; launch 10 400; sync", threads: []string{"sleep 3000; hold 50"}, env: blocks}
	}),
	healthy("a peer that answers in a constant time", func(s *seed) victim {
		return victim{main: "ask 3; copy 65536; launch 10 400; sync", prepare: peer, env: blocks}
	}),
	healthy("Python", func(s *seed) victim { return victim{program: python, env: one(s, spins, blocks)} }),
}
