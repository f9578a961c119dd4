package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// run is the result of one run of a measurement.
type run struct {
	planned
	Tree      string
	Passed    bool
	Seconds   float64
	Disturbed string // why the run is excluded; empty: it counts
	Figures   []figure
}

// figure is a run's report of one quantity, as testkit.Measured writes it: values, or a share,
// which is Part of Whole.
type figure struct {
	Name        string
	Unit        string
	Better      string    // "lower" or "higher"
	Values      []float64 `json:",omitempty"`
	Part, Whole int       `json:",omitempty"`
}

// event is one line of go test -json (go doc test2json).
type event struct {
	Action, Test, Output, Key, Value string
}

// execute runs one measurement and keeps its output in bin/measure. It fails only if the
// measurement cannot be run at all: a failed test is a figure.
func execute(p planned, interrupted <-chan os.Signal) (r run, err error) {
	log := filepath.Join(keptDir, fileName(p)+"-"+strconv.Itoa(p.Run)+".log")
	cmd, err := command(p)
	if err != nil {
		return r, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
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
	reader := readTest
	if !strings.HasPrefix(p.Test, "Test") {
		reader = readBenchmark
	}
	r, ran, err := reader(bufio.NewScanner(out), p, log)
	waitErr := cmd.Wait()
	if !strings.HasPrefix(p.Test, "Test") {
		r.Passed = waitErr == nil
	}
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

func fileName(p planned) string { return strings.NewReplacer("/", "_", ".", "_").Replace(p.name()) }

// command returns the command of a measurement. It compiles everything first, so that no compiler
// runs beside the measurement.
func command(p planned) (*exec.Cmd, error) {
	var build, run []string
	switch {
	case p.Test == "":
		binary := filepath.Join(keptDir, fileName(p))
		build, run = []string{"build", "-o", binary, p.Package}, append([]string{binary}, p.Args...)
	case strings.HasPrefix(p.Test, "Benchmark"):
		build = []string{"test", "-run", "^$", p.Package}
		run = []string{"go", "test", "-run", "^$", "-bench", "^" + p.Test + "$", "-count=1", "-timeout", "1h", p.Package}
	default:
		build = []string{"test", "-tags", "measure", "-count=1", "-run", "^$", p.Package}
		run = append([]string{"go", "test", "-json", "-tags", "measure", "-count=1", "-timeout", "12h", "-run", "^" + p.Test + "$", p.Package, "-args"}, p.Args...)
	}
	if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", p.Package, err, out)
	}
	cmd := exec.Command(run[0], run[1:]...)
	cmd.Env = append(os.Environ(), "INGERO_FIGURES=1")
	return cmd, nil
}

// readTest parses the output of go test -json. ran reports whether the test itself ended; a skipped
// test did not run.
func readTest(lines *bufio.Scanner, p planned, log string) (r run, ran bool, err error) {
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

// parseFigure parses the attribute that testkit.Measured or testkit.MeasuredShare writes. A figure
// of a subtest has the subtest's name before its own.
func parseFigure(e event, test string) (f figure, ok bool) {
	kind, name, _ := strings.Cut(e.Key, ":")
	part := strings.Fields(e.Value)
	if len(part) != 3 {
		return f, false
	}
	if sub := strings.TrimPrefix(strings.TrimPrefix(e.Test, test), "/"); sub != "" {
		name = sub + "/" + name
	}
	f = figure{Name: name, Unit: part[1], Better: part[2]}
	var err error
	switch kind {
	case "figure":
		for text := range strings.SplitSeq(part[0], ",") {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return f, false
			}
			f.Values = append(f.Values, value)
		}
		return f, true
	case "share":
		f.Unit = "%"
		if f.Part, err = strconv.Atoi(part[0]); err != nil {
			return f, false
		}
		f.Whole, err = strconv.Atoi(part[1])
		return f, err == nil && 0 <= f.Part && f.Part <= f.Whole
	}
	return f, false
}

// readBenchmark parses lines in Go's benchmark format, of go test or of a program
// (benchmarks/figure). ran reports whether there was a figure.
func readBenchmark(lines *bufio.Scanner, p planned, log string) (r run, ran bool, err error) {
	f, err := os.Create(log)
	if err != nil {
		return r, false, err
	}
	defer f.Close()
	r.planned = p
	for lines.Scan() {
		fmt.Fprintln(f, lines.Text())
		r.Figures = append(r.Figures, benchmarkFigures(lines.Text(), p.Test)...)
	}
	return r, len(r.Figures) > 0, lines.Err()
}

// benchmarkFigures parses "BenchmarkName/part-2 1000 12.5 ns/op 3 calls/s".
func benchmarkFigures(line, benchmark string) (list []figure) {
	part := strings.Fields(line)
	if len(part) < 4 || !strings.HasPrefix(part[0], "Benchmark") {
		return nil
	}
	name := strings.TrimPrefix(part[0], "Benchmark")
	if benchmark != "" {
		// go test appends the number of CPUs.
		name = strings.TrimSuffix(strings.TrimPrefix(part[0], benchmark), "-"+strconv.Itoa(runtime.GOMAXPROCS(0)))
	}
	name = strings.TrimPrefix(name, "/")
	for i := 2; i+1 < len(part); i += 2 {
		value, err := strconv.ParseFloat(part[i], 64)
		if err != nil {
			return nil
		}
		f := figure{Name: name, Unit: part[i+1], Better: "lower", Values: []float64{value}}
		if benchmark != "" {
			f.Name = strings.TrimPrefix(name+"/"+f.Unit, "/")
		}
		if strings.HasSuffix(f.Unit, "/s") {
			f.Better = "higher"
		}
		list = append(list, f)
	}
	return list
}
