package session_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

func TestMain(m *testing.M) {
	testkit.ContainerMain()
	testkit.WaitAsleep()
	os.Exit(m.Run())
}

func gcc(t testing.TB, args ...string) {
	t.Helper()
	testkit.NeedTool(t, "gcc")
	if out, err := exec.Command("gcc", append([]string{"-O1"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
}

func copyFile(t testing.TB, from, to string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	testkit.CopyProgram(t, to, from)
	return to
}

func receive[T any](t testing.TB, what string, from <-chan T) (x T) {
	t.Helper()
	testkit.Eventually(t, what, func() bool {
		select {
		case x = <-from:
			return true
		default:
			return false
		}
	})
	return x
}

// attaches returns options that send notices of attached libraries to a channel.
func attaches(o session.LiveOptions) (session.LiveOptions, chan session.Notice) {
	seen := make(chan session.Notice, 256)
	o.Notify = func(n session.Notice) {
		if n.Kind == session.NoticeAttached || n.Kind == session.NoticeFailed {
			seen <- n
		}
	}
	return o, seen
}

// next returns the next notice, which must report an attached library.
func next(t testing.TB, seen chan session.Notice) session.Notice {
	t.Helper()
	n := receive(t, "a library to be attached to", seen)
	if n.Kind != session.NoticeAttached {
		t.Fatalf("%s: %v", n.Library, n.Err)
	}
	return n
}

// callAndEnd makes a program call and end.
func callAndEnd(t *testing.T, c *testkit.Child) {
	t.Helper()
	c.Send("call")
	c.Line("done")
	c.Send("end")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}

// loadEach runs a program that loads copies of the runtime one by one while it is traced with the
// whole catalog, and then makes some calls to each. It returns the notice of each copy.
func loadEach(t *testing.T, calls string, copies []string) (last *tick.Tick, notices []session.Notice) {
	t.Helper()
	testkit.NeedBPF(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	gcc(t, "-o", dir+"/loads", "testdata/loads.c", "-ldl")
	paths := make([]string, len(copies))
	for i, place := range copies {
		paths[i] = copyFile(t, stack.Libcudart, filepath.Join(dir, place))
	}
	child := testkit.Start(t, exec.Command(dir+"/loads", append([]string{calls}, paths...)...))
	child.Line("ready")
	o, seen := attaches(session.LiveOptions{Select: pids(child)})
	o.Probes.Rows = events.Catalog
	r := begin(t, o)
	for _, path := range paths {
		child.Send("load")
		child.Line("loaded")
		n := next(t, seen)
		for ; n.Library != path; n = next(t, seen) { // also for the driver that it loads
		}
		notices = append(notices, n)
	}
	callAndEnd(t, child)
	r.end(t)
	return r.last, notices
}

// Libraries of any path and name are found as they are loaded, with the whole catalog.
func TestEveryPlaceIsFound(t *testing.T) {
	t.Parallel()
	last, notices := loadEach(t, "10", []string{
		"usr/lib/x86_64-linux-gnu/libcudart.so.12.4.127", "usr/local/cuda-12/lib64/libcudart.so.11.0", "opt/conda/lib/libcudart.so",
		"venv/lib/python3.12/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12", "wheel.libs/libcudart-0ab5f9e1.so.12.0.107",
		"with space and (deleted)/libcudart.so.13",
	})
	found := map[string]bool{}
	for _, l := range last.Libraries {
		found[l.Path] = l.Lib == events.LibCudart && l.Probes > 20 && l.BuildID != ""
	}
	for _, n := range notices {
		if !found[n.Library] {
			t.Errorf("%s is not among the libraries: %+v", n.Library, last.Libraries)
		}
	}
}

// Each of many libraries has its mapping and attach times, and each call after the attach is
// counted.
func TestLateLibraries(t *testing.T) {
	t.Parallel()
	const n = 20
	copies := make([]string, n)
	for i := range copies {
		copies[i] = fmt.Sprintf("%d/libcudart.so.12", i)
	}
	last, notices := loadEach(t, "100", copies)
	for _, notice := range notices {
		if notice.AttachDelay <= 0 {
			t.Errorf("%s: attached %v after its mapping", notice.Library, notice.AttachDelay)
		}
	}
	if s := sum(last, "cudaStreamSynchronize"); s.Calls != n*100 {
		t.Errorf("%d calls, want %d: all were made after the attach", s.Calls, n*100)
	}
	if p := last.Processes[0]; p.Mapped.IsZero() || !p.Attached.After(p.Mapped) {
		t.Errorf("mapped at %v, attached at %v, want the time in which calls were not seen", p.Mapped, p.Attached)
	}
}

// sum adds up the counts of an operation in a tick.
func sum(last *tick.Tick, op string) (s tick.Counts) {
	for i := range last.Ops {
		if o := &last.Ops[i]; o.Op.String() == op {
			s.Calls += o.Sum.Calls
			s.Done += o.Sum.Done
			s.Unmeasured += o.Sum.Unmeasured
		}
	}
	return s
}

// A runtime that is linked into a program is found by the program's symbols; a stripped one is
// reported.
func TestLinkedInRuntime(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	dir := t.TempDir()
	gcc(t, "-shared", "-fPIC", "-o", dir+"/libcuda.so.1", "-x", "c", "/dev/null")
	for _, tt := range []struct {
		name string
		args []string
		sees bool
	}{{"with symbols", nil, true}, {"stripped", []string{"-s"}, false}} {
		for _, gated := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, gated %v", tt.name, gated), func(t *testing.T) {
				program := filepath.Join(t.TempDir(), "job")
				gcc(t, append([]string{"-o", program, "testdata/static.c", "testdata/lib.c", "-ldl"}, tt.args...)...)
				const calls = 1000
				child := testkit.Start(t, exec.Command(program, dir+"/libcuda.so.1", strconv.Itoa(calls)))
				child.Line("ready")
				o, seen := attaches(session.LiveOptions{Select: pids(child)})
				if gated {
					o.Gated = uint32(child.PID())
				}
				r := beginWith(t, o, session.Config{Interval: 20 * time.Millisecond})
				child.Send("load")
				child.Line("loaded")
				if next(t, seen); tt.sees {
					if n := next(t, seen); n.Library != program {
						t.Errorf("attached to %s, want %s", n.Library, program)
					}
				} else {
					testkit.Eventually(t, "a word on the runtime", func() bool { return r.reported("runtime-unseen") })
				}
				callAndEnd(t, child)
				r.end(t)
				want := uint64(0)
				if tt.sees {
					want = calls
				}
				if s := r.sum(); s.Calls != want || s.Done != want {
					t.Errorf("%d calls, %d returns, want %d", s.Calls, s.Done, want)
				}
				if tt.sees == r.reported("runtime-unseen") {
					t.Errorf("reports %+v", r.last.Reports)
				}
			})
		}
	}
}

// reported reports whether the last tick has a report of a kind.
func (c *collector) reported(kind string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return false
	}
	for _, r := range c.last.Reports {
		if r.Kind == kind {
			return true
		}
	}
	return false
}

