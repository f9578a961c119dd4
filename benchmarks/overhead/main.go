// Overhead measures what tracing a launch costs: nanoseconds added to a call of
// a cudaLaunchKernel that does no work, with probes on it and on the driver's
// cuLaunchKernel that it calls, beside a pair of empty probes on each as the
// floor. Runs are paired: each round measures everything once, and a ratio is
// that of one round.
//
// With -python it launches from functions of Python, and compares what stacks cost.
//
// With -cudart and -cuda it does the same on NVIDIA's own libraries, where the
// yardstick is probes on the first byte of each function.
//
// It needs root, and the machine to itself as far as that can be had.
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
