// Shapes measures how much full tracing and recording slows down programs of six shapes: steps per
// second and step length, by the simulated driver's clock. It alternates tracing and not tracing
// one process.
//
// It needs root, python3, and the agent (make build).
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingero/benchmarks/figure"
	"ingero/sim"
)

// shape is a program that makes steps at its own pace until it is killed.
type shape struct {
	name string
	args func(s sim.Stack) []string
	env  string
}

var shapes = []shape{
	{"training", program("train", "--steps", "100000000"), ""},
	{"training in Python", func(s sim.Stack) []string {
		return []string{"python3", s.Script("train.py"), "--steps", "100000000"}
	}, ""},
	{"serving, 200 requests/s", program("infer", "--requests", "100000000", "--rate", "200"), ""},
	{"fed by two loaders", program("loader", "--batches", "100000000"), "INGERO_SIM_SYNC=block"},
	{"a graph of 20 kernels", program("graph", "--steps", "100000000", "--nodes", "20"), ""},
	{"two ranks, NCCL", program("ddp", "--steps", "100000000"), "INGERO_SIM_SYNC=block"},
}

func program(name string, args ...string) func(sim.Stack) []string {
	return func(s sim.Stack) []string { return append([]string{s.Program(name)}, args...) }
}

type options struct {
	agent, trace, only string
	pairs              int
	window, settle     time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.agent, "agent", "bin/ingero", "the agent")
	flag.StringVar(&o.trace, "trace", "--prometheus 127.0.0.1:0 --pages --record-all", "options of the trace beside the defaults")
	flag.StringVar(&o.only, "only", "", "shapes with this in their names")
	flag.IntVar(&o.pairs, "pairs", 7, "times that each is traced")
	flag.DurationVar(&o.window, "window", 6*time.Second, "that counts, traced and not")
	flag.DurationVar(&o.settle, "settle", 3*time.Second, "that does not, after each change")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "shapes:", err)
		os.Exit(1)
	}
}

func run(o *options) error {
	dir, err := os.MkdirTemp("", "shapes-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stack, err := sim.Extract(dir)
	if err != nil {
		return err
	}
	fmt.Printf("%d pairs of %s, ingero trace %s: median (range), %%\n\n", o.pairs, o.window, o.trace)
	fmt.Println("| shape | steps/s | fewer steps | median step longer | p99 step longer | agent, of a CPU |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, s := range shapes {
		if !strings.Contains(s.name, o.only) {
			continue
		}
		if err := s.measure(o, stack); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// window has a program's figures over some seconds.
type window struct {
	rate, cpu float64 // steps per second; CPUs that the agent used
	p50, p99  time.Duration
}

func (s *shape) measure(o *options, stack sim.Stack) error {
	steps, err := sim.NewSteps(filepath.Join("/dev/shm", "ingero-shapes-"+strconv.Itoa(os.Getpid())))
	if err != nil {
		return err
	}
	defer func() { _ = steps.Close() }()
	args := s.args(stack)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), steps.Env())
	if s.env != "" {
		cmd.Env = append(cmd.Env, s.env)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }()
	var fewer, longer, tail, agent figure.Spread
	before, err := see(o, steps, 0)
	if err != nil {
		return err
	}
	rates := figure.Spread{before.rate}
	for range o.pairs {
		traced, err := s.traced(o, steps, cmd.Process.Pid, stack.Dir)
		if err != nil {
			return err
		}
		after, err := see(o, steps, 0)
		if err != nil {
			return err
		}
		fewer = append(fewer, 100*(1-traced.rate/((before.rate+after.rate)/2)))
		longer = append(longer, 100*(2*float64(traced.p50)/float64(before.p50+after.p50)-1))
		tail = append(tail, 100*(2*float64(traced.p99)/float64(before.p99+after.p99)-1))
		agent = append(agent, 100*traced.cpu)
		rates = append(rates, after.rate)
		before = after
	}
	fmt.Printf("| %s | %.0f | %s | %s | %s | %s |\n", s.name, rates.Median(), fewer.Text("%.2f"), longer.Text("%.2f"), tail.Text("%.2f"), agent.Text("%.2f"))
	figure.Report(s.name+"/fewer steps", fewer, "%")
	figure.Report(s.name+"/median longer", longer, "%")
	figure.Report(s.name+"/p99 longer", tail, "%")
	figure.Report(s.name+"/agent", agent, "%")
	return nil
}

// traced traces a process with the agent, and returns the figures of that time.
func (s *shape) traced(o *options, steps *sim.Steps, pid int, dir string) (w window, err error) {
	db := filepath.Join(dir, "shapes.db")
	agent := exec.Command(o.agent, append([]string{"trace", "--db", db, "--pid", strconv.Itoa(pid)}, strings.Fields(o.trace)...)...)
	agent.Stderr = os.Stderr
	if err := agent.Start(); err != nil {
		return w, err
	}
	w, err = see(o, steps, agent.Process.Pid)
	_ = agent.Process.Signal(syscall.SIGINT)
	if e := agent.Wait(); err == nil {
		err = e
	}
	return w, err
}

// see waits for the settling time, and returns the figures of the next window, with the agent's
// unless agent is 0.
func see(o *options, steps *sim.Steps, agent int) (w window, err error) {
	time.Sleep(o.settle)
	before, err := cpu(agent)
	if err != nil {
		return w, err
	}
	from := sim.Now()
	time.Sleep(o.window)
	to := sim.Now()
	after, err := cpu(agent)
	if err != nil {
		return w, err
	}
	all := steps.Between(nil, from, to)
	if len(all) < 100 {
		return w, fmt.Errorf("%d steps in %s are too few", len(all), to-from)
	}
	took := make([]time.Duration, len(all))
	for i, x := range all {
		took[i] = x.End - x.Begin
	}
	slices.Sort(took)
	seconds := (to - from).Seconds()
	return window{float64(len(all)) / seconds, (after - before) / seconds, took[len(took)/2], took[len(took)*99/100]}, nil
}

// cpu returns the CPU time of a process in seconds, to 10 ms; 0 for pid 0.
func cpu(pid int) (float64, error) {
	if pid == 0 {
		return 0, nil
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks int
	for _, x := range f[11:13] {
		n, err := strconv.Atoi(x)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return float64(ticks) / 100, nil
}
