package explain

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var reports = []struct {
	name string
	in   func() *Input
}{
	{"train", func() *Input { return input(train(4821, 200), 4821) }},
	{"two", func() *Input {
		m := train(4821, 10)
		m.train(4822, 20)
		in := input(m, 4821, 4822, 4823)
		in.Processes[1].Ended = start.Add(30 * time.Second)
		in.Host = &tick.Host{CPU: 0.471, CPUs: 16, MemTotal: 64 << 30, MemAvail: 12 << 30, Load: [3]float64{3.2, 2, 1}}
		in.Self = &tick.Self{CPU: 512 * time.Millisecond, RSS: 22 << 20}
		return in
	}},
	{"engine", func() *Input {
		in := input(train(4821, 10), 4820, 4821)
		in.Processes[0].Cmdline = "/usr/bin/python3 /usr/local/bin/vllm serve Qwen/Qwen2.5-7B-Instruct -tp 2"
		in.Processes[1].PPID, in.Processes[1].Cmdline = 4820, "VLLM::Worker_TP1"
		return in
	}},
	{"host", func() *Input {
		in := input(train(4821, 10), 4821)
		in.HostSums = hostSums()
		return in
	}},
	{"lossy", func() *Input {
		m := train(4821, 100)
		in := input(m, 4821)
		for i := range in.Ops {
			in.Ops[i].Thinned = in.Ops[i].Op == launch
		}
		g := m.gaps[4821]
		g.Calls, g.Count = g.Calls/2, g.Count/2 // the other half is in the gaps
		for _, s := range outermost(in.Ops) {
			g.Total, g.OnCPU, g.Runnable, g.Blocked = g.Total+s.total/2, g.OnCPU+s.onCPU/2, g.Runnable+s.runnable/2, g.Blocked+s.blocked/2
		}
		in.Drops = []tick.Drop{{Reason: "ring-full", Count: 1050}, {Reason: "thinned", Count: 0}, {Reason: "duplicate-link", Count: 3}}
		in.Reports = []tick.Report{
			{Kind: "not-calibrated", Object: "probes", Why: "durations include the cost of the probes, which could not be measured: no clock"},
			{Kind: "missing-symbol", Object: "libcuda.so.1", Why: "cuLaunchGrid is not exported"},
			{Kind: "not-attached", Object: "/opt/libcudart.so.13", Why: "permission denied"},
		}
		return in
	}},
	{"counted", func() *Input { // no return probes, or the calls did not return
		m := newMaker()
		m.call(events.Call{PID: 9, Op: launch, Flags: events.CallUnmeasured})
		m.call(events.Call{PID: 9, Op: graph, Flags: events.CallUnmeasured})
		m.ops.Op(9, streamSyn).Sum = tick.Counts{Calls: 3, Abandoned: 2}
		return input(m, 9)
	}},
	{"partial", func() *Input { // threads that blocked and moved, a long name, no gaps
		m := newMaker()
		m.call(events.Call{PID: 9, Op: longName, OnCPU: 3 * ms, Runnable: ms, Flags: events.CallLedgerPartial})
		m.call(events.Call{PID: 9, Op: memcpy, OnCPU: 3 * ms, Blocked: 5 * ms})
		in := input(m, 9)
		in.Gaps = nil
		return in
	}},
	{"faults", func() *Input {
		in := input(train(4821, 10), 4821)
		in.Xids = gpuTick().Xids
		return in
	}},
	{"faults-many", func() *Input {
		in := &Input{}
		for i := range 2 * mostBursts {
			x := gpuTick().Xids[i%2]
			x.Time, x.After, x.At, x.Burst = x.Time+int64(i*int(second)), 0, 1, uint64(i)
			in.Xids = append(in.Xids, x)
		}
		return in
	}},
	{"none", func() *Input { return input(newMaker(), 4821) }},
	{"empty", func() *Input { return &Input{} }},
}

func TestReport(t *testing.T) {
	for _, tt := range reports {
		t.Run(tt.name, func(t *testing.T) {
			got := Report(tt.in(), Options{Location: cet})
			narrow(t, got, 80)
			testkit.Golden(t, "report-"+tt.name+".txt", got)
		})
	}
}

func TestReportJSON(t *testing.T) {
	for _, tt := range reports {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ReportJSON(tt.in())
			if err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, "report-"+tt.name+".json", string(got))
		})
	}
}

// narrow checks that no line exceeds the width or ends in spaces.
func narrow(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := cells(line); n > width {
			t.Errorf("%d columns: %q", n, line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("ends in spaces: %q", line)
		}
	}
}

// Every figure that both JSON and text have is equal.
func TestTextAndJSONAgree(t *testing.T) {
	for _, tt := range reports {
		t.Run(tt.name, func(t *testing.T) {
			in := tt.in()
			text := strings.Join(strings.Fields(Report(in, Options{})), " ")
			b, err := ReportJSON(in)
			if err != nil {
				t.Fatal(err)
			}
			var r report
			if err := json.Unmarshal(b, &r); err != nil {
				t.Fatal(err)
			}
			has := func(want string) {
				t.Helper()
				if !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
					t.Errorf("the text lacks %q", want)
				}
			}
			for _, p := range r.Processes {
				has(processName(p.Comm, p.PID))
				for _, o := range p.Ops {
					has(o.Op + " " + Count(o.Calls))
					if o.TotalNS != nil {
						has(o.Op + " " + short(ns64(*o.TotalNS)) + " " + short(ns64(*o.OnCPUNS)))
					}
				}
				if p.Time == nil {
					continue
				}
				for i, part := range p.Time.Parts {
					if part.NS > 0 {
						has(partLabels[i] + " " + short(ns64(part.NS)) + " " + tenths(int(part.Percent*10+0.5), part.NS) + " %")
					}
				}
			}
			for _, n := range r.Notes { // the text breaks lines
				has(n)
			}
		})
	}
}

func TestReportIsSafe(t *testing.T) {
	in := input(train(4821, 1), 4821)
	in.Processes[0].Comm = "a\x1b[2Jb\n"
	in.Processes[0].Exe = "/tmp/\u202e\x07" + strings.Repeat("long", 40)
	in.Node = "\x00"
	got := Report(in, Options{})
	narrow(t, got, 80)
	if strings.ContainsAny(got, "\x1b\x07\x00\u202e") {
		t.Errorf("control characters get through: %q", got)
	}
	if !strings.Contains(got, "a?[2Jb? (4821)") {
		t.Errorf("the name is gone: %q", got[:40])
	}
}
