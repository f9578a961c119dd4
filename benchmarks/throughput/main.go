// Throughput measures the agent's capacity. A program makes an exact number of calls at a rate for
// some seconds, and a complete session traces it. It compares the calls made with those counted and
// the records read, and prints the agent's CPU time and memory.
//
// -record adds the store as an output. -export adds another output, by name. -rounds alternates
// runs with and without it: the difference is its cost. It needs root.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ingero/benchmarks/figure"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/sim"
)

func main() {
	rates := flag.String("rates", "100000,200000,500000,0", "calls a second of each program, one run each; 0 is as fast as it goes")
	seconds := flag.Int("seconds", 10, "length of a run")
	op := flag.String("op", "cuEventSynchronize", "operation; one of the driver has one record a call")
	threads := flag.Int("threads", 1, "threads of each program that calls")
	procs := flag.Int("procs", 1, "programs that call")
	record := flag.Bool("record", false, "store everything, too")
	with := flag.String("export", "", "an output to measure the cost of: prometheus, prometheus-hung, clickhouse, clickhouse-away, otlp, otlp-metrics, otlp-all, otlp-away")
	rounds := flag.Int("rounds", 5, "pairs of runs of -export")
	scraped := flag.String("scrape", "", "be the other end: ask this address for metrics, once a second")
	hung := flag.String("hang", "", "be the other end: ask this address for metrics, and read nothing")
	takes := flag.String("take", "", "be the other end: take what is sent to this address")
	taken := flag.Bool("receive", false, "be the other end: take requests of OTLP, and keep nothing")
	flag.Parse()
	if *taken {
		fmt.Fprintln(os.Stderr, "throughput:", receive())
		os.Exit(1)
	}
	if *takes != "" {
		if err := take(*takes); err != nil {
			os.Exit(1)
		}
		return
	}
	if *scraped != "" || *hung != "" {
		end := scrape
		if *hung != "" {
			end = hang
		}
		if err := end(*scraped + *hung); err != nil {
			os.Exit(1) // the other end has closed
		}
		return
	}
	fmt.Printf("%10s %12s %12s %12s %9s %9s %9s %9s  %s\n", "calls/s", "made", "counted", "records", "wall s", "CPU s", "CPU", "RSS MB", "dropped")
	for r := range strings.SplitSeq(*rates, ",") {
		rate, err := strconv.Atoi(r)
		if err == nil {
			err = pairs(load{rate, *seconds, *procs, *threads, *op}, *record, *with, *rounds)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "throughput:", err)
			os.Exit(1)
		}
	}
}

// counter keeps the last tick.
type counter struct{ last *tick.Tick }

func (c *counter) Batch(*tick.Batch) error { return nil }
func (c *counter) Tick(t *tick.Tick) error { c.last = t; return nil }
func (c *counter) Close() error            { return nil }

// load is the work of one run. rate is that of each program; 0: as fast as it can.
type load struct {
	rate, seconds, procs, threads int
	op                            string
}

// pairs measures a load once, or with and without an output in turns.
func pairs(l load, record bool, with string, rounds int) error {
	x, err := exportOf(with)
	if err != nil {
		return err
	}
	if with == "" {
		share, err := measure(l, record, x)
		if err == nil {
			figure.Report(fmt.Sprintf("%d calls a second of each of %d, recorded %v/agent", l.rate, l.procs, record), figure.Spread{100 * share}, "%")
		}
		return err
	}
	var more figure.Spread
	for i := range rounds {
		var share [2]float64
		for _, which := range [][]int{{0, 1}, {1, 0}}[i%2] {
			if share[which], err = measure(l, record, []export{exports[0], x}[which]); err != nil {
				return err
			}
		}
		more = append(more, 100*(share[1]-share[0]))
	}
	fmt.Printf("%s adds %s %% of a core, %d pairs\n", with, more.Text("%.2f"), rounds)
	figure.Report(with+" adds", more, "%")
	return nil
}

