package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ingero/sim"
)

// programPath is the path of ingero itself, in guests that run it.
const programPath = "/ingero"

const home = "/tmp/home" // directory of its recordings

// product runs ingero itself. It must report that it can trace here, name the process that takes a
// job's CPU, and end soon after SIGTERM.
func product() error {
	start := time.Now()
	if err := errors.Join(os.Mkdir(home, 0o700), os.Setenv("HOME", home)); err != nil {
		return err
	}
	if err := check(); err != nil {
		return err
	}
	if err := demo(); err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	if err := clock(); err != nil {
		return fmt.Errorf("while the clock is set: %w", err)
	}
	fmt.Printf("all after %v\n", time.Since(start).Round(time.Millisecond))
	return nil
}

// check prints the features that this kernel lacks.
func check() error {
	out, err := ingero("check", "--json")
	if err != nil { // check fails if ingero cannot trace
		return fmt.Errorf("%w: %s", err, out)
	}
	var report struct {
		Lines []struct{ ID, State, Value, Note string }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("%w in %q", err, out)
	}
	for _, l := range report.Lines {
		if l.State == "lacking" {
			fmt.Printf("lacks %s: %s %s\n", l.ID, l.Value, l.Note)
		}
	}
	return nil
}

func demo() error {
	out, err := ingero("demo", "incident", "--json")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var report struct {
		Chains []struct {
			Rule     string `json:"rule"`
			LostNS   int64  `json:"lost_ns"`
			Culprits []struct {
				Name string `json:"name"`
			} `json:"culprits"`
		} `json:"chains"`
		Processes []struct {
			Breakdown struct {
				Parts []struct {
					Name string `json:"name"`
					NS   int64  `json:"ns"`
					By   []struct {
						Comm string `json:"comm"`
						NS   int64  `json:"ns"`
					} `json:"by"`
				} `json:"parts"`
			} `json:"breakdown"`
		} `json:"processes"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("%w in %q", err, out)
	}
	for _, c := range report.Chains { // shares of an emulated CPU are not meaningful
		var who []string
		for _, x := range c.Culprits {
			who = append(who, x.Name)
		}
		fmt.Printf("chain %s, %v lost to %q\n", c.Rule, time.Duration(c.LostNS), who)
	}
	for _, p := range report.Processes {
		for _, part := range p.Breakdown.Parts {
			for _, by := range part.By {
				if part.Name == "runnable" && by.Comm == "hog" && by.NS > 0 {
					fmt.Printf("the hog had the CPU for %v of %v\n", time.Duration(by.NS), time.Duration(part.NS))
					return nil
				}
			}
		}
	}
	return fmt.Errorf("nothing says that the hog took the CPU: %s", out)
}

// end lets the program trace a job, terminates it while the job continues, and prints how long that
// took. The unit and the pod grant 30 s, but an emulated CPU cannot test that limit.
func end() error {
	stack, err := sim.Extract("/tmp/sim")
	if err != nil {
		return err
	}
	job := exec.Command(stack.Program("train"), "--steps", "1000000", "--kernel-us", "20000")
	if err := job.Start(); err != nil {
		return err
	}
	defer func() { _, _ = job.Process.Kill(), job.Wait() }()
	trace, said, err := begin(job, home+"/end.db")
	if err != nil {
		return err
	}
	if _, err := said.ReadBytes('\n'); err != nil { // wait until it traces
		return errors.Join(err, trace.Wait())
	}
	go func() {
		for err := error(nil); err == nil; {
			_, err = said.ReadSlice('\n')
		}
	}()
	reported := time.Now()
	if err := trace.Process.Signal(unix.SIGTERM); err != nil {
		return err
	}
	err = trace.Wait()
	fmt.Printf("ended after %v\n", time.Since(reported).Round(time.Millisecond))
	return err
}

// begin starts a trace of a job, and returns a reader of its JSON lines.
func begin(job *exec.Cmd, db string, flags ...string) (trace *exec.Cmd, said *bufio.Reader, err error) {
	trace = exec.Command(programPath, append([]string{"trace", "--pid", strconv.Itoa(job.Process.Pid), "--json", "--db", db}, flags...)...)
	trace.Stderr = os.Stdout
	out, err := trace.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return trace, bufio.NewReaderSize(out, 1<<20), trace.Start()
}

func ingero(args ...string) ([]byte, error) {
	cmd := exec.Command(programPath, args...)
	cmd.Stderr = os.Stdout
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w", cmd, err)
	}
	return out, nil
}
