package mcp

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"ingero/internal/wire"
)

// culpritColumns describe the culprits.
var culpritColumns = []column{
	{"who", "name of the culprit that took the time", words, false}, {"pid", "its process ID (pid)", count, false}, {"parent", "name and pid of the process that started it", words, false}, {"cmdline", "its command line", words, false},
	{"where", "container, pod or control group in which it runs", words, false}, {"lost_ns", "progress that the job lost to this culprit", nanos, false},
}

func diagnoseTool() *tool {
	return &tool{
		name: "diagnose", title: "What is wrong, who did it, what to do", tokens: briefTokens,
		about: "ALWAYS CALL THIS FIRST. Reports whether GPU jobs lost time, and the most severe cause: what was slow, by how much, the culprit (pid, name, command line, parent), " +
			"the lost progress, the confidence, what was ruled out, and the command that fixes it. If nothing is wrong, it says so. Use explain_chain(id=chain) for evidence. " +
			"For jobs that hang now, use get_stuck; for slow requests to an inference server, get_requests.",
		facts: []column{
			{"severity", "severity of the loss, by its share of the job's time (LOW, MEDIUM or HIGH)", words, false}, {"cause", "what happened to the job, in a few words", words, false}, {"rule", "name of the rule that found it", words, false}, {"confidence", "confidence, the share of the slow steps' extra time that this cause explains", share, false},
			{"lost_ns", "progress that the job lost to this cause", nanos, false}, {"lost_min_ns", "lower bound of the lost progress", nanos, false}, {"lost_max_ns", "upper bound of the lost progress", nanos, false},
			{"window_ns", "length of the time range that was searched for losses", nanos, false}, {"slow_steps", "number of steps that the cause made longer", count, false}, {"steps", "number of steps that the job made in that time range", count, false},
			{"job", "name of the process that lost time", words, false}, {"pid", "process ID (pid) of the process that lost time", count, false}, {"op", "CUDA call that took too long", words, false}, {"op_p99_ns", "99th percentile of the duration of these calls", nanos, false},
			{"step_p99_ns", "99th percentile of the duration of steps", nanos, false}, {"without_ns", "99th percentile of the duration of steps without this cause (estimate)", nanos, false},
			{"line", "line of the program in which most of that time was spent", words, false}, {"from", "start of the first slow step", moment, false}, {"to", "end of the last slow step", moment, false},
			{"not", "other possible causes that were checked and ruled out", words, false}, {"fix", "how to fix it", words, false}, {"chain", "id of this cause, for the evidence from explain_chain", words, false},
			{"others", "other causes that were found: rule, lost time and id", words, false}, {"faults", "faults that GPUs reported (get_xids)", count, false}, {"well", "performance of the jobs", words, false},
			{"unexplained", "slow or unfinished steps that no cause explains, by job; confidence is low", words, false},
		},
		columns:  culpritColumns,
		register: answers((*server).diagnose),
	}
}

// Diagnose are the arguments of diagnose.
type Diagnose struct {
	When
	PIDs
	Labels
	Form
}

func (s *server) diagnose(ctx context.Context, in *Diagnose) (*answer, error) {
	r, err := s.reportFor(ctx, in.When, in.PIDs, in.Labels)
	if err != nil {
		return nil, err
	}
	in.MaxTokens = min(in.form().budget(briefTokens), briefTokens)
	a := &answer{lead: "ok, nothing is wrong", facts: make([]any, len(diagnoseTool().facts)), notes: limits(r.Notes)}
	n := len(a.facts)
	a.facts[n-3], a.facts[n-1] = known(len(r.Xids)), unexplainedText(r.Processes)
	if len(r.Chains) == 0 {
		well := wellText(r)
		switch {
		case len(r.Xids) > 0:
			a.lead = "bad: no cause of lost time was found, but GPUs reported faults"
		case slices.ContainsFunc(r.Processes, func(p wire.ProcessReport) bool { return p.Unexplained != nil && p.Unexplained.Unfinished }):
			a.lead = "no cause of lost time was found, but a job finished no step"
		case a.facts[n-1] != nil:
			a.lead = "no cause of lost time was found, but some steps were slow"
		case well == nil: // its waits were not traced
			a.lead = "no cause of lost time was found, but the performance of the jobs is unknown"
		}
		a.facts[n-2] = well
		return a, nil
	}
	c := &r.Chains[0]
	a.lead = "bad"
	if c.Less != "" {
		a.notes = append([]string{"judged with less: " + c.Less}, a.notes...)
	}
	copy(a.facts, []any{c.Severity, causeText(c), c.Rule, c.Confidence, c.LostNS, known(c.LostMinNS), known(c.LostMaxNS), known(c.WindowNS), known(c.SlowSteps), known(c.Steps), c.Comm, c.PID, c.Op,
		known(c.OpP99NS), known(c.StepP99NS), known(c.WithoutNS), c.At, stamp(c.From), stamp(c.To), strings.Join(c.NotIt, ", "), c.Fix, c.ID, othersText(r.Chains[1:])})
	a.rows = culpritRows(c)
	return a, nil
}

