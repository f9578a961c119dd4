package probes_test

import (
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// harm builds the library, and the program that leaves its calls in every way.
func harm(t *testing.T) (library, program string) {
	t.Helper()
	testkit.NeedTool(t, "gcc", testkit.CXX)
	dir := t.TempDir()
	library, program = filepath.Join(dir, "libharm.so"), filepath.Join(dir, "harm")
	for _, args := range [][]string{
		{"gcc", "-O2", "-foptimize-sibling-calls", "-fexceptions", "-shared", "-fPIC", "-Wl,-Bsymbolic-functions", "-o", library, "testdata/harm_lib.c"},
		{testkit.CXX, "-O1", "-o", program, "testdata/harm.cc", "-L" + dir, "-lharm", "-Wl,-rpath," + dir, "-pthread"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return library, program
}

// startHarm starts the program, and traces its calls of some functions.
func startHarm(t *testing.T, mode probes.Mode, library, program, does string, functions ...string) (*probes.Tracer, *testkit.Child, *probes.Attached) {
	t.Helper()
	tr := tracer(t, probes.Options{Mode: mode, Rows: testkit.OpRows(functions...)})
	child := testkit.Start(t, exec.Command(program, does))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	return tr, child, attach(t, tr, library, events.LibCudart)
}

// account is the kernel's count of one operation, summed over processes.
type account struct{ Calls, Done, Abandoned, Unmeasured, Nested uint64 }

// since returns the difference to an earlier count.
func (a account) since(was account) account {
	return account{a.Calls - was.Calls, a.Done - was.Done, a.Abandoned - was.Abandoned, a.Unmeasured - was.Unmeasured, a.Nested - was.Nested}
}

func accounts(t testing.TB, tr *probes.Tracer) map[string]account {
	t.Helper()
	out := map[string]account{}
	if err := tr.Counts(func(c *probes.CountsRow) {
		name := tr.Rows()[c.Row].Name
		a := out[name]
		a.Calls += c.Calls
		a.Done += c.Done
		a.Abandoned += c.Abandoned
		a.Unmeasured += c.Unmeasured
		a.Nested += c.Nested
		out[name] = a
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// threads returns the number of threads with state in the kernel.
func threads(t testing.TB, tr *probes.Tracer) (n int) {
	t.Helper()
	if err := tr.Threads(func(uint32, *probes.ThreadState, uint64) { n++ }); err != nil {
		t.Fatal(err)
	}
	return n
}

// dropped returns the nonzero drops.
func dropped(t testing.TB, tr *probes.Tracer) map[string]uint64 {
	t.Helper()
	drops, err := tr.Drops()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, d := range drops {
		if d.Count > 0 && !testkit.HasNoAccount(d.Reason) {
			out[d.Reason] = d.Count
		}
	}
	return out
}

// harmful is a way to leave a call, with the expected counts.
type harmful struct {
	how     string
	want    map[string]account
	records int // of measured calls
	drops   map[string]uint64
}

// A traced process survives whatever it does in a call, and leaves no wrong count or record behind.
func TestDoNoHarm(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	const sync, host = "cudaStreamSynchronize", "cudaLaunchHostFunc"
	for _, mode := range modes {
		tr := tracer(t, probes.Options{Mode: mode, Rows: testkit.OpRows(sync, host, "cudaDeviceSynchronize", "cudaEventSynchronize")})
		// Attach once: a closed link stays until all processes that inherited its descriptor have
		// closed it, including a child of another test between its fork and exec. Two perf links
		// would see each return twice.
		attach(t, tr, library, events.LibCudart)
		for _, tt := range []harmful{
			{how: "calls", want: map[string]account{sync: {Calls: 100, Done: 100}}, records: 100},
			{how: "longjmp", want: map[string]account{sync: {Calls: 200, Done: 100, Abandoned: 100}}, records: 100},
			{how: "longjmp-loop", want: map[string]account{sync: {Calls: 200, Done: 100, Abandoned: 100}}, records: 100},
			// The child returns from a call that it did not make.
			{how: "fork", want: map[string]account{sync: {Calls: 21, Done: 21}}, records: 21,
				drops: map[string]uint64{"orphan-return": 1}},
			{how: "exec", want: map[string]account{sync: {Calls: 101, Done: 100, Abandoned: 1}}, records: 100},
			{how: "pthread_exit", want: map[string]account{sync: {Calls: 10, Abandoned: 10}}},
			{how: "thread_gone", want: map[string]account{sync: {Calls: 10, Abandoned: 10}}},
			{how: "tail", want: map[string]account{"cudaDeviceSynchronize": {Calls: 100, Done: 100},
				"cudaEventSynchronize": {Calls: 100, Done: 100, Nested: 100}}, records: 200},
			{how: "throw", want: map[string]account{sync: {Calls: 100, Done: 100}, host: {Calls: 100, Unmeasured: 100}}, records: 100},
			{how: "seccomp", want: map[string]account{sync: {Calls: 100, Done: 100}}, records: 100},
		} {
			t.Run(tt.how+"/"+string(mode), func(t *testing.T) { tt.try(t, tr, program) })
		}
	}
}

// try makes a program leave its calls and compares the results. The tracer has seen other programs
// before.
func (h *harmful) try(t *testing.T, tr *probes.Tracer, program string) {
	counted, lost := accounts(t, tr), dropped(t, tr)
	child := testkit.Start(t, exec.Command(program, h.how))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{Follow: true}); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatalf("the target died: %v", err)
	}
	if !strings.Contains(child.Stdout(), "alive") {
		t.Error("the target did not get to its end")
	}
	took := time.Since(started)
	got := accounts(t, tr)
	for name, a := range got {
		if got[name] = a.since(counted[name]); got[name] == (account{}) {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(h.want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	drops := map[string]uint64{}
	for reason, n := range dropped(t, tr) {
		if n > lost[reason] {
			drops[reason] = n - lost[reason]
		}
	}
	want := map[string]uint64{}
	maps.Copy(want, h.drops)
	if diff := cmp.Diff(want, drops); diff != "" {
		t.Errorf("drops (-want +got):\n%s", diff)
	}
	measured := 0
	for _, c := range drain(t, tr) {
		if c.Flags&events.CallUnmeasured != 0 {
			continue
		}
		measured++
		if c.Duration < 0 || c.Duration > took.Nanoseconds() {
			t.Errorf("%v took %v, longer than the program", c.Op, time.Duration(c.Duration))
		}
	}
	if measured != h.records {
		t.Errorf("%d records of measured calls, want %d", measured, h.records)
	}
}

// The gap before a call starts at the return of the last outermost one, even if an inner call has
// returned since and the outer one never did.
func TestGapAfterALongjmp(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			tr, child, _ := startHarm(t, mode, library, program, "longjmp-gap", "cudaStreamSynchronize", "cudaEventSynchronize")
			child.Send("go")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			calls := drain(t, tr)
			last := calls[len(calls)-1]
			if last.Op.String() != "cudaStreamSynchronize" || last.Gap < 5e6 {
				t.Fatalf("the last call is %+v, want one after 5 ms", last)
			}
			// It was asleep in it, and the parts add up.
			if off := last.GapBlocked + last.GapRunnable; off == 0 || last.GapOnCPU+off != last.Gap {
				t.Errorf("a gap of %v: on a CPU for %v, blocked for %v, runnable for %v", time.Duration(last.Gap),
					time.Duration(last.GapOnCPU), time.Duration(last.GapBlocked), time.Duration(last.GapRunnable))
			}
		})
	}
}

// A process that is killed in a call leaves an open call behind, and no state.
func TestKilledInACall(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			tr, child, _ := startHarm(t, mode, library, program, "hang", "cudaStreamSynchronize")
			child.Send("go")
			child.Line("inside")
			want := map[string]account{"cudaStreamSynchronize": {Calls: 1}}
			if diff := cmp.Diff(want, accounts(t, tr)); diff != "" {
				t.Errorf("counts while it is open (-want +got):\n%s", diff)
			}
			child.Signal(syscall.SIGKILL)
			_ = child.Wait()
			want["cudaStreamSynchronize"] = account{Calls: 1, Abandoned: 1}
			testkit.Eventually(t, "the end of the process", func() bool { return !tr.Traced(uint32(child.PID())) })
			if diff := cmp.Diff(want, accounts(t, tr)); diff != "" {
				t.Errorf("counts after its end (-want +got):\n%s", diff)
			}
			if calls := drain(t, tr); len(calls) > 0 {
				t.Errorf("records of a call that did not return: %+v", calls)
			}
			if n := threads(t, tr); n != 0 {
				t.Errorf("state of %d threads is left", n)
			}
		})
	}
}

// While a thread is in a call, other functions' probes go and return, and the call's own are made anew.
// All calls are counted: those that follow from the same place, too.
func TestLinkedAnewInACall(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			tr, child, attached := startHarm(t, mode, library, program, "held", "cudaStreamSynchronize", "cudaLaunchHostFunc")
			other := slices.IndexFunc(tr.Rows(), func(r events.Row) bool { return r.Name == "cudaLaunchHostFunc" })
			for _, rows := range []map[int]bool{{other: true}, nil} {
				child.Send("")
				child.Line("inside")
				if err := attached.SetDetached(rows); err != nil {
					t.Fatal(err)
				}
			}
			child.Send("")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the end of the process", func() bool { return !tr.Traced(uint32(child.PID())) })
			if got := accounts(t, tr)["cudaStreamSynchronize"]; got.Calls != 6 || got.Done+got.Abandoned != 6 || got.Done < 4 {
				t.Errorf("%+v, want 6 calls, at most 2 of them abandoned", got)
			}
		})
	}
}

