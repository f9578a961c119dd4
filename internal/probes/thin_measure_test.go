//go:build measure

package probes_test

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// While the rings are read, fast calls are thinned, but not failed and slow ones; weights make up
// for thinned calls, and counts are exact. The program and the reader run as fast as the machine
// allows.
func TestThinningBesideAReader(t *testing.T) {
	testkit.NeedBPF(t)
	library, program := harm(t)
	const ring, total = 256 << 10, 20 * 2000
	rows := append(ordinary(t, "cudaStreamSynchronize"), testkit.OpRows("cudaEventSynchronize")...)
	tr := tracer(t, probes.Options{RingBytes: ring, Rows: rows})
	child := testkit.Start(t, exec.Command(program, "pressure=40000"))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	if err := tr.SetSlow(0, 100*time.Microsecond); err != nil {
		t.Fatal(err)
	}
	attach(t, tr, library, events.LibCudart)
	child.Send("go")
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	var saw sampled
	for over := false; !over; { // keeps the ring between half and three quarters full, if this gets a CPU in time
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		default:
			if tr.Used() > ring/8*5 {
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
	if lost := drops["ring-full"] + drops["kept-ring-full"]; lost > 0 || saw.bad > 0 {
		t.Errorf("%d records lost to a full ring, %d malformed", lost, saw.bad)
	}
	if saw.failed != total/100 || saw.slow < total/100 {
		t.Errorf("%d failed and %d slow calls have records, want all of the %d each", saw.failed, saw.slow, total/100)
	}
	if saw.weight < total*8/10 || saw.weight > total*12/10 {
		t.Errorf("the records stand for %d calls, want about %d", saw.weight, total)
	}
}

// Each call that a program makes at full speed has a record or counts as a drop, with a reader
// like a session's: when a ring is half full, or every 16 ms.
func TestKeptCallsBesideAReader(t *testing.T) {
	testkit.NeedBPF(t)
	library, program := harm(t)
	const total = 1_000_000
	for _, programs := range []int{1, 2, 4} {
		tr := tracer(t, probes.Options{Rows: testkit.OpRows("cudaStreamSynchronize")})
		pressed := make(chan struct{}, 1)
		go func() {
			for tr.WaitPressure() == nil {
				select {
				case pressed <- struct{}{}:
				default:
				}
			}
		}()
		attach(t, tr, library, events.LibCudart)
		ended := make(chan error, programs)
		var children []*testkit.Child
		for range programs {
			child := testkit.Start(t, exec.Command(program, fmt.Sprint("fast=", total/programs)))
			child.Line("ready")
			if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
				t.Fatal(err)
			}
			children = append(children, child)
		}
		began := time.Now()
		for _, child := range children {
			child.Send("go")
			go func() { ended <- child.Wait() }()
		}
		var saw sampled
		var took, reading time.Duration
		for left := programs; left > 0; {
			select {
			case err := <-ended:
				if err != nil {
					t.Fatal(err)
				}
				left--
				took = time.Since(began)
			case <-pressed:
			case <-time.After(16 * time.Millisecond):
			}
			at := time.Now()
			tr.Drain(1<<30, saw.take)
			reading += time.Since(at)
		}
		if err := tr.StopLives(); err != nil {
			t.Fatal(err)
		}
		kept, drops := saw.fast+saw.slow+saw.failed, dropped(t, tr)
		t.Logf("%d programs: %.0f calls a second, of %d have %d records, %d dropped; reading took %.0f ns a record",
			programs, float64(total)/took.Seconds(), total, kept, drops["kept-ring-full"], float64(reading.Nanoseconds())/float64(kept))
		if kept+drops["kept-ring-full"] != total || saw.bad > 0 {
			t.Errorf("%d records, %d malformed, left out %v, of %d calls", kept, saw.bad, drops, total)
		}
	}
}
