package main

import (
	"fmt"
	"strings"

	"ingero/internal/causal"
	"ingero/internal/explain"
	"ingero/internal/govern"
)

const detectionsHead = `# Detections

<!-- Generated from internal/causal and internal/explain by make docs. -->

For people who read a report: the causes of lost time that ingero detects, by rule. A rule finds one kind of cause. Each finding is a
chain: the cause, the culprit, the lost time and the fix. Without lost time there is no chain: ingero does
not report a busy machine that does not slow the job. The package comment of internal/causal describes how
ingero evaluates a chain.

` + "`causes.rules-off`" + ` (--rules-off) and ` + "`causes.min-severity`" + ` (--min-severity) hide
chains from reports, and ` + "`ingero silence`" + ` hides them for some time. ingero records all chains.

## Rules
`

const problemsHead = `
## Problems

25 common problems of GPU jobs (and 6b), numbered as in ingero 0.9, and the rules that detect each.

| | problem | rules | how ingero detects it |
|---|---|---|---|
`

// needWords describe what a rule needs.
var needWords = []struct {
	need  causal.Needs
	words string
}{
	{causal.NeedWaits, "waits and their causes, from the scheduler"},
	{causal.NeedCalls, "CUDA calls with their durations"},
	{causal.NeedHost, "host events: disks, memory, signals, network"},
	{causal.NeedState, "state derived from all calls of a process: memory, graphs, communicators"},
	{causal.NeedGPUs, "the state of the GPUs (nvidia-smi)"},
	{causal.NeedXids, "GPU faults (XIDs)"},
	{causal.NeedRequests, "requests to an inference server (Linux 6.3, HTTP/1.1 without TLS)"},
}

// detections renders the rules and their problems.
func detections() string {
	var b strings.Builder
	b.WriteString(detectionsHead)
	for i := range causal.Rules {
		r := &causal.Rules[i]
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", r.Name, r.Doc)
		head, cause, fix := explain.Example(r.Name)
		for _, line := range []struct{ label, text string }{{"Looks like", head}, {"Root cause", cause}, {"Fix", fix}} {
			if line.text == "" {
				continue
			}
			label := line.label
			for _, l := range explain.Wrap(line.text, 80-4-12) {
				fmt.Fprintf(&b, "    %-12s%s\n", label, l)
				label = ""
			}
		}
		b.WriteString("\nNeeds " + needs(r.Needs) + ".")
		if r.Share > 0 {
			fmt.Fprintf(&b, " Reported from %g %% of the job's time.", 100*r.Share)
		}
		if steps := without(r); len(steps) > 0 {
			b.WriteString(" Not reported, or only in part, while ingero [sheds](../design/overhead.md) `" + strings.Join(steps, "`, `") + "`.")
		}
		if len(r.Problems) > 0 {
			b.WriteString(" Detects problems " + strings.Join(r.Problems, ", ") + " [below](#problems).")
		}
		b.WriteByte('\n')
	}
	b.WriteString(problemsHead)
	for i := range causal.Problems {
		p := &causal.Problems[i]
		how := p.How
		if p.Needs != "" {
			how = "Not detected by a rule of its own. Detection would require " + p.Needs + "."
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p.Number, p.Name, cell(p.Answer()...), how)
	}
	return b.String()
}

// without returns the shedding levels that remove a rule's input.
func without(r *causal.Rule) (names []string) {
	for i := range govern.Steps {
		if s := govern.Steps[i].Name; (r.Sees|r.Rests)&govern.Sheds(s) != 0 {
			names = append(names, s)
		}
	}
	return names
}

func needs(n causal.Needs) string {
	var parts []string
	for _, w := range needWords {
		if n&w.need != 0 {
			parts = append(parts, w.words)
		}
	}
	if len(parts) == 0 {
		return "only the steps of the job"
	}
	return strings.Join(parts, "; ")
}