// withoutRules matches a note about causes that cannot be found. Its second and third forms are in
// older recordings.
var withoutRules = regexp.MustCompile(`causes (not reported|that are not reported|that are not told) since`)

// limits returns the notes that limit a diagnosis: the first, and those that name causes that
// cannot be found because something was omitted.
func limits(notes []string) []string {
	out := slices.Clone(notes[:min(len(notes), 1)])
	for _, n := range notes[len(out):] {
		if withoutRules.MatchString(n) {
			out = append(out, n)
		}
	}
	return out
}

// causeText returns the headline's second half: the culprit and its action.
func causeText(c *wire.Chain) string {
	if _, what, ok := strings.Cut(c.Headline, " - "); ok {
		return what
	}
	return c.Headline
}

// culpritRows returns the culprits, one row per process.
func culpritRows(c *wire.Chain) (rows [][]any) {
	at := map[string]int{}
	for i := range c.Culprits {
		x := &c.Culprits[i]
		key := fmt.Sprint(called(x), x.PID)
		if j, again := at[key]; again && x.PID != 0 {
			rows[j][5] = rows[j][5].(int64) + x.LostNS
			continue
		}
		at[key] = len(rows)
		where := x.Where
		if where == "" && x.Cgroup != "/" {
			where = x.Cgroup
		}
		rows = append(rows, []any{called(x), known(int64(x.PID)), x.Parent, x.Cmdline, where, x.LostNS})
	}
	return rows
}

