package probes_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

const (
	outer = "cudaLaunchKernel"
	inner = "cuLaunchKernel"
)

// leverProgram builds the program that launches through two layers, and its library.
func leverProgram(t *testing.T) (library, program string) {
	t.Helper()
	dir := t.TempDir()
	library, program = filepath.Join(dir, "liblever.so"), filepath.Join(dir, "lever")
	gcc(t, "-O2", "-shared", "-fPIC", "-o", library, "testdata/lever_lib.c")
	gcc(t, "-O1", "-o", program, "testdata/lever.c", "-L"+dir, "-llever", "-Wl,-rpath,"+dir, "-pthread")
	return library, program
}

// launcher starts the program that launches through two layers, traced.
func launcher(t *testing.T, mode probes.Mode) (*probes.Tracer, *testkit.Child) {
	t.Helper()
	library, program := leverProgram(t)
	tr := tracer(t, probes.Options{Mode: mode, Rows: libraryRows(testkit.OpRows(outer, inner, "cudaStreamSynchronize"))})
	child := testkit.Start(t, exec.Command(program))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	attach(t, tr, library, events.LibCudart)
	return tr, child
}

func lever(t *testing.T, tr *probes.Tracer, child *testkit.Child, on bool) {
	t.Helper()
	if err := tr.LaunchesEntryOnly(uint32(child.PID()), on); err != nil {
		t.Fatal(err)
	}
}

// launched waits until the program is done and returns its launches so far.
func launched(child *testkit.Child) (n uint64) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(child.Line("launched"), "launched "), "%d", &n)
	return n
}

// Each switch takes effect at the next launch of existing threads.
func TestLaunchesEntryOnly(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			tr, child := launcher(t, mode)
			watched, counted := uint64(0), uint64(0)
			for round, on := range []bool{false, true, true, false, true, false} {
				lever(t, tr, child, on)
				child.Send("")
				n := launched(child) - watched - counted
				if n != 400 {
					t.Fatalf("round %d: %d launches, want 400", round, n)
				}
				if on {
					counted += n
				} else {
					watched += n
				}
				got := accounts(t, tr)
				total := watched + counted
				delete(got, "cudaStreamSynchronize")
				want := map[string]account{outer: {Calls: total, Done: watched, Unmeasured: counted},
					inner: {Calls: total, Unmeasured: total, Nested: total}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("after round %d (-want +got):\n%s", round, diff)
				}
			}
			for _, c := range drain(t, tr) {
				if c.Op.String() == inner && c.Parent.String() != outer || c.Op.String() == outer && c.Parent != 0 {
					t.Fatalf("%v has the parent %v", c.Op, c.Parent)
				}
			}
			if d := dropped(t, tr); len(d) > 0 {
				t.Errorf("drops: %v", d)
			}
		})
	}
}

// With switches while all threads launch, no call is lost, counted twice, left open or mistaken for
// another.
func TestLaunchesEntryOnlyUnderLoad(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			tr, child := launcher(t, mode)
			child.Send("l")
			child.Line("loaded")
			seen := func() uint64 { return accounts(t, tr)[outer].Calls }
			for on, last := true, uint64(0); last < 20_000; on = !on {
				lever(t, tr, child, on)
				from := seen()
				testkit.Eventually(t, "more launches", func() bool { last = seen(); return last > from+50 })
				drain(t, tr)
			}
			child.Send("")
			total := launched(child)
			got := accounts(t, tr)
			o, i := got[outer], got[inner]
			if o.Calls != total || o.Done+o.Unmeasured != total || o.Done == 0 || o.Unmeasured == 0 || o.Nested+o.Abandoned > 0 {
				t.Errorf("%d launches of the runtime: %+v", total, o)
			}
			if i.Calls != total || i.Done+i.Unmeasured != total || i.Nested != total || i.Abandoned > 0 {
				t.Errorf("%d launches of the driver: %+v", total, i)
			}
			if s := got["cudaStreamSynchronize"]; s.Calls != s.Done || s.Nested > 0 {
				t.Errorf("synchronisations: %+v", s)
			}
			for reason, n := range dropped(t, tr) {
				if reason != "thinned" && reason != "wait-left-out" && reason != "ring-full" {
					t.Errorf("%d drops for %s", n, reason)
				}
			}
		})
	}
}