// measure returns the share of a core that the agent took.
func measure(l load, record bool, x export) (share float64, err error) {
	dir, err := os.MkdirTemp("", "throughput")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stack, err := sim.Extract(filepath.Join(dir, "sim"))
	if err != nil {
		return 0, err
	}
	var programs []*program
	var pids []uint32
	for range l.procs {
		p, err := start(stack, l)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, p.end()) }()
		programs, pids = append(programs, p), append(pids, uint32(p.cmd.Process.Pid))
	}
	live, err := session.OpenLive(context.Background(), session.LiveOptions{Select: proc.Selector{PIDs: pids}})
	if err != nil {
		return 0, err
	}
	c := &counter{}
	sinks := []tick.Sink{c}
	if record {
		db, err := store.Open(store.Options{Path: filepath.Join(dir, "ingero.db"), Now: time.Now})
		if err != nil {
			return 0, errors.Join(err, live.Close())
		}
		sinks = append(sinks, db)
	}
	more, end, err := x.open()
	if err != nil {
		return 0, errors.Join(err, live.Close())
	}
	sinks = append(sinks, more...)
	if f := followers[x.name]; f != nil {
		if end, err = f(filepath.Join(dir, "ingero.db")); err != nil {
			return 0, errors.Join(err, live.Close())
		}
	}
	done := make(chan error, 1)
	from, started := used(), time.Now()
	go func() { done <- session.Run(context.Background(), session.Config{Source: live, Sinks: sinks}) }()
	made, elapsed, err := callAll(programs)
	err = errors.Join(err, <-done)
	cpu, wall := used()-from, time.Since(started)
	err = errors.Join(err, end())
	if err != nil {
		return 0, err
	}
	report(c.last, l.op, made, elapsed, cpu, wall)
	return cpu.Seconds() / wall.Seconds(), nil
}

// program makes the calls.
type program struct {
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Scanner
}

// start starts the program, and waits until it is ready.
func start(stack sim.Stack, l load) (*program, error) {
	calls := l.rate * l.seconds
	if l.rate == 0 {
		calls = 900_000 * l.seconds
	}
	cmd := exec.Command(stack.Program("calls"), l.op, strconv.Itoa(calls), "--zero", "--start-on-stdin",
		"--rate", strconv.Itoa(l.rate), "--threads", strconv.Itoa(l.threads))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &program{cmd, in, bufio.NewScanner(out)}
	p.lines.Scan()
	return p, nil
}

// callAll runs the calls of all programs at the same time. It returns their number, and the
// seconds.
func callAll(programs []*program) (made uint64, seconds float64, err error) {
	for _, p := range programs {
		err = errors.Join(err, p.begin())
	}
	for _, p := range programs {
		n, s, e := p.finish()
		made, seconds, err = made+n, max(seconds, s), errors.Join(err, e)
	}
	return made, seconds, err
}

// begin makes the program start its calls.
func (p *program) begin() error {
	_, err := fmt.Fprintln(p.in, "go")
	return err
}

// finish waits for the program's end. It returns its calls, and the seconds.
func (p *program) finish() (made uint64, seconds float64, err error) {
	p.lines.Scan()
	var said struct {
		Calls   uint64  `json:"calls"`
		Elapsed float64 `json:"elapsed_ns"`
	}
	err = json.Unmarshal(p.lines.Bytes(), &said)
	return said.Calls, said.Elapsed / 1e9, errors.Join(err, p.cmd.Wait())
}

// end kills the program if it still runs.
func (p *program) end() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	return errors.Join(p.cmd.Process.Kill(), p.cmd.Wait())
}

func report(t *tick.Tick, op string, made uint64, elapsed float64, cpu, wall time.Duration) {
	var counted, records uint64
	for _, o := range t.Ops {
		if o.Op.String() == op {
			counted += o.Sum.Calls
			records += o.Dur.Count()
		}
	}
	dropped := ""
	for _, d := range t.Drops {
		if d.Count > 0 {
			dropped += fmt.Sprintf(" %s=%d", d.Reason, d.Count)
		}
	}
	if made != counted {
		dropped += "  NOT EXACT"
	}
	fmt.Printf("%10.0f %12d %12d %12d %9.2f %9.2f %8.1f%% %9.1f %s\n", float64(made)/elapsed, made, counted, records, elapsed,
		cpu.Seconds(), 100*cpu.Seconds()/wall.Seconds(), float64(t.Self.RSS)/1e6, dropped)
}

// used returns the CPU time of this process.
func used() time.Duration {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
