package probes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/probes"
	"ingero/internal/testkit"
)

// byProcess returns the calls of each process, by PID; 0: of processes without room in the table.
func byProcess(t *testing.T, tr *probes.Tracer) map[uint32]account {
	t.Helper()
	got := map[uint32]account{}
	if err := tr.Counts(func(c *probes.CountsRow) {
		got[c.PID] = account{Calls: c.Calls, Done: c.Done, Abandoned: c.Abandoned}
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// While the table of counts is full, each call counts as dropped. Later calls of the same threads have
// their process again.
func TestCountsFull(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := leverProgram(t)
	const calls, threads = 40, 4 // in a round
	tr := tracer(t, probes.Options{Rows: libraryRows(testkit.OpRows("cudaStreamSynchronize"))})
	free, err := tr.TakeFreeSlots()
	if err != nil || len(free) < threads {
		t.Fatalf("%d slots are free, %v", len(free), err)
	}
	child, _ := traced(t, tr, library, program)
	for _, round := range []struct{ others, own uint64 }{{calls, 0}, {calls, calls}} {
		if round.own > 0 {
			for _, slot := range free[:threads] { // each thread takes one before it sees another's
				if err := tr.FreeSlot(slot); err != nil {
					t.Fatal(err)
				}
			}
		}
		child.Send("")
		launched(child)
		want := map[uint32]account{0: {Calls: round.others, Done: round.others}}
		if round.own > 0 {
			want[uint32(child.PID())] = account{Calls: round.own, Done: round.own}
		}
		if diff := cmp.Diff(want, byProcess(t, tr)); diff != "" {
			t.Errorf("counts by process (-want +got):\n%s", diff)
		}
		if n := dropped(t, tr)["too-many-counters"]; n != round.others {
			t.Errorf("%d calls have no process, want %d", n, round.others)
		}
	}
}

// The end of a call counts where the call began, also if its process has got room meanwhile.
func TestCountsFullAtEntry(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	tr, child, _ := startHarm(t, "", library, program, "longjmp-inside", "cudaStreamSynchronize")
	free, err := tr.TakeFreeSlots()
	if err != nil || len(free) == 0 {
		t.Fatalf("%d slots are free, %v", len(free), err)
	}
	child.Send("")
	child.Line("inside")
	if err := tr.FreeSlot(free[0]); err != nil {
		t.Fatal(err)
	}
	child.Send("")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	want := map[uint32]account{0: {Calls: 2, Done: 1, Abandoned: 1}, uint32(child.PID()): {Calls: 1, Done: 1}}
	if diff := cmp.Diff(want, byProcess(t, tr)); diff != "" {
		t.Errorf("counts by process (-want +got):\n%s", diff)
	}
}
