// Budget measures what a loop of calls loses to the tracing, with --max-overhead and
// without: rounds a second beside those of the same process untraced, before and after. Or,
// with -steps, which steps an overload has taken, and when they are given back.
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
)

func main() {
	agent := flag.String("agent", "bin/ingero", "the agent")
	seconds := flag.Int("seconds", 8, "that count of each part")
	works := flag.String("work", "0,20000", "ns between the calls, with commas")
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
			err = run(dir, *agent, *works, *settle, *seconds, *rounds)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
}

func run(dir, agent, works string, settle, seconds, rounds int) error {
	lib := filepath.Join(dir, "libcudart.so.12")
	for _, args := range [][]string{
		{"-O1", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "-o", lib, "internal/session/testdata/mixlib.c"},
		{"-O1", "-o", dir + "/loop", "benchmarks/budget/testdata/loop.c", lib, "-Wl,-rpath," + dir},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("gcc: %w\n%s", err, out)
		}
	}
	fmt.Printf("Loss of a loop that works for so long, launches and copies: median (range) of %d rounds\n", rounds)
	for _, work := range strings.Split(works, ",") {
		for _, budget := range []string{"0", "2%"} {
			var loss figure.Spread
			for range rounds {
				l, err := measure(dir+"/loop", work, agent, budget, settle, seconds)
				if err != nil {
					return err
				}
				loss = append(loss, l)
			}
			fmt.Printf("%6s ns  --max-overhead %-3s %s %%\n", work, budget, loss.Text("%.2f"))
			figure.Report("work of "+work+" ns/--max-overhead "+budget, loss, "%")
		}
	}
	return nil
}

// measure returns what a process loses while it is traced, in percent.
func measure(program, work, agent, budget string, settle, seconds int) (float64, error) {
	loop := exec.Command(program, work)
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
