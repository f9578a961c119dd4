package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/query"
)

// Clock skew below the threshold is not reported.
func TestSkewNotes(t *testing.T) {
	got := skewNotes([]query.Skew{
		{Node: "n2", Against: "n1", Known: true, Ahead: 100 * time.Millisecond, Within: 20 * time.Microsecond},
		{Node: "n3", Against: "n1", Known: true, Ahead: -3 * time.Second, Within: 20 * time.Microsecond},
		{Node: "n4", Against: "n1", Known: true, Ahead: -99 * time.Millisecond},
		{Node: "n5", Against: "n1", Ahead: time.Second},
	}, 100*time.Millisecond)
	want := []string{
		"the clock of n2 was ahead of that of n1 by 100 ms (±20.0 us): their times differ by as much",
		"the clock of n3 was behind that of n1 by 3.00 s (±20.0 us): their times differ by as much",
		"the clock skew between n5 and n1 is unknown: no jobs on them ran in lockstep",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
