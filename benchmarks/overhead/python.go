package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/python"
	"ingero/internal/unwind"
	"ingero/pkg/events"
	"ingero/sim"
)

// pythonSource calls a function in a loop, from a given depth of Python functions.
const pythonSource = `import ctypes, sys
sys.path.insert(0, sys.argv[2])
import gpu
cuda = gpu.Runtime()
launch, kernel = ctypes.cast(cuda.lib.cudaLaunchKernel, ctypes.c_void_p), ctypes.c_void_p(cuda.kernel("k"))
loop = ctypes.PyDLL(sys.argv[1]).loop
loop.restype = ctypes.c_long
def deep(n): return deep(n - 1) if n > 1 else loop(launch, kernel, ctypes.c_long(int(sys.argv[4])))
print("ready", flush=True)
sys.stdin.readline()
print('{"calls":%s,"elapsed_ns":%d}' % (sys.argv[4], deep(int(sys.argv[3]))), flush=True)
`

// loopSource is the library's loop.
const loopSource = `#include <time.h>
struct dim3 { unsigned x, y, z; };
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000l + t.tv_nsec; }
long loop(int (*launch)(const void *, struct dim3, struct dim3, void **, unsigned long, void *), const void *kernel, long n)
{
	struct dim3 one = { 1, 1, 1 };
	long t = now();
	for (long i = 0; i < n; i++)
		if (launch(kernel, one, one, 0, 0, 0)) return 0;
	return now() - t;
}
`

// onPython measures launches from deep Python stacks, by stack policy.
func onPython(dir, interpreter string, rounds, calls int) error {
	stack, err := sim.Extract(dir)
	if err != nil {
		return err
	}
	src, lib := filepath.Join(dir, "loop.c"), filepath.Join(dir, "libloop.so")
	if err := os.WriteFile(src, []byte(loopSource), 0o644); err != nil {
		return err
	}
	if out, err := exec.Command("gcc", "-w", "-O1", "-shared", "-fPIC", "-o", lib, src).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, out)
	}
	targets := []target{{stack.Libcudart, events.LibCudart, "cudaLaunchKernel"}, {stack.Libcuda, events.LibCuda, "cuLaunchKernel"}}
	for _, depth := range []int{10, 30} {
		fmt.Printf("\nThe same from %d functions of %s\n", depth, interpreter)
		kinds := []kind{{name: "empty probe pairs: the floor", watch: floor(targets, false)}}
		for _, p := range []struct {
			name string
			of   probes.StackPolicy
		}{{"no stacks", probes.StacksNone}, {"stacks by default", probes.StacksSlow}, {"all stacks", probes.StacksAll}} {
			kinds = append(kinds, kind{name: "ingero, session links, " + p.name, watch: traced(targets, probes.Options{Mode: probes.ModeSession, Stacks: p.of})})
		}
		if err := compare(kinds, rounds, func() *exec.Cmd {
			cmd := exec.Command("taskset", "-c", "1", interpreter, "-c", pythonSource, lib, stack.Dir, strconv.Itoa(depth), strconv.Itoa(calls))
			cmd.Env = append(os.Environ(), "INGERO_SIM_ZERO=1")
			return cmd
		}); err != nil {
			return err
		}
	}
	return nil
}

// stacked makes a tracer take the complete stacks of a process.
func stacked(tr *probes.Tracer, pid uint32) (stop func(), err error) {
	k := unwind.NewKeeper(unwind.Options{Kernel: tr.Walker()})
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { k.Run(ctx) })
	stop = func() {
		cancel()
		work.Wait()
	}
	k.Add(pid)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if f := k.Figures(); f.Processes > 0 && f.Files > 1 && f.Tables == f.Files {
			break
		}
		if time.Now().After(end) {
			stop()
			return nil, errors.New("the tables of the process are not loaded")
		}
	}
	mem, err := proc.FS{}.Memory(pid, time.Now())
	if err != nil {
		stop()
		return nil, err
	}
	defer func() { _ = mem.Close() }()
	found, err := python.Find(python.Target{PID: pid, Memory: mem})
	if errors.Is(err, python.ErrNotPython) {
		return stop, nil
	}
	if err == nil {
		_, err = tr.Python(pid, found.Facts)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}
