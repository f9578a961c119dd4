package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ingero/internal/wire"
)

func checkTool() *tool {
	return &tool{
		name: "get_check", title: "Can this machine be traced, and what is it?", changes: true,
		about:    "Checks the machine now: kernel, BTF, NVIDIA driver, CUDA libraries, GPU model, processes that use CUDA. For each problem it reports the effect and the command that fixes it. Use it when nothing is recorded, or to learn about the hardware.",
		facts:    []column{{"ready", "this machine can be traced", flag, false}},
		columns:  []column{{"name", "name of the check", words, false}, {"state", "state", words, false}, {"value", "value that was found", words, false}, {"note", "effect of this value", words, false}, {"do", "command to run", words, false}},
		register: answers((*server).check),
	}
}

// Only are the arguments of a tool that needs none.
type Only struct{ Form }

func (s *server) check(ctx context.Context, _ *Only) (*answer, error) {
	r, err := s.Machine.Check(ctx)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{r.Ready}}
	for i := range r.Lines {
		l := &r.Lines[i]
		a.rows = append(a.rows, []any{l.Name, l.State, l.Value, l.Note, l.Do})
	}
	return a, nil
}

func stuckTool() *tool {
	return &tool{
		name: "get_stuck", title: "Calls that have not returned", changes: true,
		about: "CUDA calls and NCCL collectives that have not returned: for how long, what their threads do or wait for, which rank is missing from a collective and what it does instead. Use it for 'it hangs', 'training makes no progress'. It needs a running trace.",
		facts: []column{{"calls", "number of calls that have not returned", count, false}, {"collectives", "number of collectives with missing ranks", count, false}},
		columns: []column{
			{"what", "open call or missing rank", words, false}, {"job", "process", words, false}, {"pid", "its process ID (pid)", count, false}, {"tid", "thread ID", count, false}, {"op", "call", words, false}, {"open_ns", "time since the call began", nanos, false},
			{"state", "state of its thread", words, false}, {"reason", "what the thread waits for", words, false}, {"state_ns", "time in this state", nanos, false}, {"file", "file that it waits for", words, false}, {"cpu_holder", "process that has the CPU", words, false}, {"text", "summary", words, false},
		},
		register: answers((*server).stuck),
	}
}

// Stuck are the arguments of get_stuck.
type Stuck struct {
	Min string `json:"min,omitempty" jsonschema:"minimum time that a call has been open, such as 10s; default 1s"`
	Form
}

// stuckRow returns the row of a call.
func stuckRow(c *wire.StuckCall, what, text string) []any {
	holder := ""
	if h := c.OnCPU; h != nil {
		holder = fmt.Sprintf("%s[%d]", h.Comm, h.PID)
	}
	return []any{what, c.Comm, known(int64(c.PID)), known(int64(c.TID)), c.Op, known(c.OpenNS), c.State, c.Reason, known(c.StateNS), c.Path, holder, text}
}

func (s *server) stuck(ctx context.Context, in *Stuck) (*answer, error) {
	least := time.Second
	if in.Min != "" {
		d, err := time.ParseDuration(in.Min)
		if err != nil || d < time.Second/5 {
			return nil, &Refusal{fmt.Sprintf("min cannot be %s", quoted(in.Min, 20)), "write a duration of 200ms or more, such as 10s"}
		}
		least = d
	}
	out, err := s.Machine.Stuck(ctx, least)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{len(out.Calls), len(out.RollCalls)}, notes: out.Problems}
	if len(out.Calls)+len(out.RollCalls) == 0 {
		a.lead = "ok, no call is stuck"
	}
	for i := range out.RollCalls {
		r := &out.RollCalls[i]
		c := wire.StuckCall{PendingCall: wire.PendingCall{Op: r.Op}, OpenNS: r.WaitNS}
		a.rows = append(a.rows, stuckRow(&c, "collective", r.Text))
		for j := range r.Missing {
			m := &r.Missing[j]
			a.rows = append(a.rows, stuckRow(&m.Call, fmt.Sprintf("missing rank %d", m.Rank), m.Instead))
		}
	}
	for i := range out.Calls {
		a.rows = append(a.rows, stuckRow(&out.Calls[i], "call", ""))
	}
	return a, nil
}

func diffTool() *tool {
	return &tool{
		name: "diff_runs", title: "What changed between two runs",
		about: "Compares two recordings per step: how much slower or faster B is than A, and in which part of the time, with the p-value. A and B are recordings (ids from ingero://sessions), time ranges FROM..TO, or names of files beside the database. Default: the previous and the latest recording. Use it for 'slower than yesterday'.",
		facts: []column{{"a", "the first run", words, false}, {"b", "the second run", words, false}, {"pairs", "number of jobs in both runs", count, false}},
		columns: []column{
			{"job", "job", words, false}, {"what", "what changed", words, false}, {"a_ns", "time per step in the first run", number, false}, {"b_ns", "time per step in the second run", number, false}, {"delta_ns", "difference", number, false},
			{"relative", "difference as a share of the step", share, false}, {"p", "p-value: chance of such a difference between equal runs", number, false}, {"sure", "the difference is significant", flag, false}, {"line", "line of the program", words, false},
		},
		register: answers((*server).diff),
	}
}

// Diff are the arguments of diff_runs.
type Diff struct {
	A       string `json:"a,omitempty" jsonschema:"the first run"`
	B       string `json:"b,omitempty" jsonschema:"the second run"`
	Process string `json:"process,omitempty" jsonschema:"compare only this program, such as train.py"`
	Form
}

