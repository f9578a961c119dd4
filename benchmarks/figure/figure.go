// Package figure prints the results of benchmarks: for people, the median and range of several
// rounds; for make measure and benchstat, a line in Go's benchmark format. It also reads the CPU time
// of processes.
package figure

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Spread is one figure of each round of a benchmark, in order.
type Spread []float64

// Median returns the median, the upper of two middle values. s must not be empty.
func (s Spread) Median() float64 { return slices.Sorted(slices.Values(s))[len(s)/2] }

// Text returns the median and the range, each in a format such as "%.2f".
func (s Spread) Text(format string) string {
	return fmt.Sprintf(strings.ReplaceAll("% (% to %)", "%", format), s.Median(), slices.Min(s), slices.Max(s))
}

// String returns the text to three digits.
func (s Spread) String() string { return s.Text("%.3g") }

// Report prints the median as a line in Go's benchmark format if the environment variable
// INGERO_FIGURES is set. The name identifies the figure; the unit ends in "/s" if more is better.
func Report(name string, s Spread, unit string) {
	if os.Getenv("INGERO_FIGURES") != "" {
		fmt.Println(Line(name, s.Median(), unit))
	}
}

// Line returns the line of one figure. Spaces and commas of the name become one dash.
func Line(name string, value float64, unit string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == ',' || r == ':' })
	return fmt.Sprintf("Benchmark/%s 1 %.6g %s", strings.Join(words, "-"), value, unit)
}
