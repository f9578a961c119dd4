package ledger

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const ms = time.Millisecond

// workload is one run of the program under a live session.
type workload struct {
	name     string // of the test
	scenario string
	calls    int
	each     time.Duration // how long a call lasts
	roam     bool          // on any CPU; otherwise the thread keeps to one, its helper to another
	onDisk   bool          // it needs files
	quota    func(t testing.TB) quota
	hogs     []string                  // what the hog program is to do; "CPU", "OTHER" and "ANY" stand for where
	meddle   string                    // likewise; "TID" stands for the thread
	check    func(o *outcome) []string // beside what holds for all; nil: nothing
}

// outcome is what became of it: what the program says of itself, and what the
// session saw.
type outcome struct {
	workload     *workload
	pid, helper  uint32   // the thread that calls; who wakes or stops it
	cpu, other   int      // where they run
	culprits     []uint32 // processes of the hogs
	threads      []uint32 // further threads of the program
	truths, gaps []truth  // of its calls, and of the time before each
	inner        []truth  // of calls inside those
	said         string   // path of what the program read
	child        *testkit.Child
	disturbers   []*testkit.Child
	how          tracing       // with which it was seen
	took, stolen time.Duration // all calls together; of the machine's CPUs, by its hypervisor
	guest        bool          // the hypervisor has ever taken one
	*record
}

// record is a sink that keeps everything.
type record struct {
	mu    sync.Mutex
	calls []events.Call
	waits []events.Wait
	ticks []tick.Tick
}

func (r *record) Batch(b *tick.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, b.Calls...)
	r.waits = append(r.waits, b.Waits...)
	return nil
}

func (r *record) Tick(t *tick.Tick) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticks = append(r.ticks, *t)
	return nil
}

func (r *record) Close() error { return nil }

// thread returns the newest account of a thread, and whether there is one.
func (r *record) thread(tid uint32) (found tick.Thread, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.ticks {
		for _, th := range t.Threads {
			if th.TID == tid {
				found, ok = th, true
			}
		}
	}
	return found, ok
}

// rows are those of the two functions that the program calls.
func rows(t testing.TB) []events.Row {
	t.Helper()
	var out []events.Row
	for _, name := range []string{"cudaStreamSynchronize", "cuStreamSynchronize"} {
		op, ok := events.OpByName(name)
		if !ok {
			t.Fatalf("no operation %s", name)
		}
		out = append(out, *op.Row())
	}
	return out
}

// tracing says how a session traces.
type tracing struct {
	raw    bool        // the cost of the probes is left in
	object io.ReaderAt // instead of the agent's own programs
}

// watching is a session under way.
type watching struct {
	*record
	ended chan struct{}
	err   error // once ended
}

// watch begins a live session on processes, which lasts as long as they do.
func watch(t testing.TB, how tracing, pids ...uint32) *watching {
	t.Helper()
	live, err := session.OpenLive(t.Context(), session.LiveOptions{
		Select: proc.Selector{PIDs: pids}, Raw: how.raw, Probes: probes.Options{Rows: rows(t), Object: how.object}})
	if err != nil {
		t.Fatal(err)
	}
	s := &watching{record: &record{}, ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(s.ended)
		s.err = session.Run(ctx, session.Config{Source: live, Sinks: []tick.Sink{s.record}, Interval: 100 * time.Millisecond})
	}()
	t.Cleanup(func() {
		cancel()
		<-s.ended
	})
	return s
}

// wait waits for the end of the session.
func (s *watching) wait(t testing.TB) {
	t.Helper()
	testkit.Receive(t, "the session's end", s.ended)
	if s.err != nil {
		t.Fatal(s.err)
	}
}

// start begins the program and whoever disturbs it. Both wait for a word.
func (w *workload) start(t testing.TB, witness *os.File) *outcome {
	t.Helper()
	o := &outcome{workload: w, said: filepath.Join(t.TempDir(), "truth")}
	o.cpu, o.other = twoCPUs(t)
	args := []string{w.scenario, fmt.Sprintf("calls=%d", w.calls), fmt.Sprintf("us=%d", w.each.Microseconds()), "out=" + o.said}
	if !w.roam {
		args = append(args, fmt.Sprintf("cpu=%d", o.cpu), fmt.Sprintf("helper=%d", o.other))
	}
	if w.onDisk {
		args = append(args, "dir="+onDisk(t))
	}
	for _, what := range w.hogs {
		hog := o.disturb(t, what)
		o.culprits = append(o.culprits, hog)
		args = append(args, fmt.Sprintf("hog=%d", hog))
	}
	var q quota
	if w.quota != nil {
		q = w.quota(t)
		args = append(args, "stat="+q.stat())
	}
	cmd := exec.Command(filepath.Join(scratch, "truth"), append(args, "witness=3")...)
	cmd.ExtraFiles = []*os.File{witness}
	o.child = testkit.Start(t, cmd)
	if _, err := fmt.Sscanf(o.child.Line("ready "), "ready %d %d", &o.pid, &o.helper); err != nil {
		t.Fatal(err)
	}
	if w.quota != nil {
		q.add(t, o.pid)
	}
	if w.meddle != "" {
		o.disturb(t, strings.ReplaceAll(w.meddle, "TID", fmt.Sprint(o.pid)))
	}
	return o
}

// disturb starts the hog program and returns its number.
func (o *outcome) disturb(t testing.TB, what string) uint32 {
	t.Helper()
	what = strings.NewReplacer("CPU", fmt.Sprint(o.cpu), "OTHER", fmt.Sprint(o.other), "ANY", "-1").Replace(what)
	hog := testkit.Start(t, exec.Command(filepath.Join(scratch, "hog"), strings.Fields(what)...))
	testkit.NeedKernel(t, "real-time priorities in this cgroup", hog.Line("re") == "ready")
	o.disturbers = append(o.disturbers, hog)
	return uint32(hog.PID())
}

// play has the program make its calls, disturbed all the while.
func (o *outcome) play(t testing.TB) {
	t.Helper()
	for _, d := range o.disturbers {
		d.Say("go")
	}
	began, stolen := time.Now(), testkit.Stolen(t)
	o.child.Say("go")
	if err := o.child.Wait(); err != nil {
		t.Fatal(err)
	}
	o.took, o.stolen, o.guest = time.Since(began), testkit.Stolen(t)-stolen, testkit.Stolen(t) > 0
	for _, d := range o.disturbers {
		d.Signal(syscall.SIGKILL)
		_ = d.Wait()
	}
}

// run plays workloads one after the other under one session, since that is slow
// to begin.
func run(t testing.TB, how tracing, ws ...workload) (all []*outcome) {
	t.Helper()
	need(t)
	var pids []uint32
	witness := newWitness(t)
	for i := range ws {
		o := ws[i].start(t, witness)
		o.how = how
		all, pids = append(all, o), append(pids, o.pid)
	}
	s := watch(t, how, pids...)
	for _, o := range all {
		o.play(t)
	}
	s.wait(t)
	for _, o := range all {
		o.record = s.of(o.pid)
		said, err := os.ReadFile(o.said)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.read(o.child.Stdout() + string(said)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// of is what was seen of one process.
func (r *record) of(pid uint32) *record {
	own := &record{ticks: r.ticks}
	for i := range r.calls {
		if r.calls[i].PID == pid {
			own.calls = append(own.calls, r.calls[i])
		}
	}
	for i := range r.waits {
		if r.waits[i].PID == pid {
			own.waits = append(own.waits, r.waits[i])
		}
	}
	return own
}
