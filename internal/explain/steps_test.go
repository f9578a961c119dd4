package explain

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// looped returns a process whose steps wait for the GPU three times each.
func looped(pid uint32) tick.Breakdown {
	b := hogged(pid)
	l := &tick.Loop{TID: pid, Op: streamSyn, Waits: 3, Steps: 1267, Total: time.Minute, Lengths: &stats.Sketch{}, P50: 45300 * time.Microsecond, P99: 81 * time.Millisecond,
		Usual: tick.StepTimes{GPUWait: 44 * ms, CallCPU: 800_000, GapCPU: 500_000}}
	for i := range 3 {
		took := []tick.Share{{NS: uint64(40-10*i) * ms, Count: 9, Who: thread("stress-ng", 8821, 8821)}}
		if i == 2 {
			took = []tick.Share{{NS: 33 * ms, Count: 1, Reason: events.ReasonDisk, Call: syscallNamed("fsync"), Dev: 254 << 20}}
		}
		s := tick.LoopStep{From: start.Add(time.Duration(20+i) * time.Second), Times: tick.StepTimes{GPUWait: 42 * ms, CallCPU: 850_000, GapCPU: 450_000}, Took: took}
		if i == 2 {
			s.Times.Blocked = 33 * ms
		} else {
			s.Times.Runnable = time.Duration(43-10*i) * ms
		}
		length := time.Duration(0)
		for _, p := range s.Times.Parts() {
			length += *p
		}
		s.To = s.From.Add(length)
		l.Slowest = append(l.Slowest, s)
	}
	b.Loop = l
	return b
}

// The steps of a loop are reported as a person counts them, and the slowest with the reasons.
func TestStepsOfALoop(t *testing.T) {
	in := ledgerInput(train(4821, 200), looped(4821))
	in.Chains = []tick.Chain{takenChain(4821)}
	got := Report(in, Options{Location: cet})
	narrow(t, got, 80)
	testkit.Golden(t, "incident-loop.txt", got)
	b, err := ReportJSON(in)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "incident-loop.json", string(b))
	in.Chains = nil
	in.Breakdowns[0].Runnable = 0
	if got := strings.Join(strings.Fields(Report(in, Options{})), " "); !strings.Contains(got, "1,267 steps, 45.3 ms each (p99 81.0 ms)") {
		t.Errorf("a healthy loop: %s", got)
	}
}

// Steps named by the program are reported by any such name.
func TestStepsThatAreRanges(t *testing.T) {
	for name, want := range map[string]string{
		"train step":                `"train step"`,
		"iteration #":               `"iteration #"`,
		`say "so"`:                  `"say \"so\""`,
		"\x1b[2J\x1b]0;x\a\n\u202e": `"?[2J?]0;x???"`,
		strings.Repeat("n", 127):    `"` + strings.Repeat("n", 45) + `..."`,
	} {
		in := ledgerInput(train(4821, 200), looped(4821))
		l := in.Breakdowns[0].Loop
		l.Range, l.Waits, l.Op = name, 1, testkit.Op("nvtxRangePop")
		flat := func() string { return strings.Join(strings.Fields(Report(in, Options{})), " ") }
		in.Chains = []tick.Chain{takenChain(4821)}
		if got := flat(); !strings.Contains(got, "Steps: 1,267, p50 45.3 ms, p99 81.0 ms, each the NVTX range "+want) {
			t.Errorf("%q: %s", name, got)
		}
		b, err := ReportJSON(in)
		if err != nil || !strings.Contains(string(b), `"nvtx_range":`) && !strings.Contains(string(b), `"nvtx_range": `) || !strings.Contains(string(b), `"nvtxRangePop"`) {
			t.Errorf("%q: %v, %s", name, err, b)
		}
		in.Chains, in.Breakdowns[0].Runnable = nil, 0
		if got := flat(); !strings.Contains(got, "1,267 steps (NVTX range "+want+"), 45.3 ms each") {
			t.Errorf("%q, healthy: %s", name, got)
		}
	}
}

// A slow step is explained by its extra time over the usual step, and small differences are left
// out.
func TestWhyAStepIsSlow(t *testing.T) {
	usual := tick.StepTimes{GPUWait: 10 * ms, GapCPU: ms}
	for want, times := range map[string]tick.StepTimes{
		"":                                      usual,
		"+5.00 ms GPU wait":                     {GPUWait: 15 * ms, GapCPU: ms + 1000},
		"+9.00 ms CPU between calls":            {GPUWait: 10 * ms, GapCPU: 10 * ms},
		"+8.00 ms throttled, -4.00 ms GPU wait": {GPUWait: 6 * ms, GapCPU: ms, Throttled: 8 * ms},
		"+1.00 ms not known, +900 us CPU in calls": {GPUWait: 10 * ms, GapCPU: ms, Unknown: ms, CallCPU: 900_000},
	} {
		if got := stepDifferences(&tick.LoopStep{Times: times}, &usual); got != want {
			t.Errorf("why(%+v) = %q, want %q", times, got, want)
		}
	}
}