// culpritText names the culprits: "stress-ng[8821], cron[711]".
func culpritText(c *wire.Chain) string {
	const most = 4
	var who []string
	for _, row := range culpritRows(c) {
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
func othersText(chains []wire.Chain) any {
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

// unexplainedText describes slow or unfinished steps that no cause explains; nil: none.
func unexplainedText(processes []wire.ProcessReport) any {
	const most = 2
	var out []string
	n := 0
	for i := range processes {
		if x := processes[i].Unexplained; x != nil {
			if n++; n <= most {
				out = append(out, x.Text)
			}
		}
	}
	if n > most {
		out = append(out, fmt.Sprintf("And %d more.", n-most))
	}
	if n == 0 {
		return nil
	}
	return strings.Join(out, " ")
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
		about: "The complete evidence for one cause of lost time: timeline of measurements, culprits, baseline, what was ruled out. The id comes from diagnose or get_causal_chains. Use it when asked 'how do you know?' or before applying a fix.",
		facts: []column{
			{"severity", "severity of the loss, by its share of the job's time (LOW, MEDIUM or HIGH)", words, false}, {"rule", "name of the rule that found it", words, false}, {"headline", "headline", words, false}, {"root_cause", "root cause", words, false}, {"fix", "how to fix it", words, false},
			{"confidence", "confidence, the share of the slow steps' extra time that this cause explains", share, false}, {"lost_ns", "progress that the job lost to this cause", nanos, false}, {"excess_ns", "extra time compared to the baseline, from any cause", nanos, false}, {"window_ns", "length of the time range that was searched for losses", nanos, false},
			{"slow_steps", "number of steps that the cause made longer", count, false}, {"steps", "number of steps that the job made in that time range", count, false}, {"step_p50_ns", "median duration of steps", nanos, false}, {"step_p99_ns", "99th percentile of the duration of steps", nanos, false},
			{"without_ns", "99th percentile of the duration of steps without this cause (estimate)", nanos, false}, {"baseline", "baseline that the steps are compared with", words, false}, {"job", "name of the process that lost time", words, false}, {"pid", "process ID (pid) of the process that lost time", count, false},
			{"line", "line of the program in which most of that time was spent", words, false}, {"from", "start of the first slow step", moment, false}, {"to", "end of the last slow step", moment, false}, {"not", "other possible causes that were checked and ruled out", words, false}, {"culprits", "culprits, with the time that each took", words, false},
		},
		columns:  []column{{"time", "time", moment, false}, {"source", "source", words, false}, {"text", "what was measured", words, false}},
		register: answers((*server).explainChain),
	}
}

// ExplainChain are the arguments of explain_chain.
type ExplainChain struct {
	ID string `json:"id" jsonschema:"id of the cause, such as c-7f3a"`
	Form
}

func (s *server) explainChain(ctx context.Context, in *ExplainChain) (*answer, error) {
	c, err := s.chain(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var who []string
	for _, row := range culpritRows(c) {
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
func (s *server) chain(ctx context.Context, id string) (*wire.Chain, error) {
	none := &Refusal{fmt.Sprintf("there is no cause %s", quoted(id, 40)), "call get_causal_chains for the ids of all causes"}
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
	r, err := s.reportFor(ctx, w, PIDs{}, Labels{})
	if err != nil {
		return nil, err
	}
	for i := range r.Chains {
		if r.Chains[i].ID == id {
			return &r.Chains[i], nil
		}
	}
	return nil, &Refusal{fmt.Sprintf("the cause %s is hidden", quoted(id, 40)), "check ingero silence, --rules-off and --min-severity, which hide causes"}
}

func chainsTool() *tool {
	return &tool{
		name: "get_causal_chains", quiet: true, title: "All causes of lost time",
		about: "Causes of lost time, most severe first. Equal causes (same rule, job, call and culprits) share one row, with their number and total loss. Use it when diagnose names other causes, or for history: since=24h. explain_chain has the details.",
		facts: []column{{"found", "number of causes that were found, before equal causes were merged", count, false}, {"hidden", "number of hidden causes (silenced)", count, false}, {"from", "start of the time range", moment, false}, {"to", "end of the time range", moment, false}},
		columns: []column{
			{"id", "id of the cause", words, false}, {"severity", "severity of the loss, by its share of the job's time (LOW, MEDIUM or HIGH)", words, false}, {"rule", "name of the rule that found it", words, false}, {"job", "name of the process that lost time", words, false}, {"pid", "process ID (pid) of the process that lost time", count, false}, {"op", "CUDA call that took too long", words, false},
			{"lost_ns", "progress that the job lost to this cause", nanos, false}, {"confidence", "confidence, the share of the slow steps' extra time that this cause explains", share, false}, {"times", "number of times that this cause was found", count, false}, {"culprits", "names and process IDs of the culprits that took the time", words, false}, {"fix", "how to fix it", words, false},
		},
		register: answers((*server).chains),
	}
}

// Chains are the arguments of get_causal_chains.
type Chains struct {
	When
	PIDs
	Labels
	Limit int `json:"limit,omitempty" jsonschema:"maximum number of causes; default 10"`
	Form
}

func (s *server) chains(ctx context.Context, in *Chains) (*answer, error) {
	r, err := s.reportFor(ctx, in.When, in.PIDs, in.Labels)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{len(r.Chains), known(len(r.Hidden)), stamp(r.From), stamp(r.To)}, notes: r.Notes[:min(len(r.Notes), 2)]}
	if len(r.Chains) == 0 {
		a.lead = "ok, no cause of lost time was found"
	}
	at := map[string][]any{}
	for i := range r.Chains {
		c := &r.Chains[i]
		names := culpritText(c)
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
