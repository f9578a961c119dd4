package testkit

import (
	"strconv"
	"testing"
)

// Better says in which direction a figure improves.
type Better string

// The directions.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// Measured reports one figure of a measurement. make measure reads it from the output
// of go test -json and compares it with the committed baseline. The name has no spaces;
// together with the name of the test it identifies the figure. The unit is one word, such
// as "ns", "%" or "calls/s".
func Measured(t testing.TB, name string, value float64, unit string, better Better) {
	t.Helper()
	t.Attr("figure:"+name, strconv.FormatFloat(value, 'g', 6, 64)+" "+unit+" "+string(better))
}
