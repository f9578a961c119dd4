package cli

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// New losses cause a warning, at most every 5 s.
func TestLosses(t *testing.T) {
	var l losses
	for _, x := range []struct {
		at      float64 // s
		records uint64
		drops   []tick.Drop
		want    string // "": no warning
	}{
		{0, 100, []tick.Drop{{Reason: "ring-full"}, {Reason: "thinned", Count: 50}}, ""}, // thinned on purpose
		{1, 900, []tick.Drop{{Reason: "ring-full", Count: 100}}, "ring-full=100; 10.0 %"},
		{2, 950, []tick.Drop{{Reason: "ring-full", Count: 200}}, ""},
		{5.9, 990, []tick.Drop{{Reason: "ring-full", Count: 300}}, ""},
		{6, 1000, []tick.Drop{{Reason: "ring-full", Count: 400}, {Reason: "too-many-threads", Count: 7}}, "ring-full=300 too-many-threads=7; "},
		{60, 5000, []tick.Drop{{Reason: "ring-full", Count: 400}, {Reason: "too-many-threads", Count: 7}}, ""},
		{61, 5000, []tick.Drop{{Reason: "ring-full", Count: 401}, {Reason: "too-many-threads", Count: 7}}, "ring-full=1; "},
	} {
		got := l.line(&tick.Tick{Time: time.Unix(0, int64(x.at*1e9)), Records: x.records, Drops: x.drops})
		if x.want == "" && got != "" || !strings.Contains(got, x.want) || got != "" && !strings.HasPrefix(got, "WARN events dropped: ") {
			t.Errorf("at %v s: %q, want %q", x.at, got, x.want)
		}
	}
}
