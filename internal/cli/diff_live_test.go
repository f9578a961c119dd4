package cli

import (
	"context"
	"math"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"ingero/internal/diff"
	"ingero/internal/query"
	"ingero/internal/testkit"
)

// diffSeconds is how long programs are recorded that are compared.
const diffSeconds = 12

// recordTrains traces training loops side by side, each with arguments of its own, and
// returns their numbers.
func (b *bench) recordTrains(db string, programs ...[]string) []uint32 {
	b.t.Helper()
	var all []*testkit.Child
	var pids []uint32
	args := []string{"trace", "--db", db, "--pid"}
	list := ""
	for _, p := range programs {
		cmd := exec.Command(b.stack.Program("train"), append(p, "--seconds", strconv.Itoa(diffSeconds), "--hold")...)
		cmd.Env = append(os.Environ(), "INGERO_SIM_SYNC=block")
		c := testkit.Start(b.t, cmd)
		c.Line("ready")
		all, pids = append(all, c), append(pids, uint32(c.PID()))
		list += "," + pid(c)
	}
	trace := b.ingero(append(args, list[1:])...)
	b.tracing(len(programs))
	for _, c := range all {
		c.Say("go")
	}
	if _, stderr, code := finish(b.t, trace); code != 0 {
		b.t.Fatalf("trace: code %d:\n%s", code, stderr)
	}
	return pids
}

// differs compares a process of a database with one of another.
func differs(t *testing.T, dbA string, a uint32, dbB string, b uint32) *diff.Pair {
	t.Helper()
	var runs []*diff.Run
	for _, x := range []struct {
		db  string
		pid uint32
	}{{dbA, a}, {dbB, b}} {
		r, err := query.Open(x.db)
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

// Two equal programs have no finding, a GPU that is slower by a tenth, copies from
// pageable memory, more launches and a hog do: of real recordings.
func TestDiffOfTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	b := newBench(t)
	normal := []string{"--kernel-us", "400", "--alloc-every", "0"}
	with := func(more ...string) []string { return append(normal[:len(normal):len(normal)], more...) }
	calm, busy := b.dir+"/calm.db", b.dir+"/busy.db"
	pids := b.recordTrains(calm, normal, normal, []string{"--kernel-us", "440", "--alloc-every", "0"}, with("--pageable", "--batch", "4194304"), with("--launches", "24"))
	hog := exec.Command("sh", "-c", "while :; do :; done")
	hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pinned := exec.Command("taskset", append([]string{"-c", "0"}, hog.Args...)...)
	pinned.SysProcAttr = hog.SysProcAttr
	if err := pinned.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pinned.Wait() }()
	defer func() { _ = pinned.Process.Kill() }()
	hogged := b.recordTrains(busy, with("--pin", "0"))

	same := differs(t, calm, pids[0], calm, pids[1])
	if n := same.Findings(); n > 0 {
		t.Errorf("two equal programs: %d findings, step %+v", n, same.Step)
	}
	if itself := differs(t, calm, pids[0], calm, pids[0]); itself.Findings() > 0 || itself.Step.Delta() != 0 {
		t.Errorf("a run and itself: %+v", itself.Step)
	}
	if math.Abs(same.Relative()) > 0.05 {
		t.Skipf("this machine is too busy to tell more: two equal programs differ by %.1f %%", 100*same.Relative())
	}
	for name, tt := range map[string]struct {
		db     string
		pid    uint32
		part   diff.Part
		behind func(*diff.Key) bool
	}{
		"a slower GPU":  {calm, pids[2], diff.GPUWait, func(k *diff.Key) bool { return k.Op == fixtureSync }},
		"other copies":  {calm, pids[3], diff.CallCPU, func(k *diff.Key) bool { return k.Op == mustOp("cudaMemcpyAsync") }},
		"more launches": {calm, pids[4], diff.GPUWait, func(k *diff.Key) bool { return k.Op == fixtureSync }},
		"a hog":         {busy, hogged[0], diff.Runnable, func(k *diff.Key) bool { return k.Who == "sh" }},
	} {
		p := differs(t, calm, pids[0], tt.db, tt.pid)
		if !p.Step.Found || p.Relative() < 0.02 {
			t.Errorf("%s: step %+v", name, p.Step)
		}
		if i := tt.part - diff.GPUWait; !p.Parts[i].Found || p.Parts[i].Delta() < 0 {
			t.Errorf("%s: %v %+v", name, tt.part, p.Parts[i])
		}
		most := &p.Within[0]
		if !tt.behind(&most.Key) {
			t.Errorf("%s: most of it is %+v", name, most)
		}
		t.Logf("%s: %+.1f %% (p %.2g), %v %+.0f us", name, 100*p.Relative(), p.Step.P, tt.part, p.Parts[tt.part-diff.GPUWait].Delta()/1e3)
	}
}
