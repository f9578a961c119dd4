package testkit

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Better is the direction in which a figure improves.
type Better string

// The directions.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// Measured reports one figure of a measurement. make measure reads it from the output of go test
// -json and compares it with the committed baseline. The name has no spaces; with the name of the
// test it identifies the figure. The unit is one word, such as "ns", "%" or "calls/s".
func Measured(t testing.TB, name string, value float64, unit string, better Better) {
	t.Helper()
	MeasuredAll(t, name, []float64{value}, unit, better)
}

// MeasuredAll reports a figure with many values per run, in any order. make measure shows their
// median and its confidence interval.
func MeasuredAll(t testing.TB, name string, values []float64, unit string, better Better) {
	t.Helper()
	list := make([]string, 0, len(values))
	for _, v := range slices.Sorted(slices.Values(values)) {
		list = append(list, strconv.FormatFloat(v, 'g', 6, 64))
	}
	t.Attr("figure:"+name, strings.Join(list, ",")+" "+unit+" "+string(better))
}

// MeasuredShare reports a share: part of whole. Its confidence depends on the counts.
func MeasuredShare(t testing.TB, name string, part, whole int, better Better) {
	t.Helper()
	t.Attr("share:"+name, strconv.Itoa(part)+" "+strconv.Itoa(whole)+" "+string(better))
}

// MedianMS returns the median time of n calls of f, in ms.
func MedianMS(n int, f func()) float64 {
	var all []float64
	for range n {
		began := time.Now()
		f()
		all = append(all, float64(time.Since(began).Microseconds())/1000)
	}
	slices.Sort(all)
	return all[n/2]
}
