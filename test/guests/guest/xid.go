package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/tick"
	"ingero/internal/xid"
)

// modulePath is the path of the module that replaces the driver, in guests that test it.
const modulePath = "/xid.ko"

// bursts is the number of reported bursts, of three faults each.
const bursts = 333

// faults loads the module and checks that its reports arrive once, in order, through the
// tracepoint, although the log has them too. It also checks that a reader that was opened before
// the module was loaded finds the tracepoint.
func faults() error {
	if _, err := probes.OpenXids(); !errors.Is(err, probes.ErrNoTracepoint) {
		return fmt.Errorf("without the module: %w", err)
	}
	early, err := session.OpenFaults(context.Background(), session.FaultOptions{Only: tick.ViaTracepoint, Loaded: func() bool { return false }})
	if err != nil {
		return fmt.Errorf("without the module: %w", err)
	}
	module, err := os.ReadFile(modulePath)
	if err != nil {
		return err
	}
	if err := unix.InitModule(module, ""); err != nil {
		return fmt.Errorf("load the module: %w", err)
	}
	format, err := os.ReadFile("/sys/kernel/tracing/events/nvidia/nvidia_dev_xid/format")
	if err != nil {
		return err
	}
	fmt.Printf("%s", format)
	f, err := session.OpenFaults(context.Background(), session.FaultOptions{})
	if err != nil {
		return err
	}
	at, log := f.Ways()
	fmt.Printf("ways %v %s\n", at, log)
	if len(at) != len(probes.XidTracepoints) || log == "" {
		return fmt.Errorf("not all ways are open: %v, %v", f.Err(tick.ViaTracepoint), f.Err(tick.ViaKernelLog))
	}
	return errors.Join(reported(f), f.Close(), found(early), early.Close(), overflow())
}

// found waits until f reads the tracepoints.
func found(f *session.Faults) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
		if at, _ := f.Ways(); len(at) == len(probes.XidTracepoints) {
			return nil
		}
	}
	return fmt.Errorf("opened before the module: %w", f.Err(tick.ViaTracepoint))
}

// report makes the module report a fault.
func report(what string) error {
	return os.WriteFile("/sys/kernel/debug/xid", []byte(what), 0)
}

// codes are the codes of a burst.
var codes = [3]uint32{172, 48, 13}

// send reports bursts of three faults, and one SXid with its details.
func send() error {
	long := strings.Repeat("long ", 190) // the log accepts no longer message
	for i := range bursts {
		for j, code := range codes {
			instance := ""
			if i%2 == 1 {
				instance = "GPU-I:05"
			}
			what := fmt.Sprintf("%04x:75:00.0|%s|%d|pid=%d, name=python3|Ch %08x", i, instance, code, 1000+i, j)
			if i == 7 {
				what += " " + long
			}
			if err := report(what); err != nil {
				return err
			}
		}
	}
	return report("s0000:05:00.0||20034||Fatal, Link 30 LTSSM Fault Up|Severity 1 Engine instance 30 Sub-engine instance 00|Data {0x10000000, 0x00000000}")
}

// reported reports faults while f reads.
func reported(f *session.Faults) error {
	if err := send(); err != nil {
		return err
	}
	const n = 3*bursts + 1
	var all []tick.Xid
	for end := time.Now().Add(time.Minute); len(all) < n && time.Now().Before(end); <-time.After(time.Millisecond) {
		all = f.Drain(all)
	}
	// Any further reports from the log must be duplicates.
	for end := time.Now().Add(time.Second); time.Now().Before(end); <-time.After(time.Millisecond) {
		all = f.Drain(all)
	}
	fmt.Printf("%d faults of %d\n", len(all), n)
	for _, d := range f.Drops() {
		if d.Count != 0 {
			return fmt.Errorf("%s: %d", d.Reason, d.Count)
		}
	}
	if len(all) != n {
		return fmt.Errorf("%d faults are reported, %d were reported", len(all), n)
	}
	var b xid.Bursts
	b.Group(all)
	byTracepoint := 0
	for i := range all[:n-1] {
		x := &all[i]
		if x.Via == tick.ViaTracepoint {
			byTracepoint++
		}
		bus := fmt.Sprintf("%04x:75:00", i/3)
		if x.Code != codes[i%3] || x.Bus != bus || x.At != i%3+1 || x.Root != 172 || x.SaidPID != uint32(1000+i/3) || x.Injected || x.GPUInstance != instanceOf(i/3) {
			return fmt.Errorf("fault %d is reported as %+v", i, x)
		}
	}
	if s := &all[n-1]; !s.Switch || s.Code != 20034 || s.Bus != "0000:05:00" ||
		s.Msg != "Fatal, Link 30 LTSSM Fault Up; Severity 1 Engine instance 30 Sub-engine instance 00; Data {0x10000000, 0x00000000}" {
		return fmt.Errorf("the SXid is reported as %+v", s)
	}
	fmt.Printf("%d came by the tracepoint first; %d microseconds from root to last, %q\n", byTracepoint, all[2].After.Microseconds(), all[2].Msg)
	if byTracepoint == 0 {
		return errors.New("none came by the tracepoint")
	}
	return nil
}

// instanceOf returns the MIG instance of a burst: every other burst has one.
func instanceOf(burst int) tick.Number {
	if burst%2 == 1 {
		return tick.Numbered(5)
	}
	return 0
}

// overflow reports more faults than fit without a reader. The first are kept, and the rest is
// counted.
func overflow() error {
	x, err := probes.OpenXids()
	if err != nil {
		return err
	}
	const n = 3000
	for i := range n {
		if err := report(fmt.Sprintf("0000:75:00.0||%d||x", i)); err != nil {
			return err
		}
	}
	lost, err := x.Lost()
	if err != nil {
		return err
	}
	for i := range n - lost {
		r, err := x.Read()
		if err != nil {
			return err
		}
		if r.Code != uint32(i) {
			return fmt.Errorf("fault %d is read as %d", i, r.Code)
		}
	}
	fmt.Printf("of %d faults that nobody read, the first %d were kept and %d counted as lost\n", n, n-lost, lost)
	if lost == 0 || lost > n-1000 {
		return fmt.Errorf("%d of %d are counted as lost", lost, n)
	}
	return x.Close()
}
