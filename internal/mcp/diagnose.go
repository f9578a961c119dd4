package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// culpritColumns describe the culprits.
var culpritColumns = []column{
	{"who", "name of the culprit, who or what took the time", words, false}, {"pid", "its process number (pid)", count, false}, {"parent", "name and number of the process that started it", words, false}, {"cmdline", "command line with which it runs", words, false},
	{"where", "container, pod or control group in which it runs", words, false}, {"lost_ns", "progress that the job lost to it", nanos, false},
}

func diagnoseTool() *tool {
	return &tool{
		name: "diagnose", title: "What is wrong, who did it, what to do", tokens: briefTokens,
		about: "ALWAYS CALL THIS FIRST. Says in one call whether GPU jobs lost time, and if so the gravest cause: what was slow, by how much, the culprit (pid, name, command line, parent), " +
			"how much progress it cost, confidence, what it was not, and the command that fixes it. Says plainly when nothing is wrong. Use explain_chain(id=chain) for evidence. " +
			"Do not use it for hangs that go on now: get_stuck.",
		facts: []column{
			{"severity", "how grave the loss is, by the share of the time that it took (LOW, MEDIUM or HIGH)", words, false}, {"cause", "what happened to the job, in a few words", words, false}, {"rule", "name of the rule that found it", words, false}, {"confidence", "confidence, which is the share of the time beyond normal that this cause explains", share, false},
			{"lost_ns", "progress that the job lost to this cause", nanos, false}, {"lost_min_ns", "it lost at least", nanos, false}, {"lost_max_ns", "it lost at most", nanos, false},
			{"window_ns", "the loss was looked for in a stretch of time as long as", nanos, false}, {"slow_steps", "number of steps that the cause made longer", count, false}, {"steps", "number of steps that the job made in that time", count, false},
			{"job", "name of the process that lost time", words, false}, {"pid", "process number (pid) of the one that lost time", count, false}, {"op", "the CUDA call that took longer than it should", words, false}, {"op_p99_ns", "99 of 100 of these calls took no longer than", nanos, false},
			{"step_p99_ns", "99 of 100 steps took no longer than", nanos, false}, {"without_ns", "without this cause 99 of 100 steps would have taken no longer than", nanos, false},
			{"line", "line of the program in which most of that time was spent", words, false}, {"from", "the first step that was slow began at", moment, false}, {"to", "the last step that was slow ended at", moment, false},
			{"not", "these were looked at as well and are not the cause", words, false}, {"fix", "what a person can do about it", words, false}, {"chain", "id of this cause, with which explain_chain tells the evidence", words, false},
			{"others", "other causes that were found: rule, lost time and id", words, false}, {"faults", "faults that GPUs reported (get_xids)", count, false}, {"well", "how the jobs did", words, false},
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
	a := &answer{lead: "ok, nothing is wrong", facts: make([]any, len(diagnoseTool().facts)), notes: limits(r.Notes)}
	n := len(a.facts)
	a.facts[n-2] = known(int64(len(r.Xids)))
	if len(r.Chains) == 0 {
		well := wellText(r)
		switch {
		case len(r.Xids) > 0:
			a.lead = "bad: no time was lost that has a cause, but GPUs reported faults"
		case well == nil: // its waits were not traced
			a.lead = "no cause of lost time was found, but it is not known how the jobs did"
		}
		a.facts[n-1] = well
		return a, nil
	}
	c := &r.Chains[0]
	a.lead = "bad"
	if c.Less != "" {
		a.notes = append([]string{"judged with less: " + c.Less}, a.notes...)
	}
	copy(a.facts, []any{c.Severity, c.causeText(), c.Rule, c.Confidence, c.LostNS, known(c.LostMinNS), known(c.LostMaxNS), known(c.WindowNS), known(c.SlowSteps), known(c.Steps), c.Comm, c.PID, c.Op,
		known(c.OpP99NS), known(c.StepP99NS), known(c.WithoutNS), c.At, stamp(c.From), stamp(c.To), strings.Join(c.NotIt, ", "), c.Fix, c.ID, othersText(r.Chains[1:])})
	a.rows = c.culpritRows()
	return a, nil
}

// limits returns the notes that limit a diagnosis: the first, and those that name causes that
// cannot be found because something was omitted.
func limits(notes []string) []string {
	out := slices.Clone(notes[:min(len(notes), 1)])
	for _, n := range notes[len(out):] {
		if strings.Contains(n, "causes that are not told since") {
			out = append(out, n)
		}
	}
	return out
}

// causeText returns the headline's second half: the culprit and its action.
func (c *chain) causeText() string {
	if _, what, ok := strings.Cut(c.Headline, " - "); ok {
		return what
	}
	return c.Headline
}

// culpritRows returns the culprits, one row per process.
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

// culpritText names the culprits: "stress-ng[8821], cron[711]".
func (c *chain) culpritText() string {
	const most = 4
	var who []string
	for _, row := range c.culpritRows() {
		text := fmt.Sprint(row[0])
		if row[1] != nil {
			text += fmt.Sprintf("[%d]", row[1])
		}
		who = append(who, text)
	}
	if more := len(who) - most; more > 0 {
		who = append(who[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(who, ", ")
}

// othersText names the causes after the most severe one.
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

// wellText is the text for jobs without lost time.
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
			{"severity", "how grave the loss is, by the share of the time that it took (LOW, MEDIUM or HIGH)", words, false}, {"rule", "name of the rule that found it", words, false}, {"headline", "headline", words, false}, {"root_cause", "root cause", words, false}, {"fix", "what a person can do about it", words, false},
			{"confidence", "confidence, which is the share of the time beyond normal that this cause explains", share, false}, {"lost_ns", "progress that the job lost to this cause", nanos, false}, {"excess_ns", "time beyond normal, whatever its cause", nanos, false}, {"window_ns", "the loss was looked for in a stretch of time as long as", nanos, false},
			{"slow_steps", "number of steps that the cause made longer", count, false}, {"steps", "number of steps that the job made in that time", count, false}, {"step_p50_ns", "median of a step", nanos, false}, {"step_p99_ns", "99 of 100 steps took no longer than", nanos, false},
			{"without_ns", "without this cause 99 of 100 steps would have taken no longer than", nanos, false}, {"baseline", "what is normal", words, false}, {"job", "name of the process that lost time", words, false}, {"pid", "process number (pid) of the one that lost time", count, false},
			{"line", "line of the program in which most of that time was spent", words, false}, {"from", "the first step that was slow began at", moment, false}, {"to", "the last step that was slow ended at", moment, false}, {"not", "these were looked at as well and are not the cause", words, false}, {"culprits", "culprits, with what each took", words, false},
		},
		columns:  []column{{"time", "time", moment, false}, {"source", "seen in", words, false}, {"text", "what was measured", words, false}},
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

// chain finds a chain by its ID: in the latest recording, else in the one that has it.
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
		facts: []column{{"found", "causes that were found, before equal ones were put together", count, false}, {"hidden", "causes that are not shown (silenced)", count, false}, {"from", "looked at from", moment, false}, {"to", "to", moment, false}},
		columns: []column{
			{"id", "id", words, false}, {"severity", "how grave the loss is, by the share of the time that it took (LOW, MEDIUM or HIGH)", words, false}, {"rule", "rule", words, false}, {"job", "name of the process that lost time", words, false}, {"pid", "process number (pid) of the one that lost time", count, false}, {"op", "the CUDA call that took longer than it should", words, false},
			{"lost_ns", "progress that the job lost to this cause", nanos, false}, {"confidence", "confidence, which is the share of the time beyond normal that this cause explains", share, false}, {"times", "number of times that it was found", count, false}, {"culprits", "names and process numbers of the culprits, who took the time", words, false}, {"fix", "what a person can do about it", words, false},
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
		names := c.culpritText()
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
