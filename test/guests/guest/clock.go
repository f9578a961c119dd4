package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ingero/sim"
)

// stepped is the number of calls made while the clock is set.
const stepped = 600

// clock sets the machine's clock an hour ahead, and two hours back, while the program traces a job.
// The trace continues, and has each call once.
func clock() error {
	stack, err := sim.Extract("/tmp/sim")
	if err != nil {
		return err
	}
	job := exec.Command(stack.Program("calls"), "cudaLaunchKernel", strconv.Itoa(stepped), "--rate", "25", "--start-on-stdin")
	line, err := job.StdinPipe()
	if err != nil {
		return err
	}
	if err := job.Start(); err != nil {
		return err
	}
	defer func() { _, _ = job.Process.Kill(), job.Wait() }()
	db := home + "/clock.db"
	// Without a limit no probe is removed on the slow emulated machine: every call must be counted. Where
	// the kernel takes long to detach a probe, few functions have one: launches are the first of them.
	trace, ticks, err := begin(job, db, "--max-overhead", "0", "--cuda-lib", stack.Libcudart)
	if err != nil {
		return err
	}
	if err := pass(ticks, 1); err != nil {
		return errors.Join(err, trace.Wait())
	}
	if _, err := line.Write([]byte("go\n")); err != nil {
		return err
	}
	for _, by := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
		if err := errors.Join(pass(ticks, 2), set(by)); err != nil {
			return errors.Join(err, trace.Wait())
		}
	}
	for err == nil { // the job ends, and the trace with it
		err = pass(ticks, 1)
	}
	if err := trace.Wait(); err != nil {
		return err
	}
	return kept(db)
}

// pass reads n ticks.
func pass(ticks *bufio.Reader, n int) error {
	for n > 0 {
		text, err := ticks.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("no more ticks: %w", err)
		}
		var t struct{ Type string }
		if err := json.Unmarshal(text, &t); err != nil {
			return err
		}
		if t.Type == "tick" {
			n--
		}
	}
	return nil
}

// set moves the clock by a duration.
func set(by time.Duration) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	now = unix.NsecToTimespec(now.Nano() + int64(by))
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}

// kept compares the recorded calls with those made.
func kept(db string) error {
	out, err := ingero("query", "--json", "--db", db)
	if err != nil {
		return err
	}
	var answer struct {
		From, To   time.Time
		Operations []struct {
			Op    string
			Calls uint64
		}
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return fmt.Errorf("%w in %q", err, out)
	}
	for _, op := range answer.Operations {
		if op.Op != "cudaLaunchKernel" {
			continue
		}
		took := answer.To.Sub(answer.From).Round(time.Second)
		fmt.Printf("%d of %d calls in %v, in which the clock was set three times\n", op.Calls, stepped, took)
		if op.Calls != stepped || took < 0 || took > 10*time.Minute {
			return fmt.Errorf("%d calls of %d in %v", op.Calls, stepped, took)
		}
		_, err := ingero("explain", "--db", db)
		return err
	}
	return fmt.Errorf("no launch was recorded: %s", out)
}
