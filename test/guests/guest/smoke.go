package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// load is one run of the program that makes an exact number of calls.
type load struct {
	op      string
	calls   uint64
	threads int
	driver  string // driver function that the runtime calls equally often
}

var loads = []load{
	{"cudaLaunchKernel", 16000, 8, "cuLaunchKernel"},
	{"cudaMemcpy", 400, 8, ""},
	{"cudaStreamSynchronize", 400, 1, "cuStreamSynchronize"},
}

// smoke traces each load, and compares the counts and records with the calls made.
func smoke() error {
	start := time.Now()
	stack, err := sim.Extract("/tmp/sim")
	if err != nil {
		return err
	}
	// All programs are loaded, once: on this machine the verifier takes most of the time.
	tr, err := probes.Open(probes.Options{SamplingRate: 1, Gate: true, Stacks: probes.StacksSlow})
	if err != nil {
		return err
	}
	if err := verified(tr); err != nil {
		return errors.Join(err, tr.Close())
	}
	fmt.Printf("mode %s\nloaded after %v\n", tr.Mode(), time.Since(start).Round(time.Millisecond))
	attached, err := attach(tr, stack)
	if err == nil {
		fmt.Printf("attached after %v\n", time.Since(start).Round(time.Millisecond))
		for _, l := range loads {
			if e := trace(tr, stack, l); e != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", l.op, e))
			}
		}
		if e := ledger(tr, stack); e != nil {
			err = errors.Join(err, fmt.Errorf("ledger: %w", e))
		}
		if e := throttled(tr, stack); e != nil {
			err = errors.Join(err, fmt.Errorf("CPU quota: %w", e))
		}
		fmt.Printf("traced after %v\n", time.Since(start).Round(time.Millisecond))
	}
	for _, a := range attached {
		err = errors.Join(err, a.Close())
	}
	if e := peek(stack); e != nil {
		err = errors.Join(err, fmt.Errorf("peek: %w", e))
	}
	err = errors.Join(err, tr.Close())
	fmt.Printf("closed after %v\n", time.Since(start).Round(time.Millisecond))
	return err
}

// verified prints how many instructions of each program the verifier processed.
func verified(tr *probes.Tracer) error {
	programs, err := tr.Verified()
	if errors.Is(err, probes.ErrNotSupported) {
		fmt.Println("it does not say how much was verified")
		return nil
	}
	for name, n := range programs {
		fmt.Printf("verified %s %d\n", name, n)
	}
	return err
}

func attach(tr *probes.Tracer, stack sim.Stack) (all []*probes.Attached, err error) {
	for path, lib := range map[string]events.Library{stack.Libcuda: events.LibCuda, stack.Libcudart: events.LibCudart} {
		f, err := os.Open(path)
		if err != nil {
			return all, err
		}
		a, err := tr.Attach(probes.Object{Path: path, Name: path, File: f, Lib: lib})
		_ = f.Close()
		if err != nil {
			return all, err
		}
		fmt.Printf("%s: %d probes\n", lib, a.Probes)
		all = append(all, a)
	}
	return all, nil
}

// trace runs one load from its start to its end.
func trace(tr *probes.Tracer, stack sim.Stack, l load) error {
	cmd := exec.Command(stack.Program("calls"), "--zero", "--start-on-stdin", "--threads", strconv.Itoa(l.threads), l.op, strconv.FormatUint(l.calls, 10))
	cmd.Stderr = os.Stdout
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready") {
		return fmt.Errorf("got %q, %w", line, err)
	}
	if err := tr.Trace(uint32(cmd.Process.Pid), probes.Target{}); err != nil {
		return err
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		return err
	}
	var made struct{ Calls, Errors uint64 }
	if err := json.NewDecoder(said).Decode(&made); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	if made.Calls != l.calls || made.Errors != 0 {
		return fmt.Errorf("the program made %d calls with %d errors, not %d with none", made.Calls, made.Errors, l.calls)
	}
	return compare(tr, uint32(cmd.Process.Pid), l)
}

// compare checks the kernel's counts and the records of a load.
func compare(tr *probes.Tracer, pid uint32, l load) error {
	want := map[string]uint64{l.op: l.calls}
	if l.driver != "" {
		want[l.driver] = l.calls
	}
	counted, recorded := map[string]uint64{}, map[string]uint64{}
	var errs []error
	errs = append(errs, tr.Counts(func(c *probes.CountsRow) {
		if c.PID == pid {
			counted[tr.Rows()[c.Row].Name] += c.Calls
		}
	}))
	var batch tick.Batch
	tr.Drain(1<<30, func(b []byte) {
		if err := decode.Record(&batch, b, decode.Clock{}); err != nil {
			errs = append(errs, err)
		}
	})
	for i := range batch.Calls {
		c := &batch.Calls[i]
		recorded[c.Op.String()]++
		if c.PID != pid {
			errs = append(errs, fmt.Errorf("record %d is of process %d", i, c.PID))
		}
		whole := c.Flags&(events.CallUnmeasured|events.CallLedgerPartial) == 0
		if whole && (c.Duration <= 0 || c.OnCPU+c.Runnable+c.Throttled+c.Blocked != c.Duration) {
			errs = append(errs, fmt.Errorf("record %d: %+v: the parts are not the whole", i, c))
		}
	}
	for name, n := range want {
		if counted[name] != n || recorded[name] != n {
			errs = append(errs, fmt.Errorf("%s: counted %d and recorded %d of %d calls", name, counted[name], recorded[name], n))
		}
	}
	drops, err := tr.Drops()
	errs = append(errs, err)
	for _, d := range drops {
		if d.Count > 0 && d.Reason != "stack-process-not-known" { // no process here has unwind tables
			errs = append(errs, fmt.Errorf("%d dropped: %s", d.Count, d.Reason))
		}
	}
	fmt.Printf("%s x %d in %d threads: counted %d, %d records\n", l.op, l.calls, l.threads, counted[l.op], len(batch.Calls))
	if len(errs) > 20 {
		errs = errs[:20]
	}
	return errors.Join(errs...)
}