// Libraries of a container are found: in its own root, on an overlay, deleted after loading.
func TestContainer(t *testing.T) {
	t.Parallel()
	dir := build(t)
	for _, tt := range []struct {
		name             string
		overlay, deleted bool
	}{{"plain", false, false}, {"deleted", false, true}, {"overlay", true, false}, {"deleted on an overlay", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			gcc(t, "-o", dir+"/loads", "testdata/loads.c", "-ldl")
			root := filepath.Join(t.TempDir(), "root")
			lower := root
			if tt.overlay {
				lower += ".lower"
			}
			const lib = "/venv/nvidia/cuda_runtime/lib/libcudart.so.12"
			testkit.ContainerRoot(t, lower, map[string]string{"/job": dir + "/loads", lib: dir + "/libcudart.so.12"})
			if tt.overlay {
				mountOverlay(t, lower, root)
			}
			child := testkit.Start(t, testkit.Container(t, root, "/job", "500", lib))
			child.Line("ready")
			o, seen := attaches(session.LiveOptions{Select: pids(child)})
			r := begin(t, o)
			child.Send("load")
			child.Line("loaded")
			if n := next(t, seen); n.Library != lib && !tt.overlay || n.Probes != 1 {
				t.Errorf("attached to %s with %d probes, want %s with 1", n.Library, n.Probes, lib)
			}
			if tt.deleted {
				if err := os.Remove(filepath.Join(root, lib)); err != nil {
					t.Fatal(err)
				}
			}
			child.Send("call")
			child.Line("done")
			if p, err := (proc.FS{}).Process(uint32(child.PID())); err != nil || p.NSPID() != 1 {
				t.Errorf("its own number is %d, %v, want 1", p.NSPID(), err)
			}
			child.Send("end")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			r.exact(t, 500)
		})
	}
}

