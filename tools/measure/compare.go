package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// spread is one figure over the undisturbed runs of a measure.
type spread struct {
	name              string // PACKAGE.TEST and the figure's name
	unit, better      string
	median, low, high float64
	runs              int // undisturbed
	disturbed         int
}

// enough is how many undisturbed runs a verdict needs. Two programs that are equal have
// ranges of five runs that do not overlap once in 126 figures (2/C(10,5)).
const enough = 3

// summarize gives each figure's spread, and for each test the share of runs that passed.
func summarize(runs []run) []spread {
	values := map[string][]float64{}
	of := map[string]*spread{}
	add := func(r *run, f figure) {
		name := r.name() + " " + f.Name
		if of[name] == nil {
			of[name] = &spread{name: name, unit: f.Unit, better: f.Better}
		}
		if r.Disturbed != "" {
			of[name].disturbed++
			return
		}
		values[name] = append(values[name], f.Value)
	}
	for i := range runs {
		r := &runs[i]
		passed := 0.0
		if r.Passed {
			passed = 1
		}
		add(r, figure{"passed", "share", "higher", passed})
		for _, f := range r.Figures {
			add(r, f)
		}
	}
	var all []spread
	for _, name := range slices.Sorted(maps.Keys(of)) {
		s, list := of[name], values[name]
		slices.Sort(list)
		if s.runs = len(list); s.runs > 0 {
			s.low, s.high = list[0], list[s.runs-1]
			s.median = (list[(s.runs-1)/2] + list[s.runs/2]) / 2
			if strings.HasSuffix(name, " passed") { // of zeros and ones the share is the mean
				s.median = mean(list)
			}
		}
		all = append(all, *s)
	}
	return all
}

func mean(list []float64) (sum float64) {
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}

// line is one figure beside its baseline.
type line struct {
	now, before spread
	verdict     string
}

// compare judges each figure by its baseline, or by the last measure where there is none.
func compare(now, baseline, last []spread) []line {
	before := map[string]spread{}
	for _, s := range slices.Concat(last, baseline) {
		before[s.name] = s
	}
	var lines []line
	for _, s := range now {
		l := line{now: s, before: before[s.name]}
		l.verdict = judge(l.now, l.before)
		lines = append(lines, l)
	}
	return lines
}

// judge compares ranges: a figure is better or worse only where the two do not overlap. A
// single run, as of one seed of the incident lab, can be the same or inconclusive.
func judge(now, before spread) string {
	overlap := now.low <= before.high && before.low <= now.high
	switch {
	case now.runs == 0 || now.disturbed > now.runs:
		return "inconclusive (disturbed)"
	case before.runs == 0:
		return "new"
	case overlap:
		return "same"
	case min(now.runs, before.runs) < enough:
		return "inconclusive (too few runs)"
	case (now.median < before.median) == (now.better == "lower"):
		return "better"
	}
	return "worse"
}

// tooUncertain says that the measure is no result as a whole.
func tooUncertain(lines []line) bool {
	var uncertain int
	for _, l := range lines {
		if strings.HasPrefix(l.verdict, "inconclusive") {
			uncertain++
		}
	}
	return uncertain*10 > len(lines)
}

func printLines(out io.Writer, lines []line) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tUNIT\tBASELINE (RANGE)\tNOW (RANGE)\tRUNS\tVERDICT")
	count := map[string]int{}
	for _, l := range lines {
		word, _, _ := strings.Cut(l.verdict, " ")
		count[word]++
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", l.now.name, l.now.unit, l.before.text(), l.now.text(), l.now.runs, l.verdict)
	}
	_ = w.Flush()
	for _, word := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(out, "%d %s  ", count[word], word)
	}
	fmt.Fprintln(out)
}

func (s spread) text() string {
	if s.runs == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g (%.4g to %.4g)", s.median, s.low, s.high)
}

// A baseline is a file of tab-separated lines: figure, unit, direction, median, low, high, runs.

func readBaseline(path string) ([]spread, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []spread
	for i, l := range strings.Split(string(text), "\n") {
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		s, err := parseSpread(l)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func parseSpread(l string) (s spread, err error) {
	part := strings.Split(l, "\t")
	if len(part) != 7 {
		return s, fmt.Errorf("want 7 columns, got %d", len(part))
	}
	s.name, s.unit, s.better = part[0], part[1], part[2]
	for i, v := range []*float64{&s.median, &s.low, &s.high} {
		if *v, err = strconv.ParseFloat(part[3+i], 64); err != nil {
			return s, err
		}
	}
	s.runs, err = strconv.Atoi(part[6])
	return s, err
}

// merge replaces the figures of old that were measured anew, undisturbed.
func merge(old, now []spread) []spread {
	all := map[string]spread{}
	for _, s := range slices.Concat(old, now) {
		if s.runs > 0 {
			all[s.name] = s
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b spread) int { return cmp.Compare(a.name, b.name) })
}

func writeBaseline(path string, all []spread) error {
	var text strings.Builder
	text.WriteString("# make measure wrote this. figure, unit, better, median, low, high, runs\n")
	for _, s := range all {
		fmt.Fprintf(&text, "%s\t%s\t%s\t%.6g\t%.6g\t%.6g\t%d\n", s.name, s.unit, s.better, s.median, s.low, s.high, s.runs)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}
