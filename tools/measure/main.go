// Command measure runs the measurements of this repository, one at a time, and compares
// their figures with a baseline. A measurement is a test in a file with the build tag
// "measure", a Go benchmark, or a program of benchmarks/. Its figures are those that it
// reports by testkit.Measured and testkit.MeasuredShare or in Go's benchmark format, and
// whether it passed.
//
//	measure [-only WORDS] [-seeds 1-5] [-runs 5] [-fresh] [-baseline FILE] [-update]
//
// Each run is written to bin/measure/runs.jsonl as it ends. An interrupted measure resumes where it
// stopped if the tree is unchanged; a run of the incident lab after its last scenario. At the end it
// prints for each figure the baseline, the present value and a verdict: better, same, worse, new
// (there is no baseline) or inconclusive. For a figure without a committed baseline, the previous
// completed measure serves as the baseline.
//
// A run is disturbed, and does not count, if the hypervisor or other programs took too much of the
// CPUs. The exit status is 0 whatever the figures are, 1 if a measurement could not be run, and 3
// if more than one figure in ten is inconclusive, so that there is no result.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	keptDir      = "bin/measure"
	partsDir     = keptDir + "/parts"
	noResult     = 3
	baselineFile = "test/baseline.tsv"
)

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "run only measurements whose PACKAGE.TEST contains one of these comma-separated words")
	flag.StringVar(&o.seeds, "seeds", "1", "seeds of the incident lab, one run each: a number or FROM-TO")
	flag.IntVar(&o.runs, "runs", 5, "runs of each other measurement")
	flag.BoolVar(&o.fresh, "fresh", false, "discard the runs of an interrupted measure")
	flag.StringVar(&o.baseline, "baseline", baselineFile, "baseline to compare with")
	flag.BoolVar(&o.update, "update", false, "write the figures of this measure into the baseline")
	flag.Parse()
	status, err := measure(o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		status = 1
	}
	os.Exit(status)
}

type options struct {
	only, seeds, baseline string
	runs                  int
	fresh, update         bool
}

func measure(o options, out io.Writer) (status int, err error) {
	plans, err := plan(o)
	if err != nil {
		return 0, err
	}
	tree, err := treeHash()
	if err != nil {
		return 0, err
	}
	kept, err := openJournal(filepath.Join(keptDir, "runs.jsonl"), tree, o.fresh)
	if err != nil {
		return 0, err
	}
	defer kept.close()
	if err := openParts(partsDir, tree, o.fresh); err != nil {
		return 0, err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	for i, p := range plans {
		if kept.has(p) {
			continue
		}
		fmt.Fprintf(out, "measure %d of %d: %s, run %d\n", i+1, len(plans), p.name(), p.Run)
		r, err := execute(p, interrupted)
		if err != nil {
			return 0, err
		}
		if err := kept.add(r); err != nil {
			return 0, err
		}
		if p.Parts != "" {
			if err := os.RemoveAll(p.Parts); err != nil {
				return 0, err
			}
		}
	}
	return report(o, kept, plans, out)
}

// report compares the runs of the plans with the baseline and prints the table.
func report(o options, kept *journal, plans []planned, out io.Writer) (status int, err error) {
	now := summarize(kept.of(plans))
	before, err := readBaseline(o.baseline)
	if err != nil {
		return 0, err
	}
	lastFile := filepath.Join(keptDir, "last.tsv")
	last, err := readBaseline(lastFile)
	if err != nil {
		return 0, err
	}
	lines := compare(now, before, last)
	printLines(out, lines)
	if err := writeBaseline(lastFile, merge(last, now)); err != nil {
		return 0, err
	}
	if err := kept.finish(); err != nil {
		return 0, err
	}
	if o.update {
		if err := writeBaseline(o.baseline, merge(before, now)); err != nil {
			return 0, err
		}
	}
	if tooUncertain(lines) {
		fmt.Fprintln(out, "no result: more than one figure in ten is inconclusive; measure again on a machine that does nothing else")
		return noResult, nil
	}
	return 0, nil
}

// treeHash returns a hash of the tracked files in the working tree, committed or not.
func treeHash() (string, error) {
	stash, err := exec.Command("git", "stash", "create").Output()
	if err != nil {
		return "", fmt.Errorf("git stash create: %w", err)
	}
	commit := strings.TrimSpace(string(stash))
	if commit == "" {
		commit = "HEAD"
	}
	tree, err := exec.Command("git", "rev-parse", commit+"^{tree}").Output()
	if err != nil {
		return "", fmt.Errorf("git rev-parse %s: %w", commit, err)
	}
	return strings.TrimSpace(string(tree)), nil
}
