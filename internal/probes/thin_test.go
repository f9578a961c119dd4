package probes_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// sampled counts the records that were kept.
type sampled struct{ fast, failed, slow, weight, bad uint64 }

func (s *sampled) take(b []byte) {
	var batch tick.Batch
	if err := decode.Record(&batch, b, decode.Clock{}); err != nil {
		s.bad++
		return
	}
	for _, c := range batch.Calls {
		s.weight += uint64(c.Weight)
		switch {
		case c.Flags&events.CallFailed != 0:
			s.failed++
		case c.Duration >= 100_000:
			s.slow++
		default:
			s.fast++
		}
	}
}

// Under pressure fast calls are left out first, failed and slow ones last; what
// is left out is made up for by weights, and the counts know nothing of it.
func TestThinningKeepsWhatMatters(t *testing.T) {
	testkit.NeedBPF(t)
	library, program := harm(t)
	const ring, total = 256 << 10, 20 * 2000
	tr := tracer(t, probes.Options{RingBytes: ring, Rows: rowsNamed(t, "cudaStreamSynchronize", "cudaEventSynchronize")})
	child := testkit.Start(t, exec.Command(program, "pressure"))
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

// A reader that sleeps is woken once the ring is half full, and not before.
func TestPressureWakes(t *testing.T) {
	testkit.NeedBPF(t)
	library, program := harm(t)
	const ring = 64 << 10
	tr := tracer(t, probes.Options{RingBytes: ring, Rows: rowsNamed(t, "cudaStreamSynchronize")})
	child := testkit.Start(t, exec.Command(program, "pressure"))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	attach(t, tr, library, events.LibCudart)
	child.Say("go")
	early := 0
	for i := range 10 {
		if err := tr.WaitPressure(); err != nil {
			t.Fatal(err)
		}
		if used := tr.Used(); used < ring/2 && i > 0 { // the first tells of a ring that can be read
			early++
		}
		tr.Drain(1<<30, func([]byte) {})
	}
	if early > 2 { // one may be sent while the ring is being drained
		t.Errorf("%d of 10 wake-ups came before the ring was half full", early)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := tr.StopLives(); err != nil {
		t.Fatal(err)
	}
	for err := error(nil); !errors.Is(err, os.ErrClosed); { // a wake-up may be left
		err = tr.WaitPressure()
	}
}

// A fixed rate keeps one record in so many, whatever it tells.
func TestFixedRate(t *testing.T) {
	testkit.NeedBPF(t)
	library, program := harm(t)
	for rate, want := range map[int][2]uint64{1: {100, 100}, 8: {0, 60}} {
		tr := tracer(t, probes.Options{SamplingRate: rate, Rows: rowsNamed(t, "cudaStreamSynchronize")})
		child := testkit.Start(t, exec.Command(program, "calls"))
		child.Line("ready")
		if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
			t.Fatal(err)
		}
		attach(t, tr, library, events.LibCudart)
		child.Say("go")
		if err := child.Wait(); err != nil {
			t.Fatal(err)
		}
		saw := drain(t, tr)
		if n := uint64(len(saw)); n < want[0] || n > want[1] || n+dropped(t, tr)["thinned"] != 100 {
			t.Errorf("rate %d: %d records and %d left out, want %d to %d of 100", rate, n, dropped(t, tr)["thinned"], want[0], want[1])
		}
		for _, c := range saw {
			if int(c.Weight) != rate {
				t.Errorf("rate %d: a record stands for %d calls", rate, c.Weight)
			}
		}
	}
}