// A library that was deleted before the trace is attached to, also in a container.
func TestContainerDeletedBefore(t *testing.T) {
	t.Parallel()
	dir := build(t)
	gcc(t, "-o", dir+"/loads", "testdata/loads.c", "-ldl")
	root := t.TempDir()
	const lib = "/lib/libcudart-0123abcd.so.12"
	testkit.ContainerRoot(t, root, map[string]string{"/job": dir + "/loads", lib: dir + "/libcudart.so.12"})
	child := testkit.Start(t, testkit.Container(t, root, "/job", "500", lib))
	child.Line("ready")
	child.Send("load")
	child.Line("loaded")
	if err := os.Remove(filepath.Join(root, lib)); err != nil {
		t.Fatal(err)
	}
	r := begin(t, session.LiveOptions{Select: pids(child)})
	callAndEnd(t, child)
	r.end(t)
	r.exact(t, 500)
	if p := r.last.Processes[0]; !p.Mapped.IsZero() || p.Attached.IsZero() {
		t.Errorf("mapped at %v, attached at %v: when it was mapped cannot be known", p.Mapped, p.Attached)
	}
}

func mountOverlay(t *testing.T, lower, merged string) {
	t.Helper()
	up := t.TempDir()
	// Overlay does not support upper directories on an overlay.
	if err := unix.Mount("tmpfs", up, "tmpfs", 0, ""); err != nil {
		testkit.NeedMount(t, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(up, unix.MNT_DETACH) })
	for _, d := range []string{merged, up + "/up", up + "/work"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/up,workdir=%s/work", lower, up, up))
	testkit.NeedKernel(t, "overlayfs", !errors.Is(err, unix.ENODEV))
	testkit.NeedMount(t, err)
	t.Cleanup(func() { _ = unix.Unmount(merged, unix.MNT_DETACH) })
}

// Two containers of one image have two files that share the probed inode: each call counts once.
func TestContainersOfOneImage(t *testing.T) {
	t.Parallel()
	dir := build(t)
	gcc(t, "-o", dir+"/loads", "testdata/loads.c", "-ldl")
	lower := t.TempDir()
	const lib = "/lib/libcudart.so.12"
	testkit.ContainerRoot(t, lower, map[string]string{"/job": dir + "/loads", lib: dir + "/libcudart.so.12"})
	var jobs []*testkit.Child
	var sel proc.Selector
	for range 2 {
		root := filepath.Join(t.TempDir(), "root")
		mountOverlay(t, lower, root)
		job := testkit.Start(t, testkit.Container(t, root, "/job", "500", lib))
		job.Line("ready")
		job.Send("load")
		job.Line("loaded")
		jobs, sel.PIDs = append(jobs, job), append(sel.PIDs, uint32(job.PID()))
	}
	r := begin(t, session.LiveOptions{Select: sel})
	for _, job := range jobs {
		callAndEnd(t, job)
	}
	r.end(t)
	if s := r.sum(); s.Calls != 1000 || s.Done != 1000 || r.records != 1000 {
		t.Errorf("%d calls, %d returns, %d records, want 1000 each", s.Calls, s.Done, r.records)
	}
	noDrops(t, r.last, "duplicate-link")
	t.Logf("%d libraries: %+v", len(r.last.Libraries), r.last.Drops)
}
