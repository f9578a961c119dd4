package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// culpritColumns are who took the time.
var culpritColumns = []column{
	{"who", "culprit", words}, {"pid", "process number", count}, {"parent", "started by", words}, {"cmdline", "command line", words},
	{"where", "runs in", words}, {"lost_ns", "progress that it cost", nanos},
}

func diagnoseTool() *tool {
	return &tool{
		name: "diagnose", title: "What is wrong, who did it, what to do", tokens: briefTokens,
		about: "ALWAYS CALL THIS FIRST. Says in one call whether GPU jobs lost time, and if so the gravest cause: what was slow, by how much, the culprit (pid, name, command line, parent), " +
			"how much progress it cost, confidence, what it was not, and the command that fixes it. Says plainly when nothing is wrong. Use explain_chain(id=chain) for evidence. " +
			"Do not use it for hangs that go on now: get_stuck.",
		facts: []column{
			{"severity", "severity", words}, {"cause", "what happened", words}, {"rule", "rule that found it", words}, {"confidence", "share of the lost time that the cause explains", share},
			{"lost_ns", "progress that was lost", nanos}, {"window_ns", "in a time of", nanos}, {"slow_steps", "steps that were slow", count}, {"steps", "of so many steps", count},
			{"job", "the job that lost it", words}, {"pid", "its process number", count}, {"op", "the call that became slow", words}, {"op_p99_ns", "99th percentile of that call", nanos},
			{"step_p99_ns", "99th percentile of a step", nanos}, {"without_ns", "99th percentile of a step without the cause", nanos},
			{"line", "line of the program", words}, {"from", "first slow step", moment}, {"to", "last slow step", moment},
			{"not", "what was looked at and is not the cause", words}, {"fix", "what to do", words}, {"chain", "id of this cause, for explain_chain", words},
			{"others", "other causes that were found: rule, lost time and id", words}, {"faults", "faults that GPUs reported (get_xids)", count}, {"well", "how the jobs did", words},
		},
		columns:  culpritColumns,
		register: answers((*server).diagnose),
	}
}

// Diagnose are the arguments of diagnose.
type Diagnose struct {
	When
	PIDs
	Form
}

func (s *server) diagnose(ctx context.Context, in *Diagnose) (*answer, error) {
	r, err := s.reportOf(ctx, in.When, in.PIDs)
	if err != nil {
		return nil, err
	}
	in.MaxTokens = min(in.form().budget(briefTokens), briefTokens)
	a := &answer{lead: "ok, nothing is wrong", facts: make([]any, len(diagnoseTool().facts)), notes: r.Notes[:min(len(r.Notes), 1)]}
	n := len(a.facts)
	a.facts[n-2] = known(int64(len(r.Xids)))
	if len(r.Chains) == 0 {
		if len(r.Xids) > 0 {
			a.lead = "bad: no time was lost that has a cause, but GPUs reported faults"
		}
		a.facts[n-1] = wellText(r)
		return a, nil
	}
	c := &r.Chains[0]
	a.lead = "bad"
	copy(a.facts, []any{c.Severity, c.causeText(), c.Rule, c.Confidence, c.LostNS, known(c.WindowNS), known(c.SlowSteps), known(c.Steps), c.Comm, c.PID, c.Op,
		known(c.OpP99NS), known(c.StepP99NS), known(c.WithoutNS), c.At, stamp(c.From), stamp(c.To), strings.Join(c.NotIt, ", "), c.Fix, c.ID, othersText(r.Chains[1:])})
	a.rows = c.culpritRows()
	return a, nil
}

// causeText is the headline's second half: who did what.
func (c *chain) causeText() string {
	if _, what, ok := strings.Cut(c.Headline, " - "); ok {
		return what
	}
	return c.Headline
}

