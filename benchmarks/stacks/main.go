// Stacks measures the agent with very many different stacks. Short-lived processes make calls, each
// from a stack of its own, and a complete session takes and names all stacks. It prints their
// number, the agent's CPU time, and its memory at the peak and after the processes' exit.
//
// It needs root and gcc; -python names a CPython to run instead.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"ingero/benchmarks/figure"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// source forks processes in turn, each of which calls from many stacks: the bits of a number choose
// which of two functions calls which.
const source = `#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int (*call)(int);
static int a(unsigned i, int n), b(unsigned i, int n);
#define NEXT { int r = n ? (i & 1 ? a : b)(i >> 1, n - 1) : call(0); __asm__ volatile(""); return r; }
__attribute__((noinline)) static int a(unsigned i, int n) NEXT
__attribute__((noinline)) static int b(unsigned i, int n) NEXT
int main(int c, char **v)
{
	char line[64];
	int procs = atoi(v[2]), stacks = atoi(v[3]);
	void *h = dlopen(v[1], RTLD_NOW);
	call = h ? (int (*)(int))dlsym(h, "cudaSetDevice") : 0;
	if (!call) return 1;
	call(0);
	puts("ready"); fflush(stdout); fgets(line, sizeof(line), stdin);
	for (int p = 0; p < procs; p++) {
		if (!fork()) {
			for (int i = 0; i < stacks; i++) a(i, 20);
			_exit(0);
		}
		wait(0);
	}
	puts("done"); fflush(stdout); fgets(line, sizeof(line), stdin);
	return 0;
}
`

const pythonSource = `import ctypes, os, sys
call = ctypes.PyDLL(sys.argv[1]).cudaSetDevice
def a(i, n): return (a if i & 1 else b)(i >> 1, n - 1) if n else call(0)
def b(i, n): return (a if i & 1 else b)(i >> 1, n - 1) if n else call(0)
call(0)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    pid = os.fork()
    if not pid:
        for i in range(int(sys.argv[3])): a(i, 20)
        os._exit(0)
    os.waitpid(pid, 0)
print("done", flush=True)
sys.stdin.readline()
`

func main() {
	procs := flag.Int("procs", 50, "processes")
	each := flag.Int("stacks", 20_000, "stacks of each")
	python := flag.String("python", "", "a CPython to run instead of a program in C")
	flag.Parse()
	if err := measure(*procs, *each, *python); err != nil {
		fmt.Fprintln(os.Stderr, "stacks:", err)
		os.Exit(1)
	}
}

// counter counts calls and stacks.
type counter struct {
	calls, taken, named, frames, gaps uint64
	last                              *tick.Tick
	most                              int64 // bytes of memory
}

func (c *counter) Batch(b *tick.Batch) error {
	c.calls += uint64(len(b.Calls))
	for i := range b.Calls {
		if b.Calls[i].Stack != 0 {
			c.taken++
		}
	}
	for i := range b.Stacks {
		c.named++
		c.frames += uint64(len(b.Stacks[i].Frames))
		for _, f := range b.Stacks[i].Frames {
			if f.Kind == events.FrameGap || f.Kind == events.FrameNative && f.Module == "" {
				c.gaps++
				break
			}
		}
	}
	return nil
}

func (c *counter) Tick(t *tick.Tick) error {
	c.last, c.most = t, max(c.most, t.Self.RSS)
	return nil
}

func (c *counter) Close() error { return nil }

func command(dir string, stack sim.Stack, python string, procs, each int) (*exec.Cmd, error) {
	args := []string{stack.Libcudart, strconv.Itoa(procs), strconv.Itoa(each)}
	if python != "" {
		return exec.Command(python, append([]string{"-c", pythonSource}, args...)...), nil
	}
	src, bin := filepath.Join(dir, "stacks.c"), filepath.Join(dir, "stacks")
	if err := os.WriteFile(src, []byte(source), 0o644); err != nil {
		return nil, err
	}
	if out, err := exec.Command("gcc", "-O1", "-o", bin, src, "-ldl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return exec.Command(bin, args...), nil
}

func measure(procs, each int, python string) (err error) {
	dir, err := os.MkdirTemp("", "stacks")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stack, err := sim.Extract(filepath.Join(dir, "sim"))
	if err != nil {
		return err
	}
	cmd, err := command(dir, stack, python, procs, each)
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	c := &counter{}
	took, err := trace(c, uint32(cmd.Process.Pid), in, bufio.NewScanner(out))
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	c.print(procs, took)
	return nil
}

// trace follows a program that prints a line when it is ready and when it is done, and waits for a
// line after each. It returns the time between them.
func trace(c *counter, pid uint32, in io.Writer, out *bufio.Scanner) (time.Duration, error) {
	out.Scan()
	op, _ := events.OpByName("cudaSetDevice")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	live, err := session.OpenLive(ctx, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{pid}},
		Probes: probes.Options{Rows: []events.Row{*op.Row()}, Stacks: probes.StacksAll}})
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- session.Run(ctx, session.Config{Source: live, Sinks: []tick.Sink{c}}) }()
	time.Sleep(time.Second) // let the tables load
	began := time.Now()
	if _, err := fmt.Fprintln(in, "go"); err != nil {
		return 0, err
	}
	out.Scan()
	took := time.Since(began)
	time.Sleep(15 * time.Second) // ended processes are dropped
	if _, err := fmt.Fprintln(in, "end"); err != nil {
		return 0, err
	}
	return took, <-done
}

func (c *counter) print(procs int, took time.Duration) {
	named := max(c.named, 1)
	fmt.Printf("%d processes, %d calls in %v: %d with a stack; %d stacks named, %.1f frames each, %d with a gap\n",
		procs, c.calls, took.Round(time.Millisecond), c.taken, c.named, float64(c.frames)/float64(named), c.gaps)
	fmt.Printf("agent: %v of CPU, %.1f us a stack; memory at most %d MB, %d MB at the end\n", c.last.Self.CPU.Round(time.Millisecond),
		float64(c.last.Self.CPU.Microseconds())/float64(named), c.most>>20, c.last.Self.RSS>>20)
	figure.Report("agent's CPU time a stack", figure.Spread{float64(c.last.Self.CPU.Nanoseconds()) / float64(named)}, "ns/op")
	figure.Report("memory at most", figure.Spread{float64(c.most)}, "B")
	figure.Report("calls without a named stack", figure.Spread{100 * float64(c.calls-min(c.named, c.calls)) / float64(max(c.calls, 1))}, "%")
	for _, d := range c.last.Drops {
		if d.Count > 0 {
			fmt.Printf("%d %s\n", d.Count, d.Reason)
		}
	}
}