// A process without return probes keeps its own return addresses: its calls are counted without
// times. It may become such a process after it is traced, or all processes may lose their return probes.
func TestEntryOnlyTarget(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	const sync = "cudaStreamSynchronize"
	hows := map[string]func(tr *probes.Tracer, pid uint32, a *probes.Attached) error{
		"at first": func(tr *probes.Tracer, pid uint32, _ *probes.Attached) error {
			return tr.Trace(pid, probes.Target{EntryOnly: true})
		},
		"later": func(tr *probes.Tracer, pid uint32, _ *probes.Attached) error {
			return errors.Join(tr.Trace(pid, probes.Target{}), tr.CountOnly(pid))
		},
		"all": func(tr *probes.Tracer, pid uint32, a *probes.Attached) error {
			return errors.Join(tr.Trace(pid, probes.Target{}), tr.WatchNoReturns(), a.DropReturns())
		},
	}
	for x := range len(modes) * len(hows) {
		mode, how := modes[x%len(modes)], slices.Sorted(maps.Keys(hows))[x/len(modes)]
		t.Run(how+"/"+string(mode), func(t *testing.T) {
			tr := tracer(t, probes.Options{Mode: mode, Rows: testkit.OpRows(sync)})
			child := testkit.Start(t, exec.Command(program, "calls"))
			child.Line("ready")
			if err := hows[how](tr, uint32(child.PID()), attach(t, tr, library, events.LibCudart)); err != nil {
				t.Fatal(err)
			}
			child.Send("go")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]account{sync: {Calls: 100, Unmeasured: 100}}, accounts(t, tr)); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]uint64{}, dropped(t, tr)); diff != "" {
				t.Errorf("drops (-want +got):\n%s", diff)
			}
			for _, c := range drain(t, tr) {
				if c.Flags != events.CallUnmeasured || c.Duration != 0 {
					t.Fatalf("call %+v, want one whose times are unknown", c)
				}
			}
		})
	}
}
