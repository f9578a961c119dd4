//go:build measure

package cli

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"ingero/internal/diff"
	"ingero/internal/query"
	"ingero/internal/testkit"
)

// diffSeconds is the duration of the compared recordings.
const diffSeconds = 14

// recordTrains traces training loops side by side and returns their PIDs. sync is how they wait
// for the GPU; programs has the arguments of each. They run at nice -20 and share a CPU; those
// with pageable copies take another. Otherwise, one of two equal loops would share its CPU with
// more others and be slower.
func (b *bench) recordTrains(db, sync string, programs ...[]string) []uint32 {
	b.t.Helper()
	var all []*testkit.Child
	var pids []uint32
	args := []string{"trace", "--db", db, "--max-overhead", "0", "--pid"}
	list := ""
	for _, p := range programs {
		cpu := "0"
		if slices.Contains(p, "--pageable") {
			cpu = strconv.Itoa(runtime.NumCPU() - 1)
		}
		cmd := exec.Command("nice", append([]string{"-n", "-20", "taskset", "-c", cpu, b.stack.Program("train"), "--seconds", strconv.Itoa(diffSeconds), "--hold"}, p...)...)
		cmd.Env = append(os.Environ(), "INGERO_SIM_SYNC="+sync)
		c := testkit.Start(b.t, cmd)
		c.Line("ready")
		all, pids = append(all, c), append(pids, uint32(c.PID()))
		list += "," + pid(c)
	}
	trace := b.ingero(append(args, list[1:])...)
	b.tracing(len(programs))
	for _, c := range all {
		c.Send("go")
	}
	if _, stderr, code := finish(b.t, trace); code != 0 {
		b.t.Fatalf("trace: code %d:\n%s", code, stderr)
	}
	return pids
}

// differs compares a process of one database with a process of another.
func differs(t *testing.T, dbA string, a uint32, dbB string, b uint32) *diff.Pair {
	t.Helper()
	var runs []*diff.Run
	for _, x := range []struct {
		db  string
		pid uint32
	}{{dbA, a}, {dbB, b}} {
		r, err := query.Open(t.Context(), x.db)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		run, err := diff.Open(context.Background(), r, time.Time{}, time.Time{}, diff.Options{PIDs: []uint32{x.pid}})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	res, err := diff.Compare(context.Background(), runs[0], runs[1])
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Pairs) != 1 || res.Pairs[0].Short {
		t.Fatalf("%+v", res.Pairs)
	}
	return &res.Pairs[0]
}

// In complete recordings, two equal programs under equal load have no finding; a much slower one
// has a finding with the reason.
func TestDiffOfTraces(t *testing.T) {
	b := newBench(t)
	normal := []string{"--kernel-us", "400", "--alloc-every", "0"}
	with := func(more ...string) []string { return append(normal[:len(normal):len(normal)], more...) }
	calm := b.dir + "/calm.db"
	pids := b.recordTrains(calm, "block", normal, normal, with("--kernel-us", "800"), with("--pageable", "--batch", "33554432"), with("--launches", "40"))
	same := differs(t, calm, pids[0], calm, pids[1])
	if n := same.Findings(); n > 0 {
		t.Errorf("two equal programs: %d findings, step %+v", n, same.Step)
	}
	if itself := differs(t, calm, pids[0], calm, pids[0]); itself.Findings() > 0 || itself.Step.Delta() != 0 {
		t.Errorf("a run and itself: %+v", itself.Step)
	}
	for name, tt := range map[string]struct {
		than   uint32
		part   diff.Part
		behind func(*diff.Key) bool
	}{
		"a slower GPU":  {pids[2], diff.GPUWait, func(k *diff.Key) bool { return k.Op == fixtureSync }},
		"other copies":  {pids[3], diff.CallCPU, func(k *diff.Key) bool { return k.Op == testkit.Op("cudaMemcpyAsync") }},
		"more launches": {pids[4], diff.GPUWait, func(k *diff.Key) bool { return k.Op == fixtureSync }},
	} {
		p := differs(t, calm, pids[0], calm, tt.than)
		part := &p.Parts[tt.part-diff.GPUWait]
		if !p.Step.Found || p.Relative() < 0.05 {
			t.Errorf("%s: step %+v", name, p.Step)
		}
		if !part.Found || part.Delta() < 0 {
			t.Errorf("%s: %v %+v", name, tt.part, part)
		}
		if !slices.ContainsFunc(p.Within, func(e diff.Effect) bool { return e.Found && e.Delta() > part.Delta()/3 && tt.behind(&e.Key) }) {
			t.Errorf("%s: it is made up of %+v", name, p.Within)
		}
		t.Logf("%s: %+.1f %% (p %.2g), %v %+.0f us", name, 100*p.Relative(), p.Step.P, tt.part, part.Delta()/1e3)
	}
}
