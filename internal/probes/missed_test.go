package probes_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"ingero/internal/bpf"
	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A block whose end the ledger saw gets its record even if the ledger missed the switch-in after it.
func TestBlockBeforeAMissedSwitchIn(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := polls(t, "spin")
	for name, args := range map[string][]string{"found at a switch": nil, "found at a call": {"call"}} {
		t.Run(name, func(t *testing.T) {
			tr := tracer(t, probes.Options{Rows: libraryRows(testkit.OpRows("cudaEventQuery"))})
			child, _ := traced(t, tr, library, program, args...)
			child.Send("")
			child.Line("computing")
			const blocked = 149 * time.Millisecond
			start := missSwitchIn(t, tr, uint32(child.PID()), blocked)
			child.Signal(syscall.SIGUSR1)
			testkit.Eventually(t, "the next block", func() bool { return blocks(t, tr, uint32(child.PID())) })
			child.Send("")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			var got []time.Duration
			for _, w := range drainWaits(t, tr) {
				if w.State == events.WaitBlocked && w.Start == start {
					got = append(got, time.Duration(w.Duration))
				}
			}
			if want := []time.Duration{blocked}; !slices.Equal(got, want) {
				t.Errorf("records of the block: %v, want %v", got, want)
			}
		})
	}
}

// A thread that ends after a missed switch-in leaves the queue of its CPU.
func TestEndAfterAMissedSwitchIn(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := polls(t, "spin")
	tr := tracer(t, probes.Options{Rows: libraryRows(testkit.OpRows("cudaEventQuery")), NoLedger: true}) // no switch is seen
	child, _ := traced(t, tr, library, program)
	child.Send("")
	child.Line("computing")
	if err := tr.QueueThread(uint32(child.PID())); err != nil {
		t.Fatal(err)
	}
	child.Signal(syscall.SIGUSR1)
	child.CloseStdin()
	_ = child.Wait()
	if n, err := tr.Waiters(); err != nil || n != 0 {
		t.Errorf("%d threads wait for the CPU, %v, want none", n, err)
	}
}

// missSwitchIn makes the ledger believe that a running thread still waits for a CPU, after a block.
// It returns the start of the block.
func missSwitchIn(t *testing.T, tr *probes.Tracer, tid uint32, blocked time.Duration) (start int64) {
	t.Helper()
	var missed probes.ThreadState
	if err := tr.Threads(func(x uint32, s *probes.ThreadState, now uint64) {
		if x != tid {
			return
		}
		missed = *s
		missed.Clock.State = uint32(bpf.IngeroWaitStateWAIT_RUNNABLE)
		missed.Clock.Queued = 0
		missed.Clock.Since = now
		missed.Clock.BlockedSince = now - uint64(blocked)
	}); err != nil {
		t.Fatal(err)
	}
	if err := tr.SetThread(tid, &missed); err != nil {
		t.Fatal(err)
	}
	return int64(missed.Clock.BlockedSince)
}

// blocks reports whether a thread is blocked, by the ledger.
func blocks(t *testing.T, tr *probes.Tracer, tid uint32) (is bool) {
	t.Helper()
	if err := tr.Threads(func(x uint32, s *probes.ThreadState, _ uint64) {
		is = is || x == tid && s.Clock.State == uint32(bpf.IngeroWaitStateWAIT_BLOCKED)
	}); err != nil {
		t.Fatal(err)
	}
	return is
}

// drainWaits returns the waits that have arrived, with times of CLOCK_MONOTONIC.
func drainWaits(t *testing.T, tr *probes.Tracer) []events.Wait {
	t.Helper()
	var batch tick.Batch
	tr.Drain(1<<30, func(b []byte) {
		if err := decode.Record(&batch, b, decode.Clock{}); err != nil {
			t.Error(err)
		}
	})
	return batch.Waits
}
