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

The rules of ingero. A rule finds one kind of cause of lost time. Each cause found is a
chain, with its culprit, its lost time and the command that fixes it. Without lost time there is no
chain: ingero does not report a busy machine that does not slow the job. The comment of
internal/causal explains how chains are judged.

` + "`causes.rules-off`" + ` (--rules-off) and ` + "`causes.min-severity`" + ` (--min-severity) hide chains
in reports; ` + "`ingero silence`" + ` hides them for a while. ingero records all of them.

## Rules
`

const problemsHead = `
## Problems

A widely quoted list of 25 problems of GPU jobs (and 6b), with the rules that find each
of them.

| | problem | rules | evidence |
|---|---|---|---|
`

// needWords describe what a rule needs.
var needWords = []struct {
	need  causal.Needs
	words string
}{
	{causal.NeedWaits, "waits from the scheduler: which thread waited for what"},
	{causal.NeedCalls, "CUDA calls with their durations"},
	{causal.NeedHost, "host events: disks, memory, signals, the network"},
	{causal.NeedState, "state from all calls of a process: memory, graphs, communicators"},
	{causal.NeedGPUs, "the state of the GPUs (nvidia-smi)"},
	{causal.NeedXids, "faults reported by GPUs"},
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
			b.WriteString(" Reported partly or not at all while ingero sheds one of these [steps](../design/overhead.md): `" + strings.Join(steps, "`, `") + "`.")
		}
		if len(r.Problems) > 0 {
			b.WriteString(" Finds problems " + strings.Join(r.Problems, ", ") + " [below](#problems).")
		}
		b.WriteByte('\n')
	}
	b.WriteString(problemsHead)
	for i := range causal.Problems {
		p := &causal.Problems[i]
		how := p.How
		if p.Needs != "" {
			how = "Not by ingero alone. It would need " + p.Needs + "."
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
		return "only the steps of the job"
	}
	return strings.Join(parts, "; ")
}
