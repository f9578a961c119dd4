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

What ingero finds, rule by rule. A rule finds one kind of cause of lost time; what it
found is a chain, with who did it, what that cost, and what to type. No lost time, no
chain: a machine that is busy and does not slow the job is not told. How a chain is
judged says the comment of internal/causal.

` + "`causes.rules-off`" + ` (--rules-off) and ` + "`causes.min-severity`" + ` (--min-severity) leave chains out
of reports, ` + "`ingero silence`" + ` does so for a while. All of them are recorded.

## Rules
`

const problemsHead = `
## Problems

A list that is often quoted, of 25 problems that jobs on GPUs have (and 6b), and the rules
that answer each.

| | problem | rules | by what it is told |
|---|---|---|---|
`

// needWords describe what a rule needs.
var needWords = []struct {
	need  causal.Needs
	words string
}{
	{causal.NeedWaits, "who waited for what, from the scheduler"},
	{causal.NeedCalls, "CUDA calls with their durations"},
	{causal.NeedHost, "what happened on the host: disks, memory, signals, the network"},
	{causal.NeedState, "what follows from all calls of a process: memory, graphs, communicators"},
	{causal.NeedGPUs, "the state of the GPUs (nvidia-smi)"},
	{causal.NeedXids, "the faults that GPUs report"},
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
		if steps := without(r); len(steps) > 0 {
			b.WriteString(" Not told, or not wholly, while a [step](../design/overhead.md) is taken: `" + strings.Join(steps, "`, `") + "`.")
		}
		if len(r.Problems) > 0 {
			b.WriteString(" Answers " + strings.Join(r.Problems, ", ") + " [below](#problems).")
		}
		b.WriteByte('\n')
	}
	b.WriteString(problemsHead)
	for i := range causal.Problems {
		p := &causal.Problems[i]
		how := p.How
		if p.Needs != "" {
			how = "Not by itself. It would need " + p.Needs + "."
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p.Number, p.Name, cell(p.Answer()...), how)
	}
	return b.String()
}

// without returns the shedding steps that remove a rule's input.
func without(r *causal.Rule) (names []string) {
	for i := range govern.Steps {
		if s := govern.Steps[i].Name; r.Sees&govern.Takes(s) != 0 {
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
		return "nothing but the steps of the job"
	}
	return strings.Join(parts, "; ")
}
