package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// run is what one run of a measurement gave.
type run struct {
	planned
	Tree      string
	Passed    bool
	Seconds   float64
	Disturbed string // why the run does not count; empty: it counts
	Figures   []figure
}

// figure is one number of a run, as testkit.Measured reported it.
type figure struct {
	Name   string
	Unit   string
	Better string // "lower" or "higher"
	Value  float64
}

// event is one line of go test -json (go doc test2json).
type event struct {
	Action, Test, Output, Key, Value string
}

// execute runs one measurement and keeps its output in bin/measure. It fails only if the
// test cannot be run at all: a test that fails is a figure.
func execute(p planned, interrupted <-chan os.Signal) (r run, err error) {
	log := filepath.Join(keptDir, strings.NewReplacer("/", "_", ".", "_").Replace(p.name())+"-"+strconv.Itoa(p.Run)+".log")
	args := append([]string{"test", "-json", "-tags", "measure", "-count=1", "-timeout", "12h", "-run", "^" + p.Test + "$", p.Package, "-args"}, p.Args...)
	cmd := exec.Command("go", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := build(p); err != nil {
		return r, err
	}
	watch := waitIdle()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-interrupted:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		case <-ended:
		}
	}()
	r, ran, err := read(bufio.NewScanner(out), p, log)
	waitErr := cmd.Wait()
	close(ended)
	if err != nil {
		return r, err
	}
	if !ran {
		return r, fmt.Errorf("%s did not run to its end: %v; its output is in %s", p.name(), waitErr, log)
	}
	r.Seconds = time.Since(began).Seconds()
	r.Disturbed = watch.disturbance(cmd.ProcessState)
	return r, nil
}

// build compiles the test first, so that no compiler runs beside the measurement.
func build(p planned) error {
	cmd := exec.Command("go", "test", "-tags", "measure", "-count=1", "-run", "^$", p.Package)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests of %s: %w\n%s", p.Package, err, out)
	}
	return nil
}

// read takes what go test -json prints. ran says whether the test itself ended; a skipped
// test did not run.
func read(lines *bufio.Scanner, p planned, log string) (r run, ran bool, err error) {
	f, err := os.Create(log)
	if err != nil {
		return r, false, err
	}
	defer f.Close()
	r.planned = p
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(f, lines.Text())
			continue
		}
		fmt.Fprint(f, e.Output)
		switch e.Action {
		case "attr":
			if fig, ok := parseFigure(e, p.Test); ok {
				r.Figures = append(r.Figures, fig)
			}
		case "pass", "fail":
			if e.Test == p.Test {
				r.Passed, ran = e.Action == "pass", true
			}
		}
	}
	return r, ran, lines.Err()
}

// parseFigure reads the attribute that testkit.Measured writes. A figure of a subtest has the
// subtest's name before its own.
func parseFigure(e event, test string) (figure, bool) {
	name, ok := strings.CutPrefix(e.Key, "figure:")
	part := strings.Fields(e.Value)
	if !ok || len(part) != 3 {
		return figure{}, false
	}
	value, err := strconv.ParseFloat(part[0], 64)
	if err != nil {
		return figure{}, false
	}
	if sub := strings.TrimPrefix(strings.TrimPrefix(e.Test, test), "/"); sub != "" {
		name = sub + "/" + name
	}
	return figure{Name: name, Unit: part[1], Better: part[2], Value: value}, true
}
