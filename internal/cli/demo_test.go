package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"ingero/internal/session"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// recorded opens the recording of a scenario.
func recorded(t *testing.T, name string) *segment.Log {
	t.Helper()
	list, err := chosen([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	text, err := list[0].recording()
	if err != nil {
		t.Fatal(err)
	}
	return opened(t, text)
}

func opened(t *testing.T, text []byte) *segment.Log {
	t.Helper()
	log, err := segment.OpenLog(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// namesIn returns the names of all threads and processes in a recording.
func namesIn(t *testing.T, log *segment.Log) []string {
	t.Helper()
	seen := map[string]bool{}
	var e segment.Entry
	for {
		err := log.Next(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range e.Waits {
			seen[e.Waits[i].Who.Name.String()] = true
		}
		for i := range e.Lives {
			seen[e.Lives[i].Comm] = true
		}
		for _, p := range []*tick.Process{e.Process, e.Other} {
			if p != nil {
				seen[p.Comm], seen[p.Cgroup] = true, true
			}
		}
		if e.Tick != nil {
			for i := range e.Tick.Threads {
				seen[e.Tick.Threads[i].Comm] = true
			}
			for i := range e.Tick.HostSums {
				seen[e.Tick.HostSums[i].Comm] = true
			}
		}
	}
	delete(seen, "")
	var out []string
	for name := range seen {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// The embedded recordings name only the programs of the demonstration.
func TestRecordingsNameNobodyElse(t *testing.T) {
	for i := range scenarios {
		s := &scenarios[i]
		names := namesIn(t, recorded(t, s.name))
		if !slices.Contains(names, s.program[0]) || s.hog.threads > 0 && !slices.Contains(names, hogName) {
			t.Errorf("%s: names %q", s.name, names)
		}
		own := []string{s.program[0], hogName, "ingero", "/"}
		if len(s.beside) > 0 {
			own = append(own, s.beside[0])
		}
		for _, name := range names {
			if !slices.Contains(own, name) {
				t.Errorf("%s: the recording names %q", s.name, name)
			}
		}
	}
}

// The most severe chain of each recording has the expected cause and culprit; without a fault
// there is no chain.
func TestRecordingsShowTheCause(t *testing.T) {
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.name, func(t *testing.T) {
			replay := segment.NewReplay(recorded(t, s.name), segment.ReplayOptions{})
			c := &collector{}
			if err := session.Run(t.Context(), session.Config{Source: session.FromRecording(replay), Clock: replay, Sinks: []tick.Sink{c}, Poll: replayPoll}); err != nil {
				t.Fatal(err)
			}
			s.check(t, c.input("", "").Chains)
		})
	}
}

// check compares the chains with the expected cause.
func (s *scenario) check(t *testing.T, chains []tick.Chain) {
	t.Helper()
	var got []string
	for i := range chains {
		got = append(got, fmt.Sprintf("%s %s by %s, %v", chains[i].Severity, chains[i].Rule, chains[i].Culprit(), chains[i].Lost))
	}
	switch {
	case s.rule == "" && len(chains) > 0, s.rule != "" && len(chains) == 0:
	case s.rule == "", chains[0].Rule == s.rule && (s.culprit == "" || chains[0].Culprit() == s.culprit):
		return
	}
	t.Errorf("got %q, want %s by %s first", got, s.rule, s.culprit)
}

// jsonReport is the part of a report that the tests read.
type jsonReport struct {
	Source string
	Chains []struct {
		Rule     string
		LostNS   int64 `json:"lost_ns"`
		Culprits []struct {
			Name   string
			PID    uint32
			LostNS int64 `json:"lost_ns"`
		}
	}
	Processes []struct {
		Breakdown struct {
			Elapsed uint64 `json:"elapsed_ns"`
			Parts   []struct {
				NS uint64
				By []struct {
					Comm string
					PID  uint32
					NS   uint64
				}
			}
		}
	}
}

// incidentReport returns the JSON report of demo incident.
func (b *bench) incidentReport(args ...string) *jsonReport {
	b.t.Helper()
	stdout, stderr, code := b.output(append([]string{"demo", "incident", "--json"}, args...)...)
	if code != 0 {
		b.t.Fatalf("code %d:\n%s", code, stderr)
	}
	_, text, _ := bytes.Cut([]byte(stdout), []byte("{")) // the report is the first JSON
	var r jsonReport
	if err := json.Unmarshal(append([]byte("{"), text...), &r); err != nil {
		b.t.Fatalf("%v in %s", err, stdout)
	}
	if r.Source != "the simulated GPU" || len(r.Processes) != 1 {
		b.t.Fatalf("source %q, %d processes", r.Source, len(r.Processes))
	}
	return &r
}

// In a live incident, the parts of the job's time add up to all of it, and the recording names only
// the programs of the demonstration.
func TestDemoIncident(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(b.dir, "incident.ingero")
	r := b.incidentReport("--duration", "6s", "--save", file)
	var all uint64
	for _, part := range r.Processes[0].Breakdown.Parts {
		all += part.NS
	}
	if elapsed := r.Processes[0].Breakdown.Elapsed; all != elapsed || elapsed == 0 {
		t.Errorf("the parts add up to %d of %d ns", all, elapsed)
	}
	saved, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	own := []string{"train", hogName, "exe", "ingero", "/"} // the test runs as /proc/self/exe
	for _, name := range namesIn(t, opened(t, saved)) {
		if !slices.Contains(own, name) {
			t.Errorf("the recording names %q", name)
		}
	}
}

// The programs of each scenario run on the simulated GPU and end on their own.
func TestScenariosRun(t *testing.T) {
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range scenarios {
		s := &scenarios[i]
		for _, program := range [][]string{s.program, s.beside} {
			if len(program) == 0 {
				continue
			}
			t.Run(s.name+", "+program[0], func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), stack.Program(program[0]), append(program[1:len(program):len(program)], "--seconds", "1")...)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
	}
}

// Actions of other processes stay in a recording without their identity; shared input is not
// modified.
func TestOwned(t *testing.T) {
	o := &ownProcesses{}
	o.add(7, 9)
	other := events.Thread{PID: 8, TID: 8, Parent: 1, Cgroup: 5, Name: events.NameOf("secret")}
	hog := events.Thread{PID: 9, TID: 9, Parent: 1, Cgroup: 5, Name: events.NameOf(hogName)}
	b := &tick.Batch{
		Calls: make([]events.Call, 1),
		Waits: []events.Wait{
			{PID: 7, TID: 7, State: events.WaitRunnable, Duration: 5, Taken: 3, Who: other}, {PID: 7, TID: 7, State: events.WaitRunnable, Who: hog},
			{PID: 7, TID: 7, State: events.WaitBlocked, Who: other}, {PID: 8, TID: 8, State: events.WaitBlocked, Who: hog}},
		Ended: []tick.Thread{{PID: 7, TID: 7}, {PID: 8, TID: 8, Comm: "secret"}},
		Procs: []tick.ProcEvent{{PID: 7}, {PID: 8, Comm: "secret"}},
	}
	x := &tick.Tick{Threads: []tick.Thread{{PID: 8, Comm: "secret"}, {PID: 7, Comm: "train"}}, Others: []tick.Process{{PID: 8, Comm: "secret"}, {PID: 9, PPID: 8, Cgroup: "/secret"}},
		Processes: []tick.Process{{PID: 7, Comm: "train", Cgroup: "/secret"}}, Chains: []tick.Chain{{ID: "secret"}}, Hidden: []tick.Hidden{{Chain: tick.Chain{ID: "secret"}}}, Episodes: []tick.Episode{{ID: "secret"}},
		HostSums: []tick.HostSum{{HostKey: tick.HostKey{Kind: tick.HostDiskRead, PID: 8, Object: "vda"}, Comm: "secret"}, {HostKey: tick.HostKey{Kind: tick.HostCPUPressure, Object: "/secret"}},
			{HostKey: tick.HostKey{Kind: tick.HostOOM, PID: 7, Object: "/secret"}}, {HostKey: tick.HostKey{Kind: tick.HostSignal, PID: 7, Sender: 8, Object: "SIGSTOP"}, Comm: "secret"},
			{HostKey: tick.HostKey{Kind: tick.HostDiskRead, PID: 7, Object: "vda"}, Comm: "train"}}}
	before := fmt.Sprintf("%+v %+v", b, x)
	gotB, gotT := o.batch(b), o.tick(x)
	if text := fmt.Sprintf("%+v %+v", gotB, gotT); bytes.Contains([]byte(text), []byte("secret")) {
		t.Errorf("another is named in %s", text)
	}
	if len(gotB.Waits) != 3 || gotB.Waits[0].Taken != 3 || gotB.Waits[0].Flags != events.WaitOthers || gotB.Waits[0].Who != (events.Thread{}) ||
		gotB.Waits[1].Who.Name != hog.Name || gotB.Waits[1].Who.Parent != 0 || gotB.Waits[2].Flags != 0 {
		t.Errorf("waits: %+v", gotB.Waits)
	}
	if len(gotT.HostSums) != 3 {
		t.Errorf("host sums: %+v", gotT.HostSums)
	}
	if len(gotB.Calls) != 1 || len(gotB.Ended) != 1 || len(gotB.Procs) != 1 || len(gotT.Threads) != 1 || len(gotT.Others) != 1 || len(gotT.Processes) != 1 {
		t.Errorf("kept: %+v %+v", gotB, gotT)
	}
	if after := fmt.Sprintf("%+v %+v", b, x); after != before {
		t.Error("what other sinks have was changed")
	}
}

// The scenarios' GPU script works on the simulated driver, which accepts any kernel name and any
// code.
func TestDemoScriptOfGPU(t *testing.T) {
	testkit.NeedTool(t, "python3")
	dir := t.TempDir()
	stack, err := sim.Extract(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := demoFiles.ReadFile("demo/" + gpuScript)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, gpuScript)
	if err := os.WriteFile(script, text, 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "python3", append(append([]string{script}, s.onGPU...), "--seconds", "1", "--pin", "0")...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "LD_LIBRARY_PATH=" + stack.Dir}
			out, err := cmd.Output()
			var said struct{ Steps int }
			if err != nil || json.Unmarshal(out, &said) != nil || said.Steps < 2 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
