// Switches measures what the time ledger adds to a context switch of untraced threads: nanoseconds
// per switch between two processes that pass a byte back and forth on one CPU. The floor is an
// empty program on sched_switch. Each switch includes a wake-up. Runs are paired: each round
// measures everything once, and a ratio is within one round.
//
// -foreign adds untraced threads that sleep and wake on the other CPUs. The last two setups differ
// only in whether the wakers of traced threads are enrolled.
//
// It needs root, and a machine that is as idle as possible.
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
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"ingero/benchmarks/figure"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/tick"
	"ingero/sim"
)

func init() { runtime.LockOSThread() } // so that main stays on the pinned thread

func main() {
	rounds := flag.Int("rounds", 9, "rounds")
	turns := flag.Int("turns", 100_000, "bytes passed to and fro in each run")
	foreign := flag.Int("foreign", 0, "threads that nobody traces, of which each wakes once a second")
	role := flag.String("role", "", "internal: ping, pong or crowd")
	flag.Parse()
	var err error
	switch *role {
	case "ping":
		err = ping()
	case "pong":
		err = pong()
	case "crowd":
		err = crowd(*foreign)
	default:
		err = measure(*rounds, *turns, *foreign)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "switches:", err)
		os.Exit(1)
	}
}

// setup is one configuration to measure. start activates it until it is closed.
type setup struct {
	name  string
	start func() (io.Closer, error)
}

func measure(rounds, turns, foreign int) (err error) {
	others, err := startCrowd(foreign)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, others.Close()) }()
	setups := []setup{
		{"nothing", func() (io.Closer, error) { return io.NopCloser(nil), nil }},
		{"an empty program on sched_switch: the floor", empty},
		{"ingero, waiting for a process to trace", func() (io.Closer, error) { return probes.Open(probes.Options{}) }},
		{"ingero, threads of other CPUs traced", func() (io.Closer, error) { return traced(probes.Options{}, "train", "--seconds", "3600") }},
		{"ingero, a loader traced, wakers not followed", func() (io.Closer, error) { return traced(probes.Options{NoWakers: true}, loader...) }},
		{"ingero, a loader traced, wakers followed", func() (io.Closer, error) { return traced(probes.Options{}, loader...) }},
	}
	added, ratio := make([]figure.Spread, len(setups)), make([]figure.Spread, len(setups))
	for range rounds {
		ns, err := round(setups, turns)
		if err != nil {
			return err
		}
		for i := range setups {
			added[i] = append(added[i], ns[i]-ns[0])
			ratio[i] = append(ratio[i], (ns[i]-ns[0])/(ns[1]-ns[0]))
		}
	}
	fmt.Printf("A context switch with its wake-up: median (range) of %d rounds of %d turns\n", rounds, turns)
	fmt.Printf("%-48s %-26s %s\n", "", "ns added", "ratio to the floor")
	for i, s := range setups[1:] {
		fmt.Printf("%-48s %-26v %v\n", s.name, added[i+1], ratio[i+1])
		figure.Report(s.name, added[i+1], "ns/op")
	}
	return nil
}

// times is how often a round measures each setup. The minimum counts, since other work can only
// add time.
const times = 3

// round measures every setup on one pair of processes: the memory layout of a pair matters more
// than the differences between setups.
func round(setups []setup, turns int) (ns []float64, err error) {
	p, err := startPair()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	ns = make([]float64, len(setups))
	for range times {
		for i, s := range setups {
			x, err := p.under(s, turns)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			if ns[i] == 0 || x < ns[i] {
				ns[i] = x
			}
		}
	}
	return ns, nil
}

// closers closes all, last first.
type closers []func() error

func (c closers) Close() error {
	var errs []error
	for _, f := range slices.Backward(c) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// empty attaches a program that does nothing.
func empty() (io.Closer, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "empty", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "sched_switch", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return nil, err
	}
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return closers{p.Close, l.Close}, nil
}

// nobody is a sink that drops everything.
type nobody struct{}

func (nobody) Batch(*tick.Batch) error { return nil }
func (nobody) Tick(*tick.Tick) error   { return nil }
func (nobody) Close() error            { return nil }

// loader is a training loop with two processes that prepare its input.
var loader = []string{"loader", "--batches", "1000000000", "--workers", "2", "--load-us", "1000"}