// effectRow returns the row of a difference.
func effectRow(e *wire.Effect, job, what string) []any {
	row := []any{job, what + e.Name, e.A, e.B, e.Delta, nil, e.P, e.Found, e.Line}
	if e.Relative != nil {
		row[5] = *e.Relative
	}
	return row
}

func (s *server) diff(ctx context.Context, in *Diff) (*answer, error) {
	out, err := s.Machine.Diff(ctx, in.A, in.B, in.Process)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{out.A.Session + " of " + out.A.Node, out.B.Session + " of " + out.B.Node, len(out.Pairs)}, notes: append(out.A.Notes, out.B.Notes...)}
	sure, compared := 0, 0
	for i := range out.Pairs {
		p := &out.Pairs[i]
		if p.Short {
			a.notes = append(a.notes, p.Role+" is too short for a comparison: record 60 s, at least 10 s")
			continue
		}
		if p.Step == nil && p.Findings == 0 {
			a.notes = append(a.notes, p.Role+" has no steps to compare: the runs have no repeated call in common")
			continue
		}
		compared++
		sure += p.Findings
		if p.Step != nil {
			if p.Step.Found {
				sure++
			}
			p.Step.Name = ""
			a.rows = append(a.rows, effectRow(p.Step, p.Role, "a step"))
		}
		for _, list := range [][]wire.Effect{p.Parts, p.Within} {
			for j := range list {
				if e := &list[j]; e.Found {
					a.rows = append(a.rows, effectRow(e, p.Role, ""))
				}
			}
		}
		for j := range p.Counts {
			if e := &p.Counts[j]; e.Found {
				a.notes = append(a.notes, fmt.Sprintf("%s: %.4g calls of %s a step, then %.4g", p.Role, e.A, e.Name, e.B))
			}
		}
	}
	for _, x := range []struct {
		run  string
		jobs []string
	}{{"first", out.OnlyA}, {"second", out.OnlyB}} {
		if len(x.jobs) > 0 {
			a.notes = append(a.notes, "only in the "+x.run+" run: "+strings.Join(x.jobs, ", "))
		}
	}
	switch {
	case compared == 0:
		a.lead = "nothing was compared"
	case sure == 0:
		a.lead = "ok, no significant difference"
	}
	return a, nil
}

func demoTool() *tool {
	return &tool{
		name: "run_demo", title: "What ingero finds in an example",
		about: "The report of an example recording that is built into ingero: incident, cold-start, memcpy-bottleneck, periodic-spike, cpu-contention or gpu-steal. It says nothing about this machine's jobs. Use it to show what ingero does.",
		facts: []column{{"scenario", "example", words, false}},
		columns: []column{
			{"severity", "severity of the loss, by its share of the job's time (LOW, MEDIUM or HIGH)", words, false}, {"rule", "name of the rule that found it", words, false}, {"job", "name of the process that lost time", words, false}, {"culprits", "names and process IDs of the culprits that took the time", words, false}, {"headline", "what was slow, by how much, and why", words, true}, {"cause", "what happened to the job, with details of the culprits", words, true}, {"lost_ns", "progress that the job lost to this cause", nanos, false}, {"confidence", "confidence, the share of the slow steps' extra time that this cause explains", share, false}, {"fix", "how to fix it", words, false},
		},
		register: answers((*server).demo),
	}
}

// Demo are the arguments of run_demo.
type Demo struct {
	Scenario string `json:"scenario,omitempty" jsonschema:"incident (default), cold-start, memcpy-bottleneck, periodic-spike, cpu-contention or gpu-steal"`
	Form
}

func (s *server) demo(ctx context.Context, in *Demo) (*answer, error) {
	if in.Scenario == "" {
		in.Scenario = "incident"
	}
	r, err := s.Machine.Demo(ctx, in.Scenario)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{in.Scenario}, notes: []string{"this is an example, not data of this machine"}}
	for i := range r.Chains {
		c := &r.Chains[i]
		a.rows = append(a.rows, []any{c.Severity, c.Rule, c.Comm, culpritText(c), c.Headline, c.RootCause, c.LostNS, c.Confidence, c.Fix})
	}
	return a, nil
}

func testReportTool() *tool {
	return &tool{
		name: "get_test_report", title: "Report of the tests on a GPU",
		about:    "The report of `make test-gpu` on this machine: results of ingero's own tests on its GPU. It says nothing about jobs.",
		facts:    []column{{"time", "time of the run", moment, false}, {"simulated", "true if the GPU was simulated", flag, false}, {"failures", "number of failures", count, false}, {"traces", "number of traced programs", count, false}},
		columns:  []column{{"part", "part", words, false}, {"name", "name", words, false}, {"result", "result", words, false}},
		register: answers((*server).testReport),
	}
}

func (s *server) testReport(_ context.Context, _ *Only) (*answer, error) {
	text, err := s.Machine.TestReport()
	if err != nil {
		return nil, err
	}
	var r struct {
		Time                    time.Time
		Simulated               bool
		Suite, Traces, Overhead []map[string]any
		Failures                []string
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, &Refusal{"the test report cannot be read", "run make test-gpu to create it again"}
	}
	a := &answer{facts: []any{stamp(r.Time), r.Simulated, len(r.Failures), len(r.Traces)}}
	for _, f := range r.Failures {
		a.rows = append(a.rows, []any{"failure", f, ""})
	}
	for _, part := range []struct {
		name string
		list []map[string]any
	}{{"suite", r.Suite}, {"trace", r.Traces}, {"overhead", r.Overhead}} {
		for _, x := range part.list {
			b, err := json.Marshal(x)
			if err != nil {
				return nil, err
			}
			name, _ := x["name"].(string)
			a.rows = append(a.rows, []any{part.name, name, strings.ReplaceAll(string(b), `"`, "")})
		}
	}
	return a, nil
}
