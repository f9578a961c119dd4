package probes_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// When the ring fills, NVTX calls leave half of it to CUDA calls, and dropped ones are counted.
func TestRangesLeaveRoom(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	s, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const ring, steps = 64 << 10, 40
	tr := tracer(t, probes.Options{RingBytes: ring, SamplingRate: 1, NoLedger: true})
	child := testkit.Start(t, exec.Command(s.Program("train"), "--hold", "--nvtx", "step", "--launches", "1", "--steps", "40"))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	attach(t, tr, s.Libcudart, events.LibCudart)
	attach(t, tr, filepath.Join(s.Dir, "libnvToolsExt.so.1"), events.LibNVTX)
	child.Send("")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	var b tick.Batch
	tr.Drain(1<<30, func(r []byte) {
		if err := decode.Record(&b, r, decode.Clock{}); err != nil {
			t.Error(err)
		}
	})
	syncs := 0
	for i := range b.Calls {
		if b.Calls[i].Op.Row().Class == events.ClassSync {
			syncs++
		}
	}
	d := dropped(t, tr)
	const made = 10 * steps // two ends of five ranges
	if left := d["range-left-out"]; left == 0 || left+uint64(len(b.Ranges)) < made-2 || left+uint64(len(b.Ranges)) > made+2 || len(b.Ranges) > ring/2/264+1 {
		t.Errorf("%d calls of NVTX recorded, %d left out, of about %d", len(b.Ranges), left, made)
	}
	if syncs != steps || d["ring-full"] > 0 {
		t.Errorf("%d waits for the GPU recorded, %d records dropped; want all %d", syncs, d["ring-full"], steps)
	}
	for i := range b.Ranges {
		if r := &b.Ranges[i]; r.Flags&tick.RangeUnaccounted == 0 {
			t.Errorf("without a ledger: flags %x", r.Flags)
		}
	}
}
