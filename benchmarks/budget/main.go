// Budget measures how much tracing slows down a loop that launches at a given rate and is limited
// by its CPU, with --max-overhead and without. Each second it compares the launches per second of
// CPU time with those of a twin: the same loop, with libraries of its own, that runs at a low
// priority on the same CPU and is not traced. What the machine gives and takes changes both. The
// comparison is made before, during and after the trace. The agent records into a database, as by
// default; with -json it writes JSON and no database. With -steps it measures instead which levels
// an overload sheds, and when they return.
//
// It needs root, gcc (-steps: python3), and the agent (make build).
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingero/benchmarks/figure"
	"ingero/sim"
)

func main() {
	agent := flag.String("agent", "bin/ingero", "the agent")
	seconds := flag.Int("seconds", 8, "that count of each part")
	rates := flag.String("rates", "5000,20000,30000", "launches a second, with commas")
	budgets := flag.String("budgets", "0,2%", "values of --max-overhead, with commas")
	settle := flag.Int("settle", 25, "that do not: the agent starts, and leaves things out")
	rounds := flag.Int("rounds", 3, "of each")
	json := flag.Bool("json", false, "the agent writes JSON, and no database")
	overload := flag.String("steps", "", "a budget, such as 0.01%: show instead which steps are taken for it, and given back")
	flag.Parse()
	dir, err := os.MkdirTemp("", "budget")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		if *overload != "" {
			err = steps(dir, *agent, *overload)
		} else {
			b := bench{dir: dir, agent: *agent, json: *json, settle: *settle, seconds: *seconds, rounds: *rounds}
			err = b.run(strings.Split(*rates, ","), strings.Split(*budgets, ","))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
}

// bench is the setup of a measurement.
type bench struct {
	dir     string // directory of the bench's files
	agent   string
	json    bool // write JSON, and no database
	settle  int  // seconds before the measurement
	seconds int  // measured seconds
	rounds  int
}

// twinNice is the twin's priority: it gets about a tenth of the CPU.
const twinNice = 10

func (b *bench) run(rates, budgets []string) error {
	for _, name := range []string{"loop", "twin"} {
		if err := b.build(name); err != nil {
			return err
		}
	}
	fmt.Printf("Slowdown of a loop, by its launches per second of CPU time: median (range) of %d rounds\n", b.rounds)
	for _, rate := range rates {
		loss := make([]figure.Spread, len(budgets))
		for range b.rounds { // alternate, since a machine's speed varies
			for i, budget := range budgets {
				l, err := b.measure(rate, budget)
				if err != nil {
					return err
				}
				loss[i] = append(loss[i], l)
			}
		}
		for i, budget := range budgets {
			fmt.Printf("%6s launches/s  --max-overhead %-3s %s %%\n", rate, budget, loss[i].Text("%.2f"))
			figure.Report(rate+" launches a second/--max-overhead "+budget, loss[i], "%")
		}
	}
	return nil
}

// build makes the loop with a copy of the simulated stack of its own.
func (b *bench) build(name string) error {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	stack, err := sim.Extract(dir)
	if err != nil {
		return err
	}
	args := []string{"-O1", "-o", filepath.Join(dir, "loop"), "benchmarks/budget/testdata/loop.c", stack.Libcudart, "-Wl,-rpath," + stack.Dir}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return nil
}

// measure returns a process's slowdown while it is traced, in percent.
func (b *bench) measure(rate, budget string) (float64, error) {
	loop, err := b.start("loop", rate, 0)
	if err != nil {
		return 0, err
	}
	defer loop.stop()
	twin, err := b.start("twin", rate, twinNice)
	if err != nil {
		return 0, err
	}
	defer twin.stop()
	before, err := compare(loop, twin, b.seconds)
	if err != nil {
		return 0, err
	}
	trace := exec.Command(b.agent, append(b.output(), "--max-overhead", budget, "--pid", strconv.Itoa(loop.cmd.Process.Pid))...)
	if err := trace.Start(); err != nil {
		return 0, err
	}
	_, err = compare(loop, twin, b.settle)
	traced, err2 := compare(loop, twin, b.seconds)
	err3 := trace.Process.Signal(syscall.SIGINT)
	_ = trace.Wait()
	after, err4 := compare(loop, twin, b.seconds)
	return 100 * (1 - traced/((before+after)/2)), errors.Join(err, err2, err3, err4)
}

// output returns the trace command's output arguments: each round writes a new database.
func (b *bench) output() []string {
	if b.json {
		return []string{"trace", "--json", "--record=false"}
	}
	path := filepath.Join(b.dir, "loop.db")
	_ = os.Remove(path)
	_ = os.RemoveAll(path + ".d")
	return []string{"trace", "--db", path}
}

// process is a running loop.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Reader
}

// start starts the loop of that name on the last CPU, and waits until it is calibrated.
func (b *bench) start(name, rate string, nice int) (*process, error) {
	cmd := exec.Command("nice", "-n", strconv.Itoa(nice), filepath.Join(b.dir, name, "loop"), rate, strconv.Itoa(runtime.NumCPU()-1))
	cmd.Env = append(os.Environ(), "INGERO_SIM_KERNEL_NS=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, lines: bufio.NewReader(out)}
	if _, _, err := p.second(); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// second returns the launches per second of CPU time of the next second that the process has printed,
// and the Unix time at which that second ended.
func (p *process) second() (rate, end float64, err error) {
	line, err := p.lines.ReadString('\n')
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, 0, err
	}
	var launches, cpu float64
	if _, err := fmt.Sscan(line, &launches, &cpu, &end); err != nil {
		return 0, 0, err
	}
	return launches / cpu, end, nil
}

// from returns the first second that ends after a time.
func (p *process) from(at float64) (rate, end float64, err error) {
	for err == nil && end <= at {
		rate, end, err = p.second()
	}
	return rate, end, err
}

// compare returns by how much the loop was faster than its twin: the median of n seconds from now on.
func compare(loop, twin *process, n int) (float64, error) {
	at := float64(time.Now().UnixMilli())/1e3 + 1 // the seconds that end later began after now
	var ratios []float64
	for range n {
		l, end, err := loop.from(at)
		t, _, err2 := twin.from(end - 0.5)
		if err := errors.Join(err, err2); err != nil {
			return 0, err
		}
		ratios, at = append(ratios, l/t), end
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2], nil
}
