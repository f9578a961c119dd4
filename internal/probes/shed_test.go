package probes_test

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// shedder is a program whose launches and synchronizations are traced.
type shedder struct {
	t        *testing.T
	tr       *probes.Tracer
	child    *testkit.Child
	attached *probes.Attached
}

func newShedder(t *testing.T, o probes.Options) *shedder {
	t.Helper()
	testkit.NeedBPF(t)
	library, program := leverProgram(t)
	o.Rows = libraryRows(testkit.OpRows(outer, "cudaStreamSynchronize"))
	s := &shedder{t: t, tr: tracer(t, o), child: testkit.Start(t, exec.Command(program))}
	s.child.Line("ready")
	if err := s.tr.Trace(uint32(s.child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	// By the inspected file, whatever is at its path by then.
	if s.attached, err = s.tr.Attach(probes.Object{Path: "/nonexistent", Name: library, File: f, Lib: events.LibCudart}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.attached.Close() })
	return s
}

// round makes the program call, and returns the counts and the records.
func (s *shedder) round() (map[string]account, []events.Call) {
	s.t.Helper()
	before := accounts(s.t, s.tr)
	s.child.Send("")
	launched(s.child)
	got := accounts(s.t, s.tr)
	for name, a := range got {
		was := before[name]
		got[name] = account{Calls: a.Calls - was.Calls, Done: a.Done - was.Done, Unmeasured: a.Unmeasured - was.Unmeasured}
	}
	return got, drain(s.t, s.tr)
}

func (s *shedder) shed(x probes.Shed) {
	s.t.Helper()
	if err := s.tr.Shed(x); err != nil {
		s.t.Fatal(err)
	}
}

// Exactly the selected features are shed, at once, and all return afterwards; counts are exact all
// the time.
func TestShed(t *testing.T) {
	t.Parallel()
	withStack := func(calls []events.Call) (n int) {
		for i := range calls {
			if calls[i].Stack != 0 {
				n++
			}
		}
		return n
	}
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			s := newShedder(t, probes.Options{Mode: mode, Stacks: probes.StacksAll})
			all, calls := s.round()
			n, syncs := all[outer].Calls, all["cudaStreamSynchronize"].Calls
			if n == 0 || syncs == 0 || len(calls) != int(n+syncs) || withStack(calls) != len(calls) {
				t.Fatalf("%+v, %d records, %d with a stack", all, len(calls), withStack(calls))
			}
			for _, tt := range []struct {
				name string
				shed probes.Shed
				ok   func(calls []events.Call) bool
			}{
				{"rare stacks", probes.Shed{RareStacks: true}, func(c []events.Call) bool { return withStack(c) < len(c) }},
				{"no stacks", probes.Shed{NoStacks: true}, func(c []events.Call) bool { return withStack(c) == 0 }},
				{"no Python", probes.Shed{NoPython: true}, func(c []events.Call) bool { return withStack(c) == len(c) }},
				{"thin", probes.Shed{Thin: 6}, func(c []events.Call) bool { return len(c) < int(n)/4 }},
				{"no host", probes.Shed{NoHost: true}, func(c []events.Call) bool { return len(c) == int(n+syncs) }},
				{"nothing", probes.Shed{}, func(c []events.Call) bool { return len(c) == int(n+syncs) && withStack(c) == len(c) }},
			} {
				s.shed(tt.shed)
				got, calls := s.round()
				if got[outer].Calls != n || got[outer].Done != n || got["cudaStreamSynchronize"].Calls != syncs || !tt.ok(calls) {
					t.Errorf("%s: %+v, want %d calls, all timed; %d records, %d with a stack", tt.name, got, n, len(calls), withStack(calls))
				}
			}
		})
	}
}

// Probes of single functions come and go; those of the others see each call once.
func TestSetDetached(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			s := newShedder(t, probes.Options{Mode: mode})
			all, _ := s.round()
			n, syncs := all[outer].Calls, all["cudaStreamSynchronize"].Calls
			row := slices.IndexFunc(s.tr.Rows(), func(r events.Row) bool { return r.Name == outer })
			for i, tt := range []struct {
				detached map[int]bool
				want     uint64
			}{{map[int]bool{row: true}, 0}, {nil, n}, {map[int]bool{row: true}, 0}, {nil, n}} {
				if err := s.attached.SetDetached(tt.detached); err != nil {
					t.Fatal(err)
				}
				check := func() uint64 {
					got, _ := s.round()
					if n := got["cudaStreamSynchronize"].Calls; n != syncs {
						t.Errorf("change %d: %d other calls, want %d", i, n, syncs)
					}
					return got[outer].Calls
				}
				if tt.detached != nil { // a process that another test starts holds the links until its exec has closed them
					testkit.Eventually(t, "the probes to be gone", func() bool { return check() == 0 })
				}
				if got := check(); got != tt.want {
					t.Errorf("change %d: %d launches, want %d", i, got, tt.want)
				}
			}
			d := dropped(t, s.tr)
			delete(d, "orphan-return") // of calls while the links go, the entry first
			if len(d) > 0 {
				t.Errorf("drops: %v", d)
			}
		})
	}
}

// The cost of tracepoints is measured, and the kernel stops timing programs at the end.
func TestWeigh(t *testing.T) {
	t.Parallel()
	s := newShedder(t, probes.Options{})
	w, err := s.tr.Measure()
	if err != nil {
		t.Fatal(err)
	}
	s.round()
	host, ledger, err := w.End()
	if cpus := float64(runtime.NumCPU()); err != nil || host < 0 || host > cpus || ledger <= 0 || ledger > cpus {
		t.Errorf("host %v, ledger %v of a CPU, %v", host, ledger, err)
	}
}
