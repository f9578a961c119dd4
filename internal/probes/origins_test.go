package probes_test

import (
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// twice is a program whose threads launch through the runtime and directly through the driver, with
// probes on both.
type twice struct {
	t       *testing.T
	tr      *probes.Tracer
	child   *testkit.Child
	runtime *probes.Attached
	rows    map[int]bool // of the runtime's launches
	out     bool
}

func newTwice(t *testing.T, mode probes.Mode) *twice {
	t.Helper()
	dir := t.TempDir()
	library, driver, program := dir+"/libruntime.so", dir+"/libdriver.so", dir+"/origins"
	for _, args := range [][]string{
		{"-O2", "-shared", "-fPIC", "-DDRIVER", "-o", driver, "testdata/origins_lib.c"},
		{"-O2", "-shared", "-fPIC", "-o", library, "testdata/origins_lib.c", driver, "-Wl,-rpath," + dir},
		{"-O1", "-o", program, "testdata/origins.c", library, driver, "-Wl,-rpath," + dir, "-pthread"},
	} {
		gcc(t, args...)
	}
	x := &twice{t: t, tr: tracer(t, probes.Options{Mode: mode, RingBytes: 32 << 20, SamplingRate: 1, Rows: testkit.OpRows(originNames...)}), rows: map[int]bool{}}
	for i, r := range x.tr.Rows() {
		if probes.Doubled(&r) {
			x.rows[i] = true
		}
	}
	x.child = testkit.Start(t, exec.Command(program))
	x.child.Line("ready")
	if err := x.tr.Trace(uint32(x.child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	attach(t, x.tr, driver, events.LibCuda)
	x.runtime = attach(t, x.tr, library, events.LibCudart)
	x.origins(probes.OriginsLearn)
	return x
}

var originNames = []string{outer, "cudaLaunchKernelExC", "cudaStreamSynchronize", inner, "cuLaunchKernelEx"}

func (x *twice) origins(to probes.Origins) {
	x.t.Helper()
	if err := x.tr.SetOrigins(to); err != nil {
		x.t.Fatal(err)
	}
}

// once detaches the runtime's probes, or attaches them again.
func (x *twice) once(out bool) {
	x.t.Helper()
	x.origins(probes.OriginsDerive)
	left := map[int]bool{}
	if out {
		left = x.rows
	}
	if err := x.runtime.SetDetached(left); err != nil {
		x.t.Fatal(err)
	}
	x.out = out
}

// made returns the program's own counts.
func (x *twice) made() map[string]uint64 {
	var kernel, ex, direct uint64
	_, _ = fmt.Sscanf(strings.TrimPrefix(x.child.Line("launched"), "launched "), "%d %d %d", &kernel, &ex, &direct)
	return map[string]uint64{outer: kernel, "cudaLaunchKernelExC": ex, inner: kernel + direct, "cuLaunchKernelEx": ex}
}

// check compares all counts with the program's own.
func (x *twice) check() map[string]account {
	x.t.Helper()
	made, got := x.made(), accounts(x.t, x.tr)
	for name, n := range made {
		if got[name].Calls != n {
			x.t.Errorf("%s: %+v, want %d calls", name, got[name], n)
		}
		if a := got[name]; a.Done+a.Unmeasured+a.Abandoned != n {
			x.t.Errorf("%s: %+v: some of %d have not ended", name, a, n)
		}
	}
	if a, b := got[inner], got["cuLaunchKernelEx"]; a.Nested != made[outer] || b.Nested != made["cudaLaunchKernelExC"] {
		x.t.Errorf("inside launches of the runtime: %+v and %+v, want %d and %d", a, b, made[outer], made["cudaLaunchKernelExC"])
	}
	if s := got["cudaStreamSynchronize"]; s.Calls == 0 || s.Calls != s.Done || s.Nested > 0 {
		x.t.Errorf("synchronisations: %+v", s)
	}
	return got
}

// With the driver's probes alone, each launch counts as before, under the operation that made it,
// and has the same record except for its times.
func TestLaunchesOnce(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	for _, mode := range []probes.Mode{probes.ModeSession, probes.ModeMulti} {
		t.Run(string(mode), func(t *testing.T) {
			x := newTwice(t, mode)
			round := func() map[string]int {
				x.child.Send("")
				x.check()
				out := map[string]int{}
				const split = events.CallUnseen | events.CallLedgerPartial | events.CallGapPartial // depends on where its thread ran
				for _, c := range drain(t, x.tr) {
					out[fmt.Sprintf("%v in %v: flags %d, function %x, %d launches before", c.Op, c.Parent, c.Flags&^split, c.Args[0], c.Launches)]++
				}
				return out
			}
			round()
			want := round()
			x.once(true)
			for range 2 {
				if got := round(); !maps.Equal(got, want) {
					t.Errorf("without the runtime's probes:\n%v, want\n%v", got, want)
				}
			}
			lever(t, x.tr, x.child, true)
			round()
			lever(t, x.tr, x.child, false)
			x.once(false)
			if got := round(); !maps.Equal(got, want) {
				t.Errorf("with all probes again:\n%v, want\n%v", got, want)
			}
			if n, err := x.tr.UnknownOrigins(); n > 0 || err != nil {
				t.Errorf("%d unknown origins, %v", n, err)
			}
			d := dropped(t, x.tr)
			delete(d, "orphan-return") // a child that another test has just started may hold the closed links of returns for a moment
			if len(d) > 0 {
				t.Errorf("drops: %v", d)
			}
		})
	}
}

// While the runtime's probes come and go and all threads launch, no launch is lost, counted twice
// or mistaken for another.
func TestLaunchesOnceUnderLoad(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	for _, mode := range []probes.Mode{probes.ModeSession, probes.ModeMulti} {
		t.Run(string(mode), func(t *testing.T) {
			x := newTwice(t, mode)
			x.child.Send("")
			x.check() // all origins are learned
			x.child.Send("l")
			x.child.Line("loaded")
			seen := func() uint64 { return accounts(t, x.tr)[inner].Calls }
			for i, last := 0, uint64(0); i < 40; i++ {
				x.once(i%2 == 0)
				lever(t, x.tr, x.child, i%8 >= 6)
				from := seen()
				testkit.Eventually(t, "more launches", func() bool { last = seen(); return last > from+200 })
				drain(t, x.tr)
			}
			x.child.Send("")
			x.check()
		})
	}
}

// A link that a process holds beyond its closing, while that process is being started, counts no call
// once more, also when the probes have been attached again.
func TestLinksThatOutliveTheirClosing(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	for _, mode := range []probes.Mode{probes.ModeSession, probes.ModeMulti} {
		t.Run(string(mode), func(t *testing.T) {
			x := newTwice(t, mode)
			round := func() {
				t.Helper()
				x.child.Send("")
				x.check()
			}
			round()
			release, err := x.runtime.HoldLinks()
			if err != nil {
				t.Fatal(err)
			}
			for _, out := range []bool{true, false, true, false} {
				x.once(out)
				round()
			}
			if err := release(); err != nil {
				t.Fatal(err)
			}
			round()
		})
	}
}

// A child between fork and exec holds the links that are being closed. They are closed only after
// it has executed its program, since a link that remained would count each call once more.
func TestClosesLinksWhileNothingForks(t *testing.T) {
	testkit.NeedBPF(t)
	x := newTwice(t, probes.ModeSession)
	x.child.Send("l")
	x.child.Line("loaded")
	seen := func() uint64 { return accounts(t, x.tr)[inner].Calls }
	syscall.ForkLock.Lock() // as while a process is started
	left := make(chan error, 1)
	go func() { left <- x.runtime.SetDetached(x.rows) }()
	from := seen()
	testkit.Eventually(t, "launches", func() bool { return seen() > from+30_000 })
	select {
	case err := <-left:
		t.Errorf("links were closed while a process started: %v", err)
		left <- err
	default:
	}
	syscall.ForkLock.Unlock()
	if err := <-left; err != nil {
		t.Error(err)
	}
}
