package session

import (
	"math"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/stats"
)

// Ticks keep the histograms that they were given. Counts continue when the kernel's counts wrap,
// and restart once it has forgotten a process.
func TestAccountsContinue(t *testing.T) {
	a := accounts{}
	const pid, row = 1, 2
	read := func(calls uint64, bucket uint32) *stats.Hist {
		c := &probes.CountsRow{PID: pid, Row: row}
		c.Calls, c.Hist[7] = calls, bucket
		a.update(c)
		return a[pid][row].hist
	}
	var given []*stats.Hist
	given = append(given, read(3, math.MaxUint32))
	given = append(given, read(5, 1)) // two more
	if same := read(5, 1); same != given[1] {
		t.Error("a reading without calls has a histogram of its own")
	}
	if !a.closeProcess(pid) || a.closeProcess(8) {
		t.Error("whether a process has counts is reported wrongly")
	}
	given = append(given, read(4, 6))
	for i, want := range []uint64{math.MaxUint32, math.MaxUint32 + 2, math.MaxUint32 + 8} {
		if n := given[i][7]; n != want || given[i].Count() != want {
			t.Errorf("reading %d has %d calls in the bucket, want %d", i, n, want)
		}
	}
	if n := a[pid][row].sum.Calls; n != 9 {
		t.Errorf("%d calls, want 9", n)
	}
}
