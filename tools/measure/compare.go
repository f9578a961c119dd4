package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// spread is one figure over the undisturbed runs of a measure: the median of its values with a
// confidence interval, or a share in percent with the same.
type spread struct {
	name              string // PACKAGE.TEST and the figure's name
	unit, better      string
	median, low, high float64
	values            int // number of values, or the whole of a share
	disturbed, runs   int // numbers of excluded and counted runs
}

// enough is the number of values that a verdict needs.
const enough = 3

// summarize returns each figure's spread, and for each test the share of passed runs.
func summarize(runs []run) []spread {
	figures := map[string]*figure{} // figures of all counted runs
	of := map[string]*spread{}
	add := func(r *run, f figure) {
		name := r.name() + " " + f.Name
		if of[name] == nil {
			of[name] = &spread{name: name, unit: f.Unit, better: f.Better}
			figures[name] = &figure{}
		}
		if r.Disturbed != "" {
			of[name].disturbed++
			return
		}
		of[name].runs++
		sum := figures[name]
		sum.Values = append(sum.Values, f.Values...)
		sum.Part += f.Part
		sum.Whole += f.Whole
	}
	for i := range runs {
		r := &runs[i]
		passed := figure{Name: "passed", Unit: "%", Better: "higher", Whole: 1}
		if r.Passed {
			passed.Part = 1
		}
		add(r, passed)
		for _, f := range r.Figures {
			add(r, f)
		}
	}
	var all []spread
	for _, name := range slices.Sorted(maps.Keys(of)) {
		s, f := of[name], figures[name]
		if f.Whole > 0 {
			s.values = f.Whole
			s.median, s.low, s.high = share(f.Part, f.Whole)
		} else if len(f.Values) > 0 {
			s.values = len(f.Values)
			s.median, s.low, s.high = middle(f.Values)
		}
		all = append(all, *s)
	}
	return all
}

// middle returns the median of a list and an interval for the true median, with a confidence of at
// least 93.75 %. For five values the interval is the least and the greatest: all five lie on one
// side of the median once in 16 times. For fewer values it is the same.
func middle(list []float64) (median, low, high float64) {
	slices.Sort(list)
	n := len(list)
	// chance is the probability of i values below the median, and tail that of at most i.
	i, chance, tail := 0, math.Pow(0.5, float64(n)), 0.0
	for ; i < n/2 && tail+chance <= 1.0/32; i++ {
		tail += chance
		chance *= float64(n-i) / float64(i+1)
	}
	i = max(i-1, 0)
	return (list[(n-1)/2] + list[n/2]) / 2, list[i], list[n-1-i]
}

// share returns a share in percent and its Wilson interval with a confidence of 95 %.
func share(part, whole int) (percent, low, high float64) {
	const z = 1.96
	n := float64(whole)
	p := float64(part) / n
	center := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return 100 * p, 100 * max(center-half, 0), 100 * min(center+half, 1)
}

// line is one figure beside its baseline.
type line struct {
	now, before spread
	verdict     string
}

// compare judges each figure against its baseline, or against the last measure if it has none.
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

// judge compares intervals: a figure is better or worse only if they do not overlap. For two equal
// programs that happens about once in a hundred figures: the ranges of five values fail to overlap
// once in 126 times (2/C(10,5)).
func judge(now, before spread) string {
	overlap := now.low <= before.high && before.low <= now.high
	switch {
	case now.runs == 0 || now.disturbed > now.runs:
		return "inconclusive (disturbed)"
	case before.values == 0:
		return "new"
	case overlap:
		return "same"
	case min(now.values, before.values) < enough:
		return "inconclusive (too few values)"
	case (now.median < before.median) == (now.better == "lower"):
		return "better"
	}
	return "worse"
}

// tooUncertain reports whether the measure as a whole is no result.
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
	fmt.Fprintln(w, "FIGURE\tUNIT\tBASELINE (RANGE)\tNOW (RANGE)\tVALUES\tVERDICT")
	count := map[string]int{}
	for _, l := range lines {
		word, _, _ := strings.Cut(l.verdict, " ")
		count[word]++
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", l.now.name, l.now.unit, l.before.text(), l.now.text(), l.now.values, l.verdict)
	}
	_ = w.Flush()
	for _, word := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(out, "%d %s  ", count[word], word)
	}
	fmt.Fprintln(out)
}

func (s spread) text() string {
	if s.values == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g (%.4g to %.4g)", s.median, s.low, s.high)
}

// A baseline is a file of tab-separated lines: figure, unit, direction, median, low, high, values.

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
	s.values, err = strconv.Atoi(part[6])
	return s, err
}

// merge replaces the figures in old that have new undisturbed values.
func merge(old, now []spread) []spread {
	all := map[string]spread{}
	for _, s := range slices.Concat(old, now) {
		if s.values > 0 {
			all[s.name] = s
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b spread) int { return cmp.Compare(a.name, b.name) })
}

func writeBaseline(path string, all []spread) error {
	var text strings.Builder
	text.WriteString("# make measure wrote this. figure, unit, better, median, low, high, values\n")
	for _, s := range all {
		fmt.Fprintf(&text, "%s\t%s\t%s\t%.6g\t%.6g\t%.6g\t%d\n", s.name, s.unit, s.better, s.median, s.low, s.high, s.values)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}
