package session_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// rolls is a sink that keeps the roll calls, with the time of the tick that had each.
type rolls struct {
	mu     sync.Mutex
	all    []rolled
	chains []tick.Chain     // of the last tick
	ranks  map[uint32]int32 // by process
}

type rolled struct {
	at time.Time
	tick.RollCall
}

func (r *rolls) Batch(*tick.Batch) error { return nil }
func (r *rolls) Close() error            { return nil }
func (r *rolls) Tick(t *tick.Tick) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chains = slices.Clone(t.Chains)
	r.ranks = map[uint32]int32{}
	for i := range t.States {
		for _, c := range t.States[i].Comms.First {
			r.ranks[t.States[i].PID] = c.Rank
		}
	}
	for i := range t.RollCalls {
		r.all = append(r.all, rolled{t.Time, t.RollCalls[i]})
	}
	return nil
}

// first is the first roll call, if there was one.
func (r *rolls) first() (rolled, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return rolled{}, false
	}
	return r.all[0], true
}

// chain is one of a rule that blames a process.
func (r *rolls) chain(rule string, pid uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.chains, func(c tick.Chain) bool {
		return c.Rule == rule && len(c.Culprits) == 1 && c.Culprits[0].Thread.PID == pid && c.PID != pid
	})
}

// ranked has three ranks train, all of which is traced.
func ranked(t *testing.T, kernelNS int, args ...string) (*testkit.Child, *running, *rolls) {
	t.Helper()
	testkit.NeedBPF(t)
	s, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.Program("ddp"), append([]string{"--hold", "--ranks", "3"}, args...)...)
	cmd.Env = append(os.Environ(), "INGERO_SIM_KERNEL_NS="+strconv.Itoa(kernelNS), "INGERO_SIM_SYNC=block")
	child := testkit.Start(t, cmd)
	for range 3 {
		pid, err := strconv.Atoi(strings.Fields(child.Line("ready"))[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // a rank that hangs
	}
	to := &rolls{}
	o := session.LiveOptions{Select: pids(child)}
	o.Probes.Rows = events.Catalog
	r := beginWith(t, o, session.Config{Sinks: []tick.Sink{to}})
	child.Say("")
	return child, r, to
}

// Of ranks that come at different times to 10,000 collectives nobody is missing from any.
func TestNobodyIsMissing(t *testing.T) {
	const steps, buckets = 2500, 4
	child, r, to := ranked(t, 1000, "--steps", strconv.Itoa(steps), "--buckets", strconv.Itoa(buckets), "--jitter-us", "1500", "--cpu-us", "50", "--layers", "1")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	for i := range r.last.States {
		c := r.last.States[i].Comms.First[0]
		if c.Collectives != steps*buckets || c.Inexact {
			t.Errorf("rank %d entered %d collectives, want %d; inexact: %v", c.Rank, c.Collectives, steps*buckets, c.Inexact)
		}
	}
	if len(r.last.States) != 3 {
		t.Errorf("%d ranks, want 3", len(r.last.States))
	}
	if x, ok := to.first(); ok {
		t.Errorf("somebody is missing: %+v", x.RollCall)
	}
	for _, c := range r.last.Chains { // where a machine is busy, a rank can be late
		if c.Rule == "nccl-missing" || c.Rule == "nccl-dead" {
			t.Errorf("a chain: %s", c.Rule)
		}
	}
}

// A rank that dies is named within two seconds, with what killed it; one that hangs with
// what it waits for.
func TestSomebodyIsMissing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  []string
		least time.Duration // that others waited before it was said
		rule  string
		want  func(m *tick.Missing) bool
	}{
		{"dies", []string{"--die-rank", "1", "--die-step", "200"}, 0, "nccl-dead", func(m *tick.Missing) bool {
			return m.End.Time != 0 && m.End.Signal == uint8(syscall.SIGKILL) && m.End.By == m.PID && !m.Lives
		}},
		{"hangs", []string{"--hang-rank", "1", "--hang-step", "200"}, time.Second, "nccl-missing", func(m *tick.Missing) bool {
			return m.End.Time == 0 && m.Lives && m.Open.Op == 0 && m.Now.State == events.WaitBlocked && m.Now.Reason == events.ReasonPipe
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, r, to := ranked(t, 100_000, append(tt.args, "--steps", "1000000")...)
			var x rolled
			testkit.Eventually(t, "a rank to be missing", func() (ok bool) {
				x, ok = to.first()
				return ok
			})
			if len(x.Missing) != 1 || len(x.Entered) != 2 || x.Missing[0].Rank.Rank != 1 || x.Seq != 801 || x.Ranks != 3 || x.Op.String() != "ncclAllReduce" {
				t.Fatalf("%+v, want rank 1 missing from the first all-reduce of step 200", x.RollCall)
			}
			m := &x.Missing[0]
			if !tt.want(m) {
				t.Errorf("missing: %+v", m)
			}
			since := x.Since
			if m.End.Time != 0 {
				since = m.End.Time
			}
			if d := x.at.Sub(time.Unix(0, since)); d < tt.least || tt.least == 0 && d > 2*time.Second {
				t.Errorf("named after %v", d)
			}
			testkit.Eventually(t, "a chain of "+tt.rule, func() bool { return to.chain(tt.rule, m.PID) })
			r.cancel()
			r.end(t)
		})
	}
}

// lostTo is what ranks lose to each other by the last tick's chains, by who is late.
func (r *rolls) lostTo() map[int32]time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := map[int32]time.Duration{}
	for _, c := range r.chains {
		if c.Rule == "nccl-straggler" && len(c.Culprits) == 1 {
			lost[r.ranks[c.Culprits[0].Thread.PID]] += c.Lost
		}
	}
	return lost
}

// A rank that comes late from some moment on is what the others lose time to. On a machine
// with more to do than CPUs each may be late for a while, and is blamed for that alone.
func TestStragglerIsBlamed(t *testing.T) {
	const slow, late = 1, 30 * time.Millisecond
	_, r, to := ranked(t, 500_000, "--steps", "1000000", "--slow-rank", fmt.Sprint(slow), "--slow-ms", fmt.Sprint(late.Milliseconds()), "--slow-from", "150")
	blamed := func() bool {
		lost := to.lostTo()
		of := lost[slow]
		delete(lost, slow)
		for _, other := range lost {
			if other > of/10 {
				return false
			}
		}
		return of > 10*late
	}
	testkit.Eventually(t, "what ten late steps cost, and ten times what others did", blamed)
	r.cancel()
	r.end(t)
	if !blamed() {
		t.Errorf("lost to ranks: %v, of which %d is late", to.lostTo(), slow)
	}
	for _, c := range r.last.Chains {
		if c.Rule == "gpu-slower" {
			t.Errorf("%s of %d", c.Rule, c.PID)
		}
	}
}
