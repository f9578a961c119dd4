package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ingero/benchmarks/figure"
	"ingero/internal/probes"
	"ingero/pkg/events"
	"ingero/sim"
)

// result is the cost of one run.
type result struct {
	ns  float64 // wall time per call
	cpu float64 // total CPU time in seconds
}

// run starts a program that prints a line when it is ready, waits for a line, makes calls and
// prints {"calls":N,"elapsed_ns":N}. The watch is attached from the first line to the end.
func run(cmd *exec.Cmd, w watch) (r result, err error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return r, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return r, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return r, errors.Join(fmt.Errorf("%s said nothing", cmd.Path), cmd.Wait())
	}
	stop, poll := func() error { return nil }, func() {}
	if w != nil {
		s, p, err := w(uint32(cmd.Process.Pid))
		if err != nil {
			return r, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
		stop = s
		if p != nil {
			poll = p
		}
	}
	if _, err := fmt.Fprintln(in, "go"); err != nil {
		return r, err
	}
	said := make(chan string, 1)
	go func() {
		lines.Scan()
		said <- lines.Text()
	}()
	for waiting := true; waiting; {
		select {
		case line := <-said:
			waiting = false
			var v struct {
				Calls   float64 `json:"calls"`
				Elapsed float64 `json:"elapsed_ns"`
			}
			if err = json.Unmarshal([]byte(line), &v); err == nil {
				r.ns = v.Elapsed / v.Calls
			}
		case <-time.After(pollEvery):
			poll()
		}
	}
	err = errors.Join(err, cmd.Wait(), stop())
	if s := cmd.ProcessState; s != nil && r.ns > 0 {
		r.cpu = (s.UserTime() + s.SystemTime()).Seconds()
	}
	return r, err
}

// kind is one way to watch, with its results.
type kind struct {
	name  string
	watch watch
	added figure.Spread // ns per call
	ratio figure.Spread // relative to the floor, the first kind
}

// compare runs all kinds in each round, beside runs without probes.
func compare(kinds []kind, rounds int, program func() *exec.Cmd) error {
	for range rounds {
		bare, err := run(program(), nil)
		if err != nil {
			return err
		}
		for i := range kinds {
			r, err := run(program(), kinds[i].watch)
			if err != nil {
				return fmt.Errorf("%s: %w", kinds[i].name, err)
			}
			kinds[i].added = append(kinds[i].added, r.ns-bare.ns)
			kinds[i].ratio = append(kinds[i].ratio, (r.ns-bare.ns)/kinds[0].added[len(kinds[0].added)-1])
		}
	}
	fmt.Printf("%-44s %-32s %s\n", "", "ns added a call", "ratio")
	for _, k := range kinds {
		fmt.Printf("%-44s %-32v %v\n", k.name, k.added, k.ratio)
		figure.Report(k.name, k.added, "ns/op")
		figure.Report(k.name+"/ratio", k.ratio, "ratio")
	}
	return nil
}

