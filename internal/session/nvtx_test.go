package session_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// clocked has a program's own figures on its steps.
type clocked struct {
	Steps    uint64
	Ranges   uint64
	RangeP50 time.Duration `json:"range_p50_ns"`
	Launches uint64        `json:"cudaLaunchKernel"`
	Syncs    uint64        `json:"cudaStreamSynchronize"`
}

// trainNVTX traces a training loop that names its steps.
func trainNVTX(t *testing.T, mode probes.Mode, args ...string) (clocked, *keeper, *running) {
	t.Helper()
	testkit.NeedBPF(t)
	s, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.Program("train"), append([]string{"--hold", "--alloc-every", "0"}, args...)...)
	cmd.Env = append(os.Environ(), "INGERO_SIM_SYNC=block", "INGERO_SIM_NVTX=1")
	child := testkit.Start(t, cmd)
	child.Line("ready")
	kept := &keeper{}
	o := session.LiveOptions{Select: pids(child), Raw: true}
	o.Probes = probes.Options{Mode: mode, Rows: nvtxRows(), SamplingRate: 1}
	r := beginWith(t, o, session.Config{Sinks: []tick.Sink{kept}})
	child.Send("")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	var said clocked
	if err := json.Unmarshal([]byte(child.Stdout()[strings.Index(child.Stdout(), "{"):]), &said); err != nil {
		t.Fatalf("%v: %s", err, child.Stdout())
	}
	return said, kept, r
}

// nvtxRows returns the rows of NVTX, and those that the training loop calls.
func nvtxRows() (rows []events.Row) {
	rows = testkit.OpRows("cudaStreamSynchronize", "cudaLaunchKernel", "cudaMemcpyAsync")
	for i := range events.Catalog {
		if events.Catalog[i].Lib == events.LibNVTX {
			rows = append(rows, events.Catalog[i])
		}
	}
	return rows
}

// The steps that a program names are its steps: the same number in every mode, with any other names
// in and around them.
func TestStepsAreTheProgramsRanges(t *testing.T) {
	t.Parallel()
	const steps = 300
	for name, tt := range map[string]struct {
		mode probes.Mode
		args []string
		want string
	}{
		"session":          {probes.ModeSession, []string{"--nvtx", "train step"}, "train step"},
		"multi":            {probes.ModeMulti, []string{"--nvtx", "train step"}, "train step"},
		"perf":             {probes.ModePerf, []string{"--nvtx", "train step"}, "train step"},
		"started":          {probes.ModeAuto, []string{"--nvtx", "train step", "--nvtx-by", "start"}, "train step"},
		"started, multi":   {probes.ModeMulti, []string{"--nvtx", "train step", "--nvtx-by", "start"}, "train step"},
		"started, perf":    {probes.ModePerf, []string{"--nvtx", "train step", "--nvtx-by", "start"}, "train step"},
		"in a domain":      {probes.ModeAuto, []string{"--nvtx", "train step", "--nvtx-by", "domain", "--nvtx-junk"}, "train step"},
		"numbered":         {probes.ModeAuto, []string{"--nvtx", "iteration #"}, "iteration #"},
		"among junk":       {probes.ModeAuto, []string{"--nvtx", "train step", "--nvtx-junk"}, "train step"},
		"hostile":          {probes.ModeAuto, []string{"--nvtx", "\x1b[31m\"%s\"\n\xff", "--nvtx-junk"}, "\x1b[31m\"%s\"\n?"},
		"longer than kept": {probes.ModeAuto, []string{"--nvtx", strings.Repeat("n", 200)}, strings.Repeat("n", tick.MaxRangeName)},
	} {
		t.Run(name, func(t *testing.T) {
			said, kept, r := trainNVTX(t, tt.mode, append([]string{"--steps", "300", "--kernel-us", "100"}, tt.args...)...)
			if len(r.last.Breakdowns) != 1 || r.last.Breakdowns[0].Loop == nil {
				t.Fatalf("no loop in %+v", r.last.Breakdowns)
			}
			l := r.last.Breakdowns[0].Loop
			// The first began before the thread's first call.
			if l.Range != tt.want || said.Ranges != steps || l.Steps < steps-1 || l.Steps > steps || l.Waits != 1 {
				t.Errorf("%d steps of %q with %d waits, want %d of %q with 1", l.Steps, l.Range, l.Waits, said.Ranges, tt.want)
			}
			for i := range l.Slowest {
				var sum time.Duration
				for _, p := range l.Slowest[i].Times.Parts() {
					sum += *p
				}
				if s := &l.Slowest[i]; sum != s.Length() {
					t.Errorf("a step of %v: %+v", s.Length(), s.Times)
				}
			}
			undisturbed(t, kept.calls, r, &said)
		})
	}
}

// undisturbed checks that NVTX calls appear only in the loop.
func undisturbed(t *testing.T, calls []events.Call, r *running, said *clocked) {
	t.Helper()
	last := map[uint32]int64{}
	for i := range calls {
		c := &calls[i]
		if c.Op.Source() != events.SourceRuntime || c.Flags&events.CallNested != 0 {
			t.Fatalf("a call of %s, flags %x", c.Op, c.Flags)
		}
		// The time of the return probe is in neither.
		if at := last[c.TID]; at != 0 && c.Gap > c.Start-at {
			t.Fatalf("a gap of %d ns where %d passed between calls", c.Gap, c.Start-at)
		}
		last[c.TID] = c.End()
	}
	if sum := r.sum(); sum.Calls != said.Launches+2*said.Syncs || sum.Done != sum.Calls || r.last.Breakdowns[0].Steps != int(said.Syncs)-1 {
		t.Errorf("%d calls, %d done, %d steps of the ledger; the program made %d launches, %d copies and waits", sum.Calls, sum.Done, r.last.Breakdowns[0].Steps, said.Launches, said.Syncs)
	}
	noDrops(t, r.last, "text-left-out", "wait-left-out")
}
