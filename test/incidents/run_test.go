//go:build measure || smoke

package incidents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"ingero/internal/gpu"
	"ingero/internal/inference"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/test/serving"
	"ingero/test/tapes"
)

// run is a scenario in progress.
type run struct {
	t        testing.TB
	lab      *lab
	plan     plan
	cpu      int    // the victim's CPU
	dir      string // directory for the run's files, on a disk
	args     []string
	env      []string
	machine  gpu.Machine // the machine's GPUs, as the session sees them
	child    *testkit.Child
	pids     []int          // the victim's processes
	all      group          // cgroup of all processes of the run
	group    group          // cgroup of the victim
	memory   group          // cgroup of the memory controller; empty: not used
	log      string         // path of the victim's clock
	reported string         // last line of the faults program
	peer     *testkit.Child // the victim's peer
	network  group          // cgroup of the peer
	clock    clock
	steps    []step // set at the end
	server   *serving.Server
	load     *testkit.Child // the server's client
	others   []int          // further processes of the server, and its client
	truth    serving.Truth  // the server's own record; set at the end

	disturbers   []disturber
	times        []window        // when each fault was active
	delays       []time.Duration // time for which the victim was runnable during each fault
	since, until int64           // range of the judged time
	tape         *tapes.Recorder
	agent        float64       // CPUs that this process used
	stolen       time.Duration // CPU time that the hypervisor stole
}

// window is a time range, Unix ns.
type window struct{ From, To int64 }

const (
	usual   = 4900 * ms // length of a run; it ends with the next tick, once a second
	running = 700 * ms  // how long a victim runs before it is traced
	tail    = 700 * ms  // time from the last fault to the end of a run
)

// perform runs a plan, and returns the outcome.
func (l *lab) perform(t testing.TB, name string, n uint64, p plan, db string, at *place) *outcome {
	t.Helper()
	r, began := l.carryOut(t, p, db, at)
	o := r.outcome(name, n, began)
	o.Alone = !l.shared(at)
	return o
}

// carryOut runs a plan, and returns the run and the time when tracing began.
func (l *lab) carryOut(t testing.TB, p plan, db string, at *place) (*run, time.Time) {
	t.Helper()
	if at.need == alone && !p.anywhere { // so that ingero does not take the victim's CPU
		confine(t, 1-at.cpu)
		t.Cleanup(func() { confine(t, 0, 1) })
	}
	r := &run{t: t, lab: l, plan: p, cpu: at.cpu, dir: t.TempDir()}
	if r.plan.length == 0 {
		r.plan.length = usual
	}
	r.all, r.group = isolate(t)
	r.delays = make([]time.Duration, len(p.faults))
	r.disturbers, r.times = make([]disturber, len(p.faults)), make([]window, len(p.faults))
	r.start()
	if p.victim.running {
		r.wait(r.release().Add(running))
	}
	for i := range p.faults {
		if p.faults[i].from == 0 {
			r.begin(i)
		}
	}
	return r, r.trace(db)
}

// begin begins a fault.
func (r *run) begin(i int) {
	r.t.Helper()
	r.times[i] = window{time.Now().UnixNano(), 1<<63 - 1}
	r.delays[i] -= r.runDelay()
	r.disturbers[i] = r.plan.faults[i].begin(r)
}

// end ends a fault, once.
func (r *run) end(i int) {
	if r.times[i].From == 0 || r.times[i].To != 1<<63-1 {
		return
	}
	if end := r.disturbers[i].end; end != nil {
		end()
	}
	r.times[i].To = time.Now().UnixNano()
	r.delays[i] += r.runDelay()
}

// wait waits until a time.
func (r *run) wait(at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	<-timer.C
}

// trace traces the victim with a session for the length of the run. The faults begin and end, and a
// period without faults follows. It returns the time when tracing began.
func (r *run) trace(db string) time.Time {
	r.t.Helper()
	metrics, err := inference.New(inference.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	live, err := session.OpenLive(context.Background(), session.LiveOptions{
		GPUs: r.machine, Inference: metrics, MaxOverhead: r.lab.overhead, Select: proc.Selector{PIDs: []uint32{uint32(r.child.PID())}}, Probes: probes.Options{Stacks: probes.StacksSlow}})
	if err != nil {
		r.t.Fatal(err)
	}
	rec, err := store.Open(store.Options{Path: db, Session: segment.Session{Mode: "lab", Target: filepath.Base(db), PID: os.Getpid()}})
	if err != nil {
		r.t.Fatal(errors.Join(err, live.Close()))
	}
	used, stolen := ownCPU(r.t), testkit.Stolen(r.t)
	began := time.Now()
	defer func() {
		r.agent = float64(ownCPU(r.t)-used) / float64(time.Since(began))
		r.stolen = testkit.Stolen(r.t) - stolen
	}()
	r.since = began.UnixNano()
	r.tape = tapes.NewRecorder(rec, func(t *tick.Tick) bool { return t.Time.Sub(began) >= r.plan.length })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- session.Run(ctx, session.Config{Source: live, Sinks: []tick.Sink{r.tape}, Forced: r.lab.forced})
	}()
	from := began
	if !r.plan.victim.running {
		from = r.release()
	}
	r.play(from)
	cancel()
	if err := <-ended; err != nil {
		r.t.Fatal(err)
	}
	return began
}

// runDelay returns the time for which the victim's main thread was runnable, by the scheduler's own
// count.
func (r *run) runDelay() (d time.Duration) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", r.child.PID()))
	var cpu time.Duration
	if _, err2 := fmt.Sscan(string(text), &cpu, &d); err != nil || err2 != nil {
		r.t.Fatal(err, err2)
	}
	return d
}

// ownCPU returns this process's CPU time.
func ownCPU(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// play begins and ends the faults at their times.
func (r *run) play(began time.Time) {
	r.t.Helper()
	type event struct {
		at time.Duration
		do func(int)
		i  int
	}
	var all []event
	for i, f := range r.plan.faults {
		if f.from > 0 {
			all = append(all, event{f.from, r.begin, i})
		}
		if f.to > 0 {
			all = append(all, event{f.to, r.end, i})
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for _, e := range all {
		r.wait(began.Add(e.at))
		e.do(e.i)
	}
	<-r.tape.Over()
	r.until = time.Now().UnixNano()
	if said := r.tape.Heard(); len(said) > 0 {
		r.until = said[len(said)-1].Time.UnixNano()
	}
	var last int64
	for i := range r.plan.faults {
		r.end(i)
		last = max(last, r.times[i].To)
	}
	r.wait(time.Unix(0, last).Add(tail))
}
