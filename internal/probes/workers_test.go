package probes_test

import (
	"os/exec"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// Workers of the same job are enrolled at once, also where many take turns: grandchildren as of
// Python's fork server, and any descendants that are traced.
func TestWorkersInTurns(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := polls(t, "workers")
	for _, x := range []struct {
		name, depth string
		target      probes.Target
	}{
		{"grandchildren", "2", probes.Target{}},
		{"traced descendants", "3", probes.Target{Follow: true}},
	} {
		t.Run(x.name, func(t *testing.T) {
			tr := tracer(t, probes.Options{Rows: libraryRows(testkit.OpRows("cudaEventQuery")), AllWaits: true})
			attach(t, tr, library, events.LibCudart)
			child := testkit.Start(t, exec.Command(program, x.depth, "3"))
			child.Line("ready")
			if err := tr.Trace(uint32(child.PID()), x.target); err != nil {
				t.Fatal(err)
			}
			child.Send("go")
			child.Line("done")
			if n := countEnrolled(t, tr); n != 8 {
				t.Errorf("%d of 8 workers are enrolled", n)
			}
			child.Send("")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A child that ended a wait before it executed another program is still enrolled: what that program does explains
// further waits for it.
func TestWorkerExecutes(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := polls(t, "newprogram")
	tr := tracer(t, probes.Options{Rows: libraryRows(testkit.OpRows("cudaEventQuery")), AllWaits: true})
	attach(t, tr, library, events.LibCudart)
	child := testkit.Start(t, exec.Command(program))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{Follow: true}); err != nil {
		t.Fatal(err)
	}
	child.Send("go")
	child.Line("done")
	if n := countEnrolled(t, tr); n != 1 {
		t.Errorf("%d processes are enrolled, want the child", n)
	}
	child.Send("")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}

// countEnrolled returns the number of threads that are enrolled because a traced thread waited for them.
func countEnrolled(t *testing.T, tr *probes.Tracer) (n int) {
	t.Helper()
	if err := tr.Threads(func(_ uint32, s *probes.ThreadState, _ uint64) {
		if s.Clock.Hop == 1 {
			n++
		}
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
