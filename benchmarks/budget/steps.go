package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingero/sim"
)

// tick has the fields of a tick that the benchmark reads.
type tick struct {
	Type     string `json:"type"`
	Overhead *struct {
		Share float64  `json:"share"`
		Shed  []string `json:"shed"`
	} `json:"overhead"`
}

// Each half ends after this many ticks without a change: first while levels are shed, then while
// they return.
const (
	unmoved = 20
	unquiet = 120
)

// steps overloads tracing with a program that makes calls as fast as it can, and prints when each
// level is shed. It then stops the program, and prints when each level returns.
func steps(dir, agent, budget string) error {
	stack, err := sim.Extract(dir)
	if err != nil {
		return err
	}
	busy := exec.Command("python3", "benchmarks/budget/testdata/busy.py", stack.Dir)
	busy.Stderr = os.Stderr
	out, err := busy.StdoutPipe()
	if err != nil {
		return err
	}
	if err := busy.Start(); err != nil {
		return err
	}
	defer func() { _ = busy.Process.Kill(); _ = busy.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return err
	}
	trace := exec.Command(agent, "trace", "--json", "--db", filepath.Join(dir, "steps.db"), "--max-overhead", budget, "--pid", strconv.Itoa(busy.Process.Pid))
	trace.Stderr = os.Stderr
	ticks, err := trace.StdoutPipe()
	if err != nil {
		return err
	}
	if err := trace.Start(); err != nil {
		return err
	}
	defer func() { _ = trace.Process.Signal(syscall.SIGINT); _, _ = io.Copy(io.Discard, ticks); _ = trace.Wait() }()
	lines := bufio.NewReaderSize(ticks, 1<<20)
	fmt.Printf("Overload, of a budget of %s:\n", budget)
	taken, err := follow(lines, nil, unmoved, func(shed []string) bool { return false })
	if err != nil {
		return err
	}
	if err := busy.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	fmt.Printf("%d steps are taken. It stands still:\n", len(taken))
	left, err := follow(lines, taken, unquiet, func(shed []string) bool { return len(shed) == 0 })
	if err == nil {
		fmt.Printf("%d steps are left.\n", len(left))
	}
	return err
}

// follow prints each change of the shed levels, until done or after patience ticks without a
// change.
func follow(lines *bufio.Reader, shed []string, patience int, done func(shed []string) bool) ([]string, error) {
	began := time.Now()
	for same := 0; same < patience && !done(shed); {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, err
		}
		var t tick
		if err := json.Unmarshal([]byte(line), &t); err != nil {
			return nil, err
		}
		if t.Type != "tick" || t.Overhead == nil {
			continue
		}
		if same++; slices.Equal(shed, t.Overhead.Shed) {
			continue
		}
		same, shed = 0, t.Overhead.Shed
		fmt.Printf("  %5.1f s  %7.3f %%  left out: %s\n", time.Since(began).Seconds(), 100*t.Overhead.Share, strings.Join(shed, ", "))
	}
	return shed, nil
}
