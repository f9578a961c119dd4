package session_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/track"
	"ingero/pkg/events"
	"ingero/sim"
)

// keeper is a sink that keeps the calls of a process.
type keeper struct {
	calls []events.Call
	last  *tick.Tick
}

func (k *keeper) Batch(b *tick.Batch) error { k.calls = append(k.calls, b.Calls...); return nil }
func (k *keeper) Tick(t *tick.Tick) error   { k.last = t; return nil }
func (k *keeper) Close() error              { return nil }

// runMemory traces random allocations and frees, and returns the process, all its calls, and a file
// of the driver's state after each operation.
func runMemory(t *testing.T, args string) (pid uint32, calls []events.Call, truth *bufio.Scanner) {
	t.Helper()
	testkit.NeedBPF(t)
	dir := t.TempDir()
	s, err := sim.Extract(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "truth")
	// Written to a file, so that a failing test does not print it.
	cmd := exec.Command("sh", "-c", `exec "$0" `+args+` --every 1 --hold >"$1"`, s.Program("memory"), path)
	cmd.Env = append(os.Environ(), "INGERO_SIM_ZERO=1", "INGERO_SIM_DEVICES=2", "INGERO_SIM_FAIL=cudaMalloc:500+=2,cuMemAllocAsync:900=2")
	child := testkit.Start(t, cmd)
	testkit.Eventually(t, "the program to be ready", func() bool { b, err := os.ReadFile(path); return err == nil && len(b) > 6 })
	var kept keeper
	live, err := session.OpenLive(t.Context(), session.LiveOptions{Select: pids(child),
		// Keep all records, however late they are read.
		Probes: probes.Options{Rows: memoryRows(), SamplingRate: 1, RingBytes: 128 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- session.Run(t.Context(), session.Config{Source: live, Sinks: []tick.Sink{&kept}, Interval: 50 * time.Millisecond})
	}()
	child.Send("")
	if err := errors.Join(child.Wait(), <-done); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	truth = bufio.NewScanner(f)
	truth.Buffer(nil, 1<<16)
	truth.Scan() // skips the line that says it is ready
	return uint32(child.PID()), kept.calls, truth
}

// After each of 20,000 allocations and frees, some of which fail, the tracked memory equals the
// driver's own figure.
func TestMemoryAtEachStep(t *testing.T) {
	t.Parallel()
	memoryAtEachStep(t, 20_000)
}

func memoryAtEachStep(t *testing.T, steps int) {
	t.Helper()
	const perStep = 24 // calls: an operation has up to eight, and chooses a device
	pid, calls, truth := runMemory(t, fmt.Sprintf("--ops %d --seed 3 --devices 2", steps))
	all, failed := len(calls), 0
	r := &running{collector: &collector{}}
	ledger := track.New()
	for n := 1; n <= steps; n++ {
		var says struct {
			Truth   int
			Devices []map[string]driverMemory
		}
		if !truth.Scan() || json.Unmarshal(truth.Bytes(), &says) != nil || says.Truth != n {
			t.Fatalf("operation %d: %q, %v", n, truth.Text(), truth.Err())
		}
		off := "no more calls"
		for i := 0; i < min(perStep, len(calls)) && off != ""; i++ {
			ledger.Batch(calls[i:i+1], nil)
			r.last = &tick.Tick{States: ledger.Tick(nil, nil)}
			if calls[i].Result != 0 {
				failed++
			}
			if off = differs(r, pid, says.Devices); off == "" {
				calls = calls[i+1:]
			}
		}
		if off != "" {
			t.Fatalf("operation %d: %s", n, off)
		}
	}
	if failed < steps/100 {
		t.Errorf("%d calls failed: that is no test of errors", failed)
	}
	t.Logf("%d operations, %d calls, %d of them failed", steps, all-len(calls), failed)
}
