package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

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
	cmd := exec.Command(stack.Program("train"), "--hold", "--steps", "30", "--launches", "4", "--kernel-us", "1500",
		"--cpu-us", "3000", "--threads", fmt.Sprint(trainers))
	cmd.Env = append(os.Environ(), "INGERO_SIM_SYNC=block")
	cmd.Stderr = os.Stdout
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := uint32(cmd.Process.Pid)
	if err := tr.Trace(pid, probes.Target{}); err != nil {
		return err
	}
	if _, err := in.Write([]byte{'\n'}); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	var b tick.Batch
	var errs []error
	tr.Drain(1<<30, func(record []byte) { errs = append(errs, decode.Record(&b, record, decode.Clock{})) })
	return errors.Join(append(errs, callsSleep(b.Calls), waitsAreOwned(b.Waits, pid), accountsAddUp(b.Ended))...)
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