func onSim(dir string, rounds, calls int) error {
	stack, err := sim.Extract(dir)
	if err != nil {
		return err
	}
	targets := []target{{stack.Libcudart, events.LibCudart, "cudaLaunchKernel"}, {stack.Libcuda, events.LibCuda, "cuLaunchKernel"}}
	program := func(args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			return exec.Command(stack.Program("calls"), append([]string{"cudaLaunchKernel", "--zero", "--pin", "1", "--start-on-stdin",
				"--lib", "libcudart.so.12"}, args...)...)
		}
	}
	fmt.Printf("A cudaLaunchKernel that does nothing, with the cuLaunchKernel inside it: median (range) of %d rounds of %d calls\n", rounds, calls)
	kinds := []kind{
		{name: "empty probe pairs: the floor", watch: floor(targets, false)},
		{name: "ingero, session links, the whole catalog", watch: traced(targets, probes.Options{Mode: probes.ModeSession, Rows: events.Catalog})},
		{name: "ingero, session links on these two", watch: traced(targets, probes.Options{Mode: probes.ModeSession})},
		{name: "ingero, session links, wakers not followed", watch: traced(targets, probes.Options{Mode: probes.ModeSession, NoWakers: true})},
		{name: "ingero, session links, the runtime's without", watch: tracedSo(targets, probes.Options{Mode: probes.ModeSession}, how{once: true})},
		{name: "ingero, session links, and counted at entry", watch: tracedSo(targets, probes.Options{Mode: probes.ModeSession}, how{once: true, counted: true})},
		{name: "ingero, session links, stacks by default", watch: traced(targets, probes.Options{Mode: probes.ModeSession, Stacks: probes.StacksSlow})},
		{name: "ingero, session links, all stacks", watch: traced(targets, probes.Options{Mode: probes.ModeSession, Stacks: probes.StacksAll})},
		{name: "ingero, multi links", watch: traced(targets, probes.Options{Mode: probes.ModeMulti})},
		{name: "ingero, a link for each symbol", watch: traced(targets, probes.Options{Mode: probes.ModePerf})},
		{name: "empty pairs on the first byte", watch: floor(targets, true)},
	}
	if err := compare(kinds, rounds, program(strconv.Itoa(calls))); err != nil {
		return err
	}
	const rate, seconds = 20_000, 3
	fmt.Printf("\nShare of a CPU added to a loop of %d launches a second: median (range) of %d rounds of %d s\n", rate, rounds, seconds)
	paced := program(strconv.Itoa(rate*seconds), "--rate", strconv.Itoa(rate))
	for _, k := range kinds {
		var share figure.Spread
		for range rounds {
			bare, err := run(paced(), nil)
			if err != nil {
				return err
			}
			r, err := run(paced(), k.watch)
			if err != nil {
				return err
			}
			share = append(share, 100*(r.cpu-bare.cpu)/seconds)
		}
		fmt.Printf("%-44s %v %%\n", k.name, share)
		figure.Report(k.name+"/paced", share, "%")
	}
	return nil
}

// realSource is a program that calls a function of a library, with all arguments zero.
const realSource = `#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000l + t.tv_nsec; }
int main(int c, char **v)
{
	void *h = dlopen(v[1], RTLD_NOW);
	int (*f)(long, long, long, long, long, long, long, long, long, long, long) = h ? dlsym(h, v[2]) : 0;
	long n = atol(v[3]), t, i;
	if (!f) { fprintf(stderr, "%s\n", dlerror()); return 1; }
	puts("ready"); fflush(stdout); getchar();
	t = now();
	for (i = 0; i < n; i++) f(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	printf("{\"calls\":%ld,\"elapsed_ns\":%ld}\n", n, now() - t);
	return 0;
}
`

func onReal(dir, cudart, cuda string, rounds, calls int) error {
	src, bin := filepath.Join(dir, "real.c"), filepath.Join(dir, "real")
	if err := os.WriteFile(src, []byte(realSource), 0o644); err != nil {
		return err
	}
	if out, err := exec.Command("gcc", "-w", "-O1", "-o", bin, src, "-ldl").CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, out)
	}
	for _, t := range []target{{cudart, events.LibCudart, "cudaLaunchKernel"}, {cudart, events.LibCudart, "cudaStreamSynchronize"},
		{cuda, events.LibCuda, "cuLaunchKernel"}, {cuda, events.LibCuda, "cuStreamSynchronize"}} {
		if t.path == "" {
			continue
		}
		program := func() *exec.Cmd {
			cmd := exec.Command("taskset", "-c", "1", bin, t.path, t.name, strconv.Itoa(calls))
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join([]string{filepath.Dir(cuda), filepath.Dir(cudart)}, ":"))
			return cmd
		}
		fmt.Printf("%s of %s\n", t.name, filepath.Base(t.path))
		ts := []target{t}
		if err := compare([]kind{
			{name: "session links on the first byte", watch: traced(ts, probes.Options{Mode: probes.ModeSession, FirstByte: true})},
			{name: "session links where ingero puts them", watch: traced(ts, probes.Options{Mode: probes.ModeSession})},
		}, rounds, program); err != nil {
			return err
		}
	}
	return nil
}
