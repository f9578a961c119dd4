// Budget measures what a loop loses to the tracing that makes so many launches a second and
// waits for its CPU, with --max-overhead and without: launches a second beside those of the same
// process untraced, before and after. Or, with -steps, which steps an overload has taken, and
// when they are given back.
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
	overload := flag.String("steps", "", "a budget, such as 0.01%: show instead which steps are taken for it, and given back")
	flag.Parse()
	dir, err := os.MkdirTemp("", "budget")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		if *overload != "" {
			err = steps(dir, *agent, *overload)
		} else {
			err = run(dir, *agent, strings.Split(*rates, ","), strings.Split(*budgets, ","), *settle, *seconds, *rounds)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
}

func run(dir, agent string, rates, budgets []string, settle, seconds, rounds int) error {
	stack, err := sim.Extract(dir)
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "loop")
	args := []string{"-O1", "-o", program, "benchmarks/budget/testdata/loop.c", stack.Libcudart, "-Wl,-rpath," + stack.Dir}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, out)
	}
	fmt.Printf("Loss of a loop of so many launches a second: median (range) of %d rounds\n", rounds)
	for _, rate := range rates {
		loss := make([]figure.Spread, len(budgets))
		for range rounds { // in turns: a machine changes
			for i, budget := range budgets {
				l, err := measure(program, rate, agent, budget, settle, seconds)
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

// measure returns what a process loses while it is traced, in percent.
func measure(program, rate, agent, budget string, settle, seconds int) (float64, error) {
	loop := exec.Command(program, rate)
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
	before, err := median(lines, seconds)
	if err != nil {
		return 0, err
	}
	trace := exec.Command(agent, "trace", "--json", "--record=false", "--max-overhead", budget, "--pid", strconv.Itoa(loop.Process.Pid))
	if err := trace.Start(); err != nil {
		return 0, err
	}
	_, err = median(lines, settle)
	traced, err2 := median(lines, seconds)
	err3 := trace.Process.Signal(syscall.SIGINT)
	_ = trace.Wait()
	_, err4 := median(lines, 2)
	after, err5 := median(lines, seconds)
	for _, e := range []error{err, err2, err3, err4, err5} {
		if e != nil {
			return 0, e
		}
	}
	return 100 * (1 - traced/((before+after)/2)), nil
}

// median returns that of the next n seconds.
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