// traced runs a session that traces a simulated program on the other CPUs.
func traced(o probes.Options, program ...string) (io.Closer, error) {
	dir, err := os.MkdirTemp("", "switches")
	if err != nil {
		return nil, err
	}
	end := closers{func() error { return os.RemoveAll(dir) }}
	stack, err := sim.Extract(filepath.Join(dir, "sim"))
	if err != nil {
		return nil, errors.Join(err, end.Close())
	}
	cmd := exec.Command(stack.Program(program[0]), append(program[1:len(program):len(program)], "--pin", strconv.Itoa(otherCPU))...)
	cmd.Env = append(os.Environ(), "INGERO_SIM_SYNC=block")
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, end.Close())
	}
	end = append(end, func() error { _ = cmd.Process.Kill(); _ = cmd.Wait(); return nil })
	live, err := session.OpenLive(context.Background(), session.LiveOptions{
		Probes: o, Select: proc.Selector{PIDs: []uint32{uint32(cmd.Process.Pid)}}})
	if err != nil {
		return nil, errors.Join(err, end.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- session.Run(ctx, session.Config{Source: live, Sinks: []tick.Sink{nobody{}}}) }()
	return append(end, func() error { cancel(); return <-done }), nil
}

// startCrowd starts a process with a number of threads on the other CPU.
func startCrowd(threads int) (io.Closer, error) {
	if threads == 0 {
		return closers{}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("taskset", "-c", strconv.Itoa(otherCPU), self, "-role", "crowd", "-foreign", strconv.Itoa(threads))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := closers{func() error { _ = cmd.Process.Kill(); _ = cmd.Wait(); return nil }}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("a crowd of threads: %w", err), end.Close())
	}
	return end, nil
}

// crowd runs threads that sleep and wake, until it is killed.
func crowd(threads int) error {
	debug.SetMaxThreads(2*threads + 1000)
	ready := make(chan struct{})
	for range threads {
		go func() {
			runtime.LockOSThread()
			ready <- struct{}{}
			for {
				_ = unix.Nanosleep(&unix.Timespec{Sec: 1}, nil)
			}
		}()
		<-ready
	}
	fmt.Println("ready")
	select {}
}

const (
	pairCPU  = 0
	otherCPU = 1
)

// pair is two processes that pass a byte back and forth on one CPU.
type pair struct {
	closers
	in  io.Writer
	out *bufio.Reader
}

func startPair() (*pair, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	there, here, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	back, forth, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	pong := exec.Command(self, "-role", "pong")
	pong.ExtraFiles = []*os.File{there, forth}
	ping := exec.Command(self, "-role", "ping")
	ping.ExtraFiles = []*os.File{back, here}
	in, err := ping.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := ping.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(pong.Start(), ping.Start()); err != nil {
		return nil, err
	}
	for _, f := range []*os.File{there, here, back, forth} {
		_ = f.Close()
	}
	return &pair{closers{pong.Wait, ping.Wait, in.Close}, in, bufio.NewReader(out)}, nil
}

// under returns the ns per switch with a setup active.
func (p *pair) under(s setup, turns int) (ns float64, err error) {
	c, err := s.start()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := fmt.Fprintln(p.in, turns); err != nil {
		return 0, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(line[:len(line)-1], 64)
}

// The pipes that a process of the pair inherits.
const (
	fromPeer = 3
	toPeer   = 4
)

func pin() error {
	var set unix.CPUSet
	set.Set(pairCPU)
	return unix.SchedSetaffinity(0, &set) // the main thread, which is locked below
}

// ping makes as many turns as each line of its standard input says.
func ping() error {
	if err := pin(); err != nil {
		return err
	}
	for {
		var turns int
		if _, err := fmt.Scanln(&turns); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		ns, err := run(turns)
		if err != nil {
			return err
		}
		fmt.Printf("%.2f\n", ns)
	}
}

// run returns the ns per switch in the quickest of many batches.
func run(turns int) (float64, error) {
	const batches = 60
	var b [1]byte
	var ns []float64
	for range batches {
		var from, to unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &from); err != nil {
			return 0, err
		}
		for range turns / batches {
			if err := pass(toPeer, fromPeer, b[:]); err != nil {
				return 0, err
			}
		}
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &to); err != nil {
			return 0, err
		}
		ns = append(ns, float64(to.Nano()-from.Nano())/float64(2*(turns/batches)))
	}
	return slices.Min(ns), nil
}

func pong() error {
	if err := pin(); err != nil {
		return err
	}
	var b [1]byte
	for {
		n, err := raw(unix.SYS_READ, fromPeer, b[:])
		if n == 0 || err != nil {
			return err
		}
		if _, err := raw(unix.SYS_WRITE, toPeer, b[:]); err != nil {
			return err
		}
	}
}

// raw makes a system call without Go's scheduler, which would cost more than the switch.
func raw(call, fd uintptr, b []byte) (int, error) {
	n, _, e := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// pass sends a byte and waits for the answer.
func pass(to, from uintptr, b []byte) error {
	if _, err := raw(unix.SYS_WRITE, to, b); err != nil {
		return err
	}
	_, err := raw(unix.SYS_READ, from, b)
	return err
}
