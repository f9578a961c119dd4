package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

func checkTool() *tool {
	return &tool{
		name: "get_check", title: "Can this machine be traced, and what is it?", changes: true,
		about:    "Looks at the machine now: kernel, BTF, NVIDIA driver, CUDA libraries, GPU model, processes that use CUDA, what each missing thing costs and what to type. Use it when nothing is recorded, or to learn about the hardware.",
		facts:    []column{{"ready", "this machine can be traced", flag, false}},
		columns:  []column{{"name", "what", words, false}, {"state", "state", words, false}, {"value", "what was found", words, false}, {"note", "what that means", words, false}, {"do", "what to type", words, false}},
		register: answers((*server).check),
	}
}

// Only are the arguments of a tool that needs none.
type Only struct{ Form }

func (s *server) check(ctx context.Context, _ *Only) (*answer, error) {
	ready, lines, err := s.Machine.Check(ctx)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{ready}}
	for _, l := range lines {
		a.rows = append(a.rows, []any{l.Name, l.State, l.Value, l.Note, l.Do})
	}
	return a, nil
}

func stuckTool() *tool {
	return &tool{
		name: "get_stuck", title: "Calls that have not returned", changes: true,
		about: "CUDA calls and NCCL collectives that have not returned now, for how long, what their threads do or wait for, and which rank is missing from a collective and what it does instead. Use it for 'it hangs', 'training stands still'. It needs a running trace.",
		facts: []column{{"calls", "calls that have not returned", count, false}, {"collectives", "collectives that ranks are missing from", count, false}},
		columns: []column{
			{"what", "call that is open, or rank that is missing", words, false}, {"job", "process", words, false}, {"pid", "its number", count, false}, {"tid", "thread", count, false}, {"op", "call", words, false}, {"open_ns", "open for", nanos, false},
			{"state", "its thread is", words, false}, {"reason", "waits for", words, false}, {"state_ns", "for", nanos, false}, {"file", "of this file", words, false}, {"cpu_holder", "who has the CPU", words, false}, {"text", "in words", words, false},
		},
		register: answers((*server).stuck),
	}
}

// Stuck are the arguments of get_stuck.
type Stuck struct {
	Min string `json:"min,omitempty" jsonschema:"calls that have been open for so long: 10s; default 1s"`
	Form
}

// openCall is a call that has not returned.
type openCall struct {
	PID, TID                uint32
	Comm, Op, State, Reason string
	OpenNS                  int64 `json:"open_ns"`
	StateNS                 int64 `json:"state_ns"`
	Path                    string
	Holder                  *struct {
		PID  uint32
		Comm string
	} `json:"cpu_holder"`
}

func (o *openCall) row(what, text string) []any {
	holder := ""
	if o.Holder != nil {
		holder = fmt.Sprintf("%s[%d]", o.Holder.Comm, o.Holder.PID)
	}
	return []any{what, o.Comm, known(int64(o.PID)), known(int64(o.TID)), o.Op, known(o.OpenNS), o.State, o.Reason, known(o.StateNS), o.Path, holder, text}
}

