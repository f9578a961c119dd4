package session_test

import (
	"bufio"
	"encoding/json"
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

// 100,000 allocations and frees, some of which must fail: what is held by the ledger is
// what the driver itself says after each of them.
func TestMemoryAtEachStep(t *testing.T) {
	testkit.NeedBPF(t)
	dir := t.TempDir()
	s, err := sim.Extract(dir)
	if err != nil {
		t.Fatal(err)
	}
	const steps, perStep = 100_000, 24 // calls: an operation has up to eight, and a device is chosen
	path := filepath.Join(dir, "truth")
	truth, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = truth.Close() }()
	// The file has all of it: a test that fails shall not print that.
	cmd := exec.Command("sh", "-c", `exec "$0" --ops 100000 --every 1 --seed 3 --devices 2 --hold >"$1"`, s.Program("memory"), path)
	cmd.Env = append(os.Environ(), "INGERO_SIM_ZERO=1", "INGERO_SIM_DEVICES=2", "INGERO_SIM_FAIL=cudaMalloc:500+=2,cuMemAllocAsync:900=2")
	child := testkit.Start(t, cmd)
	testkit.Eventually(t, "the program to be ready", func() bool { b, err := os.ReadFile(path); return err == nil && len(b) > 6 })
	var kept keeper
	live, err := session.OpenLive(t.Context(), session.LiveOptions{Probes: probes.Options{Rows: memoryRows()}, Select: pids(child)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- session.Run(t.Context(), session.Config{Source: live, Sinks: []tick.Sink{&kept}, Interval: 50 * time.Millisecond})
	}()
	child.Say("")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	r := &running{collector: &collector{}}
	ledger := track.New()
	lines := bufio.NewScanner(truth)
	lines.Buffer(nil, 1<<16)
	lines.Scan() // it was ready
	calls, errors := kept.calls, 0
	for n := 1; n <= steps; n++ {
		var says struct {
			Truth   int
			Devices []map[string]driverMemory
		}
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &says) != nil || says.Truth != n {
			t.Fatalf("operation %d: %q, %v", n, lines.Text(), lines.Err())
		}
		off := "no more calls"
		for range min(perStep, len(calls)) {
			r.last = &tick.Tick{}
			ledger.Batch(&tick.Batch{Calls: calls[:1]})
			ledger.Tick(r.last)
			if calls[0].Result != 0 {
				errors++
			}
			calls = calls[1:]
			if off = differs(r, uint32(child.PID()), says.Devices); off == "" {
				break
			}
		}
		if off != "" {
			t.Fatalf("operation %d: %s", n, off)
		}
	}
	if errors < 1000 {
		t.Errorf("%d calls failed: that is no test of errors", errors)
	}
	t.Logf("%d operations, %d calls, %d of them failed", steps, len(kept.calls)-len(calls), errors)
}
