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

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// rolls is a sink that keeps the roll-calls, with the time of each one's tick.
type rolls struct {
	mu     sync.Mutex
	all    []rolled
	chains []tick.Chain     // of the last tick
	ranks  map[uint32]int32 // by process, of members of a communicator
	comms  []tick.Comm      // of the last tick
}

// String describes the state for the log of a failed test.
func (r *rolls) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := fmt.Sprintf("%d roll calls", len(r.all))
	if n := len(r.all); n > 0 {
		s += fmt.Sprintf(", the last %+v", r.all[n-1].RollCall)
	}
	return s + fmt.Sprintf("; communicators at the last tick: %+v", r.comms)
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
	r.ranks, r.comms = map[uint32]int32{}, nil
	for i := range t.States {
		r.comms = append(r.comms, t.States[i].Comms.First...)
		for _, c := range t.States[i].Comms.First {
			r.ranks[t.States[i].PID] = c.Rank
		}
	}
	for i := range t.RollCalls {
		r.all = append(r.all, rolled{t.Time, t.RollCalls[i]})
	}
	return nil
}

// find returns the first roll-call that satisfies want, if any.
func (r *rolls) find(want func(*rolled) bool) (rolled, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.all {
		if want(&r.all[i]) {
			return r.all[i], true
		}
	}
	return rolled{}, false
}

// without reports whether only the given rank is missing from a collective.
func (x *rolled) without(rank int32, seq uint64) bool {
	return x.Seq == seq && len(x.Missing) == 1 && x.Missing[0].Rank.Rank == rank
}

// chain reports whether a chain of a rule blames a process.
func (r *rolls) chain(rule string, pid uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.chains, func(c tick.Chain) bool {
		return c.Rule == rule && len(c.Culprits) == 1 && c.Culprits[0].Thread.PID == pid && c.PID != pid
	})
}

// ranked runs a training of three ranks, all traced.
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
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(to)
		}
	})
	o := session.LiveOptions{Select: pids(child)}
	// Keep all records, however late they are read: lost collectives make counts inexact.
	o.Probes = probes.Options{Rows: events.Catalog, SamplingRate: 1, RingBytes: 64 << 20}
	r := beginWith(t, o, session.Config{Sinks: []tick.Sink{to}})
	child.Send("")
	return child, r, to
}

// Among ranks that arrive at 10,000 collectives at different times, each call is counted, and no
// rank is missing.
func TestNobodyIsMissing(t *testing.T) {
	t.Parallel()
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
	// On an overloaded machine a rank may be kept away for so long that it is missing: not before a
	// second.
	if x, ok := to.find(func(x *rolled) bool { return x.waited() < time.Second }); ok {
		t.Errorf("somebody is missing after %v: %+v", x.waited(), x.RollCall)
	}
	if _, ok := to.find(func(*rolled) bool { return true }); ok {
		return
	}
	for _, c := range r.last.Chains {
		if c.Rule == "nccl-missing" || c.Rule == "nccl-dead" {
			t.Errorf("a chain: %s", c.Rule)
		}
	}
}

// waited returns how long others had waited.
func (x *rolled) waited() time.Duration { return x.at.Sub(time.Unix(0, x.Since)) }

// missingRank is a way in which rank 1 misses the first all-reduce of step 200.
type missingRank struct {
	name  string
	args  []string
	least time.Duration // least wait of the others before the report
	rule  string
	want  func(m *tick.Missing) bool
}

var missingRanks = []missingRank{
	{"dies", []string{"--die-rank", "1", "--die-step", "200"}, 0, "nccl-dead", func(m *tick.Missing) bool {
		return m.End.Time != 0 && m.End.Signal == uint8(syscall.SIGKILL) && m.End.By == m.PID && !m.Lives
	}},
	{"hangs", []string{"--hang-rank", "1", "--hang-step", "200"}, time.Second, "nccl-missing", func(m *tick.Missing) bool {
		return m.End.Time == 0 && m.Lives && m.Open.Op == 0 && m.Now.State == events.WaitBlocked && m.Now.Reason == events.ReasonPipe
	}},
}

const missed = 801 // 200 steps of 4 all-reduces

// A rank that dies is named with its killer; one that hangs, with what it waits for.
func TestSomebodyIsMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range missingRanks {
		t.Run(tt.name, func(t *testing.T) {
			_, r, to := ranked(t, 100_000, append(tt.args, "--steps", "1000000")...)
			var x rolled
			// Each tick reports it, with the facts known by then.
			testkit.Eventually(t, "rank 1 to be missing", func() (ok bool) {
				x, ok = to.find(func(x *rolled) bool { return x.without(1, missed) && len(x.Entered) == 2 && tt.want(&x.Missing[0]) })
				return ok
			})
			if x.Ranks != 3 || x.Op.String() != "ncclAllReduce" {
				t.Errorf("%+v, want one of 3 ranks missing from an all-reduce", x.RollCall)
			}
			if first, _ := to.find(func(x *rolled) bool { return x.without(1, missed) }); first.waited() < tt.least {
				t.Errorf("named after %v", first.waited())
			}
			m := &x.Missing[0]
			testkit.Eventually(t, "a chain of "+tt.rule, func() bool { return to.chain(tt.rule, m.PID) })
			r.cancel()
			r.end(t)
		})
	}
}