// culpritRows are the culprits, a row each process.
func (c *chain) culpritRows() (rows [][]any) {
	at := map[string]int{}
	for i := range c.Culprits {
		x := &c.Culprits[i]
		key := fmt.Sprint(x.called(), x.PID)
		if j, again := at[key]; again && x.PID != 0 {
			rows[j][5] = rows[j][5].(int64) + x.LostNS
			continue
		}
		at[key] = len(rows)
		where := x.Where
		if where == "" && x.Cgroup != "/" {
			where = x.Cgroup
		}
		rows = append(rows, []any{x.called(), known(int64(x.PID)), x.Parent, x.Cmdline, where, x.LostNS})
	}
	return rows
}

// othersText names the causes behind the gravest.
func othersText(chains []chain) any {
	const most = 3
	var out []string
	for i := range chains[:min(len(chains), most)] {
		c := &chains[i]
		out = append(out, fmt.Sprintf("%s %s %s", c.Rule, (&column{kind: nanos}).short(c.LostNS, maxText), c.ID))
	}
	if more := len(chains) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more (get_causal_chains)", more))
	}
	if len(out) == 0 {
		return nil
	}
	return strings.Join(out, ", ")
}

// wellText is what a person is told of jobs that nothing slowed.
func wellText(r *report) any {
	var out []string
	for part := range strings.SplitSeq(r.text, "\n\n") {
		if strings.HasPrefix(part, "Nothing") {
			out = append(out, strings.Join(strings.Fields(part), " "))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return strings.Join(out[:1], " ")
}

func explainChainTool() *tool {
	return &tool{
		name: "explain_chain", title: "The evidence for one cause",
		about: "The whole evidence for one cause of lost time, by its id from diagnose or get_causal_chains: timeline of what was measured, culprits, baseline, what was ruled out. Use it when asked 'how do you know?' or before acting on a fix.",
		facts: []column{
			{"severity", "severity", words}, {"rule", "rule that found it", words}, {"headline", "headline", words}, {"root_cause", "root cause", words}, {"fix", "what to do", words},
			{"confidence", "share of the lost time that the cause explains", share}, {"lost_ns", "progress that was lost", nanos}, {"excess_ns", "time beyond normal, whatever its cause", nanos}, {"window_ns", "in a time of", nanos},
			{"slow_steps", "steps that were slow", count}, {"steps", "of so many steps", count}, {"step_p50_ns", "median of a step", nanos}, {"step_p99_ns", "99th percentile of a step", nanos},
			{"without_ns", "99th percentile of a step without the cause", nanos}, {"baseline", "what is normal", words}, {"job", "the job that lost it", words}, {"pid", "its process number", count},
			{"line", "line of the program", words}, {"from", "first slow step", moment}, {"to", "last slow step", moment}, {"not", "what was looked at and is not the cause", words}, {"culprits", "culprits, with what each took", words},
		},
		columns:  []column{{"time", "time", moment}, {"source", "seen in", words}, {"text", "what was measured", words}},
		register: answers((*server).explainChain),
	}
}

// ExplainChain are the arguments of explain_chain.
type ExplainChain struct {
	ID string `json:"id" jsonschema:"of the cause: c-7f3a"`
	Form
}

func (s *server) explainChain(ctx context.Context, in *ExplainChain) (*answer, error) {
	c, err := s.chain(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var who []string
	for _, row := range c.culpritRows() {
		text := fmt.Sprint(row[0])
		if row[1] != nil {
			text += fmt.Sprintf("[%d]", row[1])
		}
		who = append(who, text+" "+(&column{kind: nanos}).short(row[5], maxText))
	}
	a := &answer{facts: []any{c.Severity, c.Rule, c.Headline, c.RootCause, c.Fix, c.Confidence, c.LostNS, known(c.ExcessNS), known(c.WindowNS), known(c.SlowSteps), known(c.Steps),
		known(c.StepP50NS), known(c.StepP99NS), known(c.WithoutNS), c.Baseline, c.Comm, c.PID, c.At, stamp(c.From), stamp(c.To), strings.Join(c.NotIt, ", "), strings.Join(who, ", ")}}
	for _, m := range c.Timeline {
		a.rows = append(a.rows, []any{stamp(m.Time), m.Source, m.Text})
	}
	return a, nil
}

// chain finds one by its ID: in the latest recording, else in the one that has it.
func (s *server) chain(ctx context.Context, id string) (*chain, error) {
	none := &Refusal{fmt.Sprintf("there is no cause %s", quoted(id, 40)), "get_causal_chains lists them, with their ids"}
	if len(id) > 64 || strings.ContainsAny(id, `'"\`) {
		return nil, none
	}
	res, err := s.sql(ctx, statement("SELECT from_ns, to_ns FROM chains WHERE id = '%s' ORDER BY to_ns DESC LIMIT 1", id))
	if err != nil {
		return nil, err
	}
	if len(res.Rows) == 0 {
		return nil, none
	}
	w := When{}
	from, has := res.Rows[0][0].(int64)
	to, had := res.Rows[0][1].(int64)
	if has && had {
		w.From, w.To = time.Unix(0, from-1).UTC().Format(time.RFC3339Nano), time.Unix(0, to+1).UTC().Format(time.RFC3339Nano)
	}
	r, err := s.reportOf(ctx, w, PIDs{})
	if err != nil {
		return nil, err
	}
	for i := range r.Chains {
		if r.Chains[i].ID == id {
			return &r.Chains[i], nil
		}
	}
	return nil, &Refusal{fmt.Sprintf("the cause %s is hidden", quoted(id, 40)), "ingero silence, --rules-off and --min-severity hide causes"}
}

func chainsTool() *tool {
	return &tool{
		name: "get_causal_chains", quiet: true, title: "All causes of lost time",
		about: "Causes of lost time, the gravest first; equal ones (same rule, job, call and culprits) are told once, with how often and their sum. Use it when diagnose names others, or for history: since=24h. One line each; explain_chain has the rest.",
		facts: []column{{"found", "causes that were found, before equal ones were put together", count}, {"hidden", "causes that are not shown (silenced)", count}, {"from", "looked at from", moment}, {"to", "to", moment}},
		columns: []column{
			{"id", "id", words}, {"severity", "severity", words}, {"rule", "rule", words}, {"job", "job that lost time", words}, {"pid", "its process number", count}, {"op", "call that became slow", words},
			{"lost_ns", "progress that was lost", nanos}, {"confidence", "confidence", share}, {"times", "how often it was found", count}, {"culprits", "culprits", words}, {"fix", "what to do", words},
		},
		register: answers((*server).chains),
	}
}

// Chains are the arguments of get_causal_chains.
type Chains struct {
	When
	PIDs
	Limit int `json:"limit,omitempty" jsonschema:"so many at most; default 10"`
	Form
}

func (s *server) chains(ctx context.Context, in *Chains) (*answer, error) {
	r, err := s.reportOf(ctx, in.When, in.PIDs)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{len(r.Chains), known(int64(len(r.Hidden))), stamp(r.From), stamp(r.To)}, notes: r.Notes[:min(len(r.Notes), 2)]}
	if len(r.Chains) == 0 {
		a.lead = "ok, no cause of lost time was found"
	}
	at := map[string][]any{}
	for i := range r.Chains {
		c := &r.Chains[i]
		var who []string
		for _, row := range c.culpritRows() {
			text := fmt.Sprint(row[0])
			if row[1] != nil {
				text += fmt.Sprintf("[%d]", row[1])
			}
			who = append(who, text)
		}
		names := strings.Join(who[:min(len(who), 4)], ",")
		key := strings.Join([]string{c.Rule, c.Comm, c.Op, names}, "\x00")
		if row := at[key]; row != nil {
			row[6], row[8] = row[6].(int64)+c.LostNS, row[8].(int)+1
			continue
		}
		row := []any{c.ID, c.Severity, c.Rule, c.Comm, c.PID, c.Op, c.LostNS, c.Confidence, 1, names, c.Fix}
		at[key] = row
		if limit := in.Limit; len(a.rows) < limit || limit <= 0 && len(a.rows) < 10 {
			a.rows = append(a.rows, row)
		}
	}
	return a, nil
}
