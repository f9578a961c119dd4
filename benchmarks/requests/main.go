// Requests measures the cost of measuring HTTP requests to an inference server: the CPU time that a
// request adds to the server, its latency, and the agent's CPU time. The server sends five events for
// each request, and an engine makes steps beside it. The agent alternates between measuring and not
// measuring requests (--requests off); both trace the engine.
//
// It needs root, and the agent (make build).
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingero/benchmarks/figure"
	"ingero/sim"
)

type options struct {
	agent          string
	rate, steps    int // a second
	pairs          int
	window, settle time.Duration
}

func main() {
	if filepath.Base(os.Args[0]) == serverName {
		fail(serve(os.Args[len(os.Args)-1]))
		return
	}
	var o options
	flag.StringVar(&o.agent, "agent", "bin/ingero", "the agent")
	flag.IntVar(&o.rate, "rate", 2000, "requests a second")
	flag.IntVar(&o.steps, "steps", 200, "steps of the engine a second")
	flag.IntVar(&o.pairs, "pairs", 7, "times that requests are measured")
	flag.DurationVar(&o.window, "window", 6*time.Second, "that counts, each time")
	flag.DurationVar(&o.settle, "settle", 4*time.Second, "that does not, after each start of the agent")
	flag.Parse()
	fail(run(&o))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "requests:", err)
		os.Exit(1)
	}
}

func run(o *options) error {
	dir, err := os.MkdirTemp("", "requests-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stack, err := sim.Extract(dir)
	if err != nil {
		return err
	}
	server, port, err := startServer(fmt.Sprintf("%s --rate %d --seconds 100000 --requests 1000000000", stack.Program("infer"), o.steps))
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL); _ = server.Wait() }()
	load := startLoad(port, o.rate)
	defer load.stop()
	var cpu, share, median, tail, agent figure.Spread
	for range o.pairs {
		off, err := o.traced(dir, server.Process.Pid, load, "off")
		if err != nil {
			return err
		}
		on, err := o.traced(dir, server.Process.Pid, load, "servers")
		if err != nil {
			return err
		}
		fmt.Printf("off: %v\non:  %v\n", off, on)
		cpu = append(cpu, (on.cpu-off.cpu)*1e6)
		share = append(share, 100*(on.cpu/off.cpu-1))
		median = append(median, float64(on.p50-off.p50)/1e3)
		tail = append(tail, float64(on.p99-off.p99)/1e3)
		agent = append(agent, 100*(on.agent-off.agent))
	}
	fmt.Printf("\nAdded by measuring %d requests a second, beside an engine of %d steps a second: median (range) of %d pairs of %s\n", o.rate, o.steps, o.pairs, o.window)
	for _, x := range []struct {
		name, unit string
		of         figure.Spread
	}{{"server CPU of a request", "us", cpu}, {"server CPU", "%", share}, {"median latency", "us", median}, {"p99 latency", "us", tail}, {"agent of a CPU", "%", agent}} {
		fmt.Printf("%-26s %v %s\n", x.name, x.of, x.unit)
		figure.Report(x.name, x.of, x.unit)
	}
	return nil
}

// window has the figures of some seconds.
type window struct {
	rate, cpu float64 // requests per second; CPU time of the server for each, in seconds
	agent     float64 // CPUs that the agent used
	p50, p99  time.Duration
}

func (w window) String() string {
	return fmt.Sprintf("%.0f requests/s, %.1f us of CPU each, latency %v (p99 %v), agent %.1f %% of a CPU", w.rate, w.cpu*1e6, w.p50, w.p99, 100*w.agent)
}

// traced traces the server, and returns the figures of a window. It fails if the recording does not
// have requests if and only if they were to be measured.
func (o *options) traced(dir string, pid int, load *load, requests string) (w window, err error) {
	db := filepath.Join(dir, requests+".db")
	agent := exec.Command(o.agent, "trace", "--db", db, "--pid", strconv.Itoa(pid), "--requests", requests)
	agent.Stderr = os.Stderr
	if err := agent.Start(); err != nil {
		return w, err
	}
	w, err = o.see(pid, agent.Process.Pid, load)
	_ = agent.Process.Signal(syscall.SIGINT)
	if err := errors.Join(err, agent.Wait()); err != nil {
		return w, err
	}
	report, err := exec.Command(o.agent, "explain", "--db", db).Output()
	if measured := strings.Contains(string(report), "Requests to "); err == nil && measured != (requests != "off") {
		err = fmt.Errorf("--requests %s: requests are measured: %v", requests, measured)
	}
	return w, err
}

// see waits for the settling time, and returns the figures of the next window.
func (o *options) see(server, agent int, load *load) (w window, err error) {
	time.Sleep(o.settle)
	load.take()
	var used [2][2]time.Duration
	for i, pid := range []int{server, agent} {
		if used[i][0], err = figure.CPU(pid); err != nil {
			return w, err
		}
	}
	time.Sleep(o.window)
	for i, pid := range []int{server, agent} {
		if used[i][1], err = figure.CPU(pid); err != nil {
			return w, err
		}
	}
	took := load.take()
	if len(took) < 100 {
		return w, fmt.Errorf("%d requests in %s are too few: %v", len(took), o.window, load.failure())
	}
	n, seconds := len(took), o.window.Seconds()
	return window{rate: float64(n) / seconds, cpu: (used[0][1] - used[0][0]).Seconds() / float64(n), agent: (used[1][1] - used[1][0]).Seconds() / seconds,
		p50: took[n/2], p99: took[n*99/100]}, nil
}
