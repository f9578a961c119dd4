// Overhead measures the cost of tracing a launch: nanoseconds added to a call of a cudaLaunchKernel
// that does no work. Probes are on it and on the cuLaunchKernel that it calls. The floor is a pair
// of empty probes on each. Runs are paired: each round measures everything once, and a ratio is
// within one round.
//
// With -python it launches from Python functions, and compares the cost of stacks.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	rounds := flag.Int("rounds", 9, "rounds")
	calls := flag.Int("calls", 300_000, "launches in each run")
	cudart := flag.String("cudart", "", "NVIDIA's libcudart, to measure on the real libraries")
	cuda := flag.String("cuda", "", "NVIDIA's libcuda")
	interpreter := flag.String("python", "", "a CPython to launch from, by the policy of stacks")
	flag.Parse()
	dir, err := os.MkdirTemp("", "overhead")
	if err == nil {
		defer os.RemoveAll(dir)
		if *interpreter != "" {
			err = onPython(dir, *interpreter, *rounds, *calls)
		} else if *cudart != "" || *cuda != "" {
			err = onReal(dir, *cudart, *cuda, *rounds, *calls)
		} else {
			err = onSim(dir, *rounds, *calls)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}