func (s *server) stuck(ctx context.Context, in *Stuck) (*answer, error) {
	least := time.Second
	if in.Min != "" {
		d, err := time.ParseDuration(in.Min)
		if err != nil || d < time.Second/5 {
			return nil, &Refusal{fmt.Sprintf("min cannot be %s", quoted(in.Min, 20)), "a length of time of 200ms or more: 10s"}
		}
		least = d
	}
	text, err := s.Machine.Stuck(ctx, least)
	if err != nil {
		return nil, err
	}
	var out struct {
		Calls     []openCall
		Problems  []string
		RollCalls []struct {
			Text, Op string
			WaitNS   int64 `json:"wait_ns"`
			Missing  []struct {
				Rank    int
				Does    openCall
				Instead string
			}
		} `json:"roll_calls"`
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	a := &answer{facts: []any{len(out.Calls), len(out.RollCalls)}, notes: out.Problems}
	if len(out.Calls)+len(out.RollCalls) == 0 {
		a.lead = "ok, no call is stuck"
	}
	for i := range out.RollCalls {
		r := &out.RollCalls[i]
		c := openCall{Op: r.Op, OpenNS: r.WaitNS}
		a.rows = append(a.rows, c.row("collective", r.Text))
		for j := range r.Missing {
			m := &r.Missing[j]
			a.rows = append(a.rows, m.Does.row(fmt.Sprintf("missing rank %d", m.Rank), m.Instead))
		}
	}
	for i := range out.Calls {
		a.rows = append(a.rows, out.Calls[i].row("call", ""))
	}
	return a, nil
}

func diffTool() *tool {
	return &tool{
		name: "diff_runs", title: "What changed between two runs",
		about: "Compares two recordings per step: how much slower or faster B is than A, and in which part of the time, with the chance that it is by accident. Sides are recordings (ids from ingero://sessions), a stretch of time FROM..TO, or the name of a file beside the database; default: the one before the latest, and the latest. Use it for 'slower than yesterday'.",
		facts: []column{{"a", "the first run", words, false}, {"b", "the second", words, false}, {"pairs", "jobs that are in both", count, false}},
		columns: []column{
			{"job", "job", words, false}, {"what", "what changed", words, false}, {"a_ns", "in the first, a step", number, false}, {"b_ns", "in the second, a step", number, false}, {"delta_ns", "difference", number, false},
			{"relative", "difference as a share of the step", share, false}, {"p", "chance that equal runs differ so", number, false}, {"sure", "it is a finding", flag, false}, {"line", "line of the program", words, false},
		},
		register: answers((*server).diff),
	}
}

// Diff are the arguments of diff_runs.
type Diff struct {
	A       string `json:"a,omitempty" jsonschema:"the first run"`
	B       string `json:"b,omitempty" jsonschema:"the second run"`
	Process string `json:"process,omitempty" jsonschema:"of this program only: train.py"`
	Form
}

// effect is a difference.
type effect struct {
	Name, Line  string
	A, B, Delta float64
	Relative    *float64
	P           float64
	Found       bool
}

func (e *effect) row(job, what string) []any {
	row := []any{job, what + e.Name, e.A, e.B, e.Delta, nil, e.P, e.Found, e.Line}
	if e.Relative != nil {
		row[5] = *e.Relative
	}
	return row
}

func (s *server) diff(ctx context.Context, in *Diff) (*answer, error) {
	text, err := s.Machine.Diff(ctx, in.A, in.B, in.Process)
	if err != nil {
		return nil, err
	}
	var out struct {
		A, B struct {
			Session, Node string
			From, To      time.Time
			Notes         []string
		}
		Pairs []struct {
			Role                  string
			Short                 bool `json:"too_short"`
			Step                  *effect
			Parts, Within, Counts []effect
		}
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	a := &answer{facts: []any{out.A.Session + " of " + out.A.Node, out.B.Session + " of " + out.B.Node, len(out.Pairs)}, notes: append(out.A.Notes, out.B.Notes...)}
	sure := 0
	for i := range out.Pairs {
		p := &out.Pairs[i]
		if p.Short {
			a.notes = append(a.notes, p.Role+" is too short to be compared: 60 s are good, below 10 nothing is said")
			continue
		}
		if p.Step != nil {
			p.Step.Name = ""
			a.rows = append(a.rows, p.Step.row(p.Role, "a step"))
		}
		for _, list := range [][]effect{p.Parts, p.Within} {
			for j := range list {
				if e := &list[j]; e.Found {
					sure++
					a.rows = append(a.rows, e.row(p.Role, ""))
				}
			}
		}
	}
	if sure == 0 {
		a.lead = "ok, nothing differs for sure"
	}
	return a, nil
}

func demoTool() *tool {
	return &tool{
		name: "run_demo", title: "What ingero finds in an example",
		about: "The report of an example, from a recording that is in this program: incident, cold-start, memcpy-bottleneck, periodic-spike, cpu-contention or gpu-steal. It has nothing to do with this machine's jobs. Use it to show what ingero does.",
		facts: []column{{"scenario", "example", words, false}},
		columns: []column{
			{"severity", "how grave the loss is, by the share of the time that it took (LOW, MEDIUM or HIGH)", words, false}, {"rule", "name of the rule that found it", words, false}, {"job", "name of the process that lost time", words, false}, {"culprits", "names and process numbers of the culprits, who took the time", words, false}, {"headline", "what was slow, by how much, and why", words, true}, {"cause", "what happened to the job, with all that is known of the culprits", words, true}, {"lost_ns", "progress that the job lost to this cause", nanos, false}, {"confidence", "confidence, which is the share of the time beyond normal that this cause explains", share, false}, {"fix", "what a person can do about it", words, false},
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
	text, err := s.Machine.Demo(ctx, in.Scenario)
	if err != nil {
		return nil, err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	a := &answer{facts: []any{in.Scenario}, notes: []string{"this is an example, not this machine"}}
	for i := range r.Chains {
		c := &r.Chains[i]
		a.rows = append(a.rows, []any{c.Severity, c.Rule, c.Comm, c.culpritText(), c.Headline, c.RootCause, c.LostNS, c.Confidence, c.Fix})
	}
	return a, nil
}

func testReportTool() *tool {
	return &tool{
		name: "get_test_report", title: "Report of the tests on a GPU",
		about:    "The report of `make test-gpu`, where it was run on this machine: how the tests of ingero itself did on its GPU. It says nothing about jobs.",
		facts:    []column{{"time", "time of the run", moment, false}, {"simulated", "on the simulated GPU", flag, false}, {"failures", "failures", count, false}, {"traces", "programs that were traced", count, false}},
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
		return nil, &Refusal{"the report of the tests cannot be read", "make test-gpu makes it anew"}
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
