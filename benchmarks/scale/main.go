// Scale measures an agent that traces many processes: its memory and the kernel's for it, its CPU
// time, and whether its counts are the programs' own. Each process has several threads, which make
// calls at a steady rate, and one of several copies of the CUDA libraries.
//
// It needs root and the agent (make build).
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingero/benchmarks/figure"
	"ingero/internal/query"
	"ingero/sim"
)

var (
	agentPath  = flag.String("agent", "bin/ingero", "the agent")
	procs      = flag.Int("procs", 1000, "traced processes")
	threads    = flag.Int("threads", 8, "threads of each process")
	libs       = flag.Int("libs", 8, "copies of the libraries")
	rate       = flag.Int("rate", 8, "calls of a process a second")
	length     = flag.Duration("length", 30*time.Second, "time for which they make calls")
	maxThreads = flag.Int("max-threads", 0, "--max-threads of the agent")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "ingero-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a, err := startAgent(filepath.Join(dir, "ingero.db"))
	if err != nil {
		return err
	}
	defer func() { _ = a.cmd.Process.Kill() }()
	began := time.Now()
	all, err := startPrograms(dir)
	defer func() {
		for _, p := range all {
			_ = p.cmd.Process.Kill()
		}
	}()
	if err != nil {
		return err
	}
	fmt.Printf("%d processes of %d threads with %d copies of the libraries, started in %.1f s; each makes %d calls a second\n",
		*procs, *threads, *libs, time.Since(began).Seconds(), *rate)
	for _, p := range all {
		if _, err := io.WriteString(p.stdin, "go\n"); err != nil {
			return err
		}
	}
	var s sizes
	time.Sleep(*length / 2) // their first calls are over, and they make calls at their rate
	if err := s.read(a.cmd.Process.Pid); err != nil {
		return err
	}
	from, before := time.Now(), s.cpu
	time.Sleep(*length / 3)
	if err := s.read(a.cmd.Process.Pid); err != nil {
		return err
	}
	share := 100 * float64(s.cpu-before) / float64(time.Since(from))
	want, err := wait(all)
	if err != nil {
		return err
	}
	if err := a.stop(); err != nil {
		return err
	}
	counted, drops, err := counts(a.db)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		name  string
		value float64
		unit  string
	}{
		{"CPU", share, "%"},
		{"memory", float64(s.rss) / (1 << 20), "MiB"},
		{"memory of BPF maps", float64(s.maps) / (1 << 20), "MiB"},
		{"calls not counted", float64(want) - float64(counted), "calls"},
	} {
		fmt.Printf("%-20s %.1f %s\n", x.name, x.value, x.unit)
		figure.Report(x.name, figure.Spread{x.value}, x.unit)
	}
	fmt.Printf("%d calls by the programs' own count, %d counted; dropped: %s\n", want, counted, cmp.Or(drops, "none"))
	return nil
}

// agent is a running trace of this program's children.
type agent struct {
	cmd *exec.Cmd
	db  string
}

func startAgent(db string) (*agent, error) {
	a := &agent{db: db}
	a.cmd = exec.Command(*agentPath, "trace", "--pid", strconv.Itoa(os.Getpid()), "--db", db, "--max-threads", strconv.Itoa(*maxThreads))
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.cmd.Stderr = a.cmd.Stdout
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "Tracing ") {
		rest, _ := io.ReadAll(lines)
		return nil, fmt.Errorf("%s: %s%s", *agentPath, line, rest)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return a, nil
}

func (a *agent) stop() error {
	if err := a.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	return a.cmd.Wait()
}

// program is a traced process, which prints the number of its calls.
type program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

func startPrograms(dir string) (all []*program, err error) {
	for i := range *libs {
		if _, err := sim.Extract(filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return nil, err
		}
	}
	calls := strconv.Itoa(int(length.Seconds() * float64(*rate)))
	for i := range *procs {
		from := filepath.Join(dir, strconv.Itoa(i%*libs))
		p := &program{cmd: exec.Command(filepath.Join(from, "calls"), "sync", calls, "--zero", "--start-on-stdin",
			"--threads", strconv.Itoa(*threads), "--rate", strconv.Itoa(*rate))}
		p.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+from)
		if p.stdin, err = p.cmd.StdinPipe(); err != nil {
			return all, err
		}
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			return all, err
		}
		p.out = bufio.NewReader(out)
		if err := p.cmd.Start(); err != nil {
			return all, err
		}
		all = append(all, p)
		if _, err := p.out.ReadString('\n'); err != nil { // ready
			return all, fmt.Errorf("%s: %w", p.cmd.Path, err)
		}
	}
	return all, nil
}

// wait waits for the programs' ends, and returns the number of the calls that they say they made.
func wait(all []*program) (calls uint64, err error) {
	for _, p := range all {
		var said struct{ Calls uint64 }
		if err := json.NewDecoder(p.out).Decode(&said); err != nil {
			return 0, fmt.Errorf("%s: %w", p.cmd.Path, err)
		}
		if err := p.cmd.Wait(); err != nil {
			return 0, fmt.Errorf("%s: %w", p.cmd.Path, err)
		}
		calls += said.Calls
	}
	return calls, nil
}

// counts returns the calls of the timed function that the recording has, and the reasons of its drops.
func counts(db string) (calls uint64, drops string, err error) {
	r, err := query.Open(context.Background(), db)
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	sum, err := r.Summary(context.Background(), query.Filter{})
	if err != nil {
		return 0, "", err
	}
	for i := range sum.Ops {
		if o := &sum.Ops[i]; o.Op.String() == "cudaStreamSynchronize" {
			calls += o.Sum.Calls
		}
	}
	var list []string
	for _, d := range sum.Drops {
		if d.Count > 0 {
			list = append(list, fmt.Sprintf("%s=%d", d.Reason, d.Count))
		}
	}
	return calls, strings.Join(list, " "), nil
}

// sizes is what the agent uses.
type sizes struct {
	cpu       time.Duration
	rss, maps uint64 // bytes
}

func (s *sizes) read(pid int) error {
	dir := fmt.Sprintf("/proc/%d/", pid)
	var err error
	if s.cpu, err = figure.CPU(pid); err != nil {
		return err
	}
	kib, ok := number(dir+"status", "VmRSS:")
	if !ok {
		return fmt.Errorf("the agent has ended")
	}
	s.rss, s.maps = kib<<10, 0
	fds, err := filepath.Glob(dir + "fdinfo/*")
	if err != nil {
		return err
	}
	for _, file := range fds {
		if _, isMap := number(file, "map_id:"); isMap {
			n, _ := number(file, "memlock:")
			s.maps += n
		}
	}
	return nil
}

// number returns the number after a word at the start of a line.
func number(file, word string) (n uint64, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, word); found {
			_, err := fmt.Sscan(rest, &n)
			return n, err == nil
		}
	}
	return 0, false
}
