// Budget measures how much tracing slows down a loop that launches at a given rate and is limited
// by its CPU, with --max-overhead and without. It compares the launches per second with those of
// the same process untraced, before and after. The agent records into a database, as by default;
// with -json it writes JSON and no database. With -steps it measures instead which levels an
// overload sheds, and when they return.
//
// It needs root, gcc (-steps: python3), and the agent (make build).
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

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
	program string // path of the loop
}

func (b *bench) run(rates, budgets []string) error {
	stack, err := sim.Extract(b.dir)
	if err != nil {
		return err
	}
	b.program = filepath.Join(b.dir, "loop")
	args := []string{"-O1", "-o", b.program, "benchmarks/budget/testdata/loop.c", stack.Libcudart, "-Wl,-rpath," + stack.Dir}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, out)
	}
	fmt.Printf("Slowdown of a loop, by its launches per second: median (range) of %d rounds\n", b.rounds)
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

// measure returns a process's slowdown while it is traced, in percent.
func (b *bench) measure(rate, budget string) (float64, error) {
	loop := exec.Command(b.program, rate)
	loop.Env = append(os.Environ(), "INGERO_SIM_KERNEL_NS=1")
	out, err := loop.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := loop.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = loop.Process.Kill(); _ = loop.Wait() }()
	lines := bufio.NewReader(out)
	if _, err := median(lines, 2); err != nil {
		return 0, err
	}
	before, err := median(lines, b.seconds)
	if err != nil {
		return 0, err
	}
	trace := exec.Command(b.agent, append(b.output(), "--max-overhead", budget, "--pid", strconv.Itoa(loop.Process.Pid))...)
	if err := trace.Start(); err != nil {
		return 0, err
	}
	_, err = median(lines, b.settle)
	traced, err2 := median(lines, b.seconds)
	err3 := trace.Process.Signal(syscall.SIGINT)
	_ = trace.Wait()
	_, err4 := median(lines, 2)
	after, err5 := median(lines, b.seconds)
	for _, e := range []error{err, err2, err3, err4, err5} {
		if e != nil {
			return 0, e
		}
	}
	return 100 * (1 - traced/((before+after)/2)), nil
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

// median returns the median of the next n lines, one a second.
func median(lines *bufio.Reader, n int) (float64, error) {
	var all []float64
	for range n {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			return 0, err
		}
		all = append(all, x)
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}
