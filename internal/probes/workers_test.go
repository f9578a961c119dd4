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
			tr := tracer(t, probes.Options{Rows: libraryRows(rowsNamed(t, "cudaEventQuery")), AllWaits: true})
			attach(t, tr, library, events.LibCudart)
			child := testkit.Start(t, exec.Command(program, x.depth, "3"))
			child.Line("ready")
			if err := tr.Trace(uint32(child.PID()), x.target); err != nil {
				t.Fatal(err)
			}
			child.Send("go")
			child.Line("done")
			enrolled := 0
			if err := tr.Threads(func(_ uint32, s *probes.ThreadState, _ uint64) {
				if s.Clock.Hop == 1 {
					enrolled++
				}
			}); err != nil {
				t.Fatal(err)
			}
			if enrolled != 8 {
				t.Errorf("%d of 8 workers are enrolled", enrolled)
			}
			child.Send("")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
