//go:build measure

package probes_test

import (
	"os/exec"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// While the ring is read, fast calls are left out first, failed and slow ones last; what is
// left out is made up for by weights, and the counts know nothing of it. The program is as
// fast as the machine lets it be, and so is the reader.
func TestThinningBesideAReader(t *testing.T) {
	testkit.NeedBPF(t)
	library, program := harm(t)
	const ring, total = 256 << 10, 20 * 2000
	tr := tracer(t, probes.Options{RingBytes: ring, Rows: rowsNamed(t, "cudaStreamSynchronize", "cudaEventSynchronize")})
	child := testkit.Start(t, exec.Command(program, "pressure=40000"))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	if err := tr.SetSlow(0, 100*time.Microsecond); err != nil {
		t.Fatal(err)
	}
	attach(t, tr, library, events.LibCudart)
	child.Say("go")
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	var saw sampled
	peak := uint64(0)
	for over := false; !over; { // the ring is kept between a half and three quarters full, if this gets a CPU in time
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		default:
			used := tr.Used()
			if peak = max(peak, used); used > ring/8*5 {
				tr.Drain(20, saw.take)
			}
		}
	}
	tr.Drain(1<<30, saw.take)
	if a := accounts(t, tr)["cudaStreamSynchronize"]; a.Calls != total || a.Done != total {
		t.Errorf("counted %d calls and %d returns, want %d", a.Calls, a.Done, total)
	}
	drops := dropped(t, tr)
	if drops["thinned"] == 0 || saw.fast+saw.failed+saw.slow == total {
		t.Fatalf("nothing was left out: %v; the ring was not under pressure", drops)
	}
	if lost := drops["ring-full"]; lost > 0 || saw.bad > 0 {
		t.Errorf("%d records lost to a full ring, %d malformed", lost, saw.bad)
	}
	// Beyond seven eighths, which a CPU that others have lets it reach, those are thinned too.
	if peak <= ring/8*7 && (saw.failed != total/100 || saw.slow < total/100) {
		t.Errorf("%d failed and %d slow calls have records, want all of the %d each", saw.failed, saw.slow, total/100)
	}
	if saw.weight < total*8/10 || saw.weight > total*12/10 {
		t.Errorf("the records stand for %d calls, want about %d", saw.weight, total)
	}
}
