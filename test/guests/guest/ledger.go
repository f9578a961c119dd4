package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// trainers is the number of concurrent training threads, on few CPUs.
const trainers = 3

// ledger traces a training loop that sleeps while it waits for its GPU, and checks the account of
// its time: it sleeps, timers wake it, and its threads take turns.
func ledger(tr *probes.Tracer, stack sim.Stack) error {
	b, pid, err := train(tr, stack, nil, "--steps", "30", "--kernel-us", "1500", "--threads", fmt.Sprint(trainers))
	if err != nil {
		return err
	}
	return errors.Join(callsSleep(b.Calls), waitsAreOwned(b.Waits, pid), accountsAddUp(b.Ended))
}

// train traces a training loop, in a cgroup if one is given. It returns what was recorded, and the PID.
func train(tr *probes.Tracer, stack sim.Stack, cgroup *os.File, args ...string) (b tick.Batch, pid uint32, err error) {
	cmd := exec.Command(stack.Program("train"), append([]string{"--hold", "--launches", "4", "--cpu-us", "3000"}, args...)...)
	cmd.Env = append(os.Environ(), "INGERO_SIM_SYNC=block")
	cmd.Stderr = os.Stdout
	if cgroup != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return b, 0, err
	}
	if err := cmd.Start(); err != nil {
		return b, 0, err
	}
	pid = uint32(cmd.Process.Pid)
	if err := tr.Trace(pid, probes.Target{}); err != nil {
		return b, pid, err
	}
	if _, err := in.Write([]byte{'\n'}); err != nil {
		return b, pid, err
	}
	if err := cmd.Wait(); err != nil {
		return b, pid, err
	}
	var errs []error
	tr.Drain(1<<30, func(record []byte) { errs = append(errs, decode.Record(&b, record, decode.Clock{})) })
	return b, pid, errors.Join(errs...)
}

// throttled traces a training loop in a cgroup with a fifth of a CPU, and checks that its account
// has the time for which the cgroup had used up its quota.
func throttled(tr *probes.Tracer, stack sim.Stack) error {
	const root = "/sys/fs/cgroup"
	group := root + "/quota"
	if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", root, err)
	}
	if err := errors.Join(os.WriteFile(root+"/cgroup.subtree_control", []byte("+cpu"), 0o644), os.Mkdir(group, 0o755),
		os.WriteFile(group+"/cpu.max", []byte("20000 100000"), 0o644)); err != nil {
		return err
	}
	dir, err := os.Open(group)
	if err != nil {
		return err
	}
	defer dir.Close()
	b, _, err := train(tr, stack, dir, "--steps", "60", "--kernel-us", "100", "--threads", "1")
	if err != nil {
		return err
	}
	for i := range b.Ended {
		t := &b.Ended[i]
		held := time.Duration(t.InCalls.Throttled + t.Between.Throttled)
		fmt.Printf("throttled for %v of %v\n", held, time.Duration(t.Until-t.Since))
		if held == 0 {
			err = errors.Join(err, fmt.Errorf("%+v: it was never throttled", t))
		}
	}
	if len(b.Ended) == 0 {
		return errors.New("no thread has ended")
	}
	return err
}

// callsSleep checks that the parts of calls add up, and that calls that wait for the GPU are
// blocked.
func callsSleep(calls []events.Call) error {
	var synced, blocked int64
	for i := range calls {
		c := &calls[i]
		whole := c.Flags&(events.CallUnmeasured|events.CallLedgerPartial) == 0
		if whole && c.OnCPU+c.Runnable+c.Throttled+c.Blocked != c.Duration {
			return fmt.Errorf("%+v: the parts are not the whole", c)
		}
		if c.Op.String() == "cudaStreamSynchronize" {
			synced, blocked = synced+c.Duration, blocked+c.Blocked
		}
	}
	fmt.Printf("synchronised for %v, asleep %v\n", time.Duration(synced), time.Duration(blocked))
	if blocked < synced/4 || synced == 0 {
		return fmt.Errorf("synchronised for %v, asleep for %v only", time.Duration(synced), time.Duration(blocked))
	}
	return nil
}

// waitsAreOwned checks that timers end the sleeps, and that the process's threads are named as
// owners of the CPU in each other's waits.
func waitsAreOwned(waits []events.Wait, pid uint32) error {
	var sleeps, byTimer, turns int
	for i := range waits {
		w := &waits[i]
		if w.State == events.WaitBlocked && w.Reason == events.ReasonSleep {
			sleeps++
			if w.Flags&events.WaitByIRQ != 0 {
				byTimer++
			}
		}
		if w.State == events.WaitRunnable && w.Who.PID == pid && w.Who.TID != w.TID {
			turns++
		}
	}
	fmt.Printf("%d sleeps, %d ended by a timer; %d waits for another thread's turn\n", sleeps, byTimer, turns)
	if sleeps < 20 || byTimer != sleeps || turns < 10 {
		return fmt.Errorf("%d sleeps, %d ended by a timer, %d waits for another thread's turn", sleeps, byTimer, turns)
	}
	return nil
}

// accountsAddUp checks the last accounts of the threads.
func accountsAddUp(ended []tick.Thread) error {
	for i := range ended {
		t := &ended[i]
		if sum := t.InCalls.Total() + t.Between.Total(); sum != uint64(t.Until-t.Since) || t.Enrolled {
			return fmt.Errorf("%+v: the parts are %v, the time %v", t, time.Duration(sum), time.Duration(t.Until-t.Since))
		}
	}
	if len(ended) != trainers {
		return fmt.Errorf("%d threads have ended, not %d", len(ended), trainers)
	}
	return nil
}
