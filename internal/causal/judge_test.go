package causal

import (
	"testing"
	"time"

	"ingero/internal/tick"
)

// A loss that may be zero is severe only if its estimate is large.
func TestSeverityFollowsWhatIsCertain(t *testing.T) {
	rule := &Rules[ruleNamed("alloc-storm")]
	for _, tt := range []struct {
		name            string
		least, lost, to time.Duration
		want            tick.Severity
	}{
		{"exact", 0, 2 * time.Second, 0, tick.High},
		{"known within a half", time.Second, 2 * time.Second, 3 * time.Second, tick.High},
		{"it may be nothing", 0, 186 * time.Millisecond, 372 * time.Millisecond, tick.Low},
		{"little is certain", 50 * time.Millisecond, 400 * time.Millisecond, 750 * time.Millisecond, tick.Low},
		{"it may be nothing, and may be most of the time", 0, 2 * time.Second, 4 * time.Second, tick.High},
	} {
		w := New(1).window(&tick.Tick{Time: time.Unix(0, start)})
		x := Finding{PID: 7, From: start - s1, To: start, Window: 10 * s1, Lost: int64(tt.lost), Min: int64(tt.least), Max: int64(tt.to)}
		if !w.judge(rule, &x) || x.Severity != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, x.Severity, tt.want)
		}
	}
}

// A thread's loss has the observed time as its upper bound. The sum of several threads has not.
func TestInterval(t *testing.T) {
	for _, tt := range []struct {
		name         string
		lost         float64
		span, lo, hi int64
	}{
		{"little", 2000, 100_000, 1700, 2300},
		{"nearly all", 950, 1000, 807, 1000},
		{"all", 1000, 1000, 850, 1000},
		{"of several threads", 2000, 1000, 1700, 2300},
	} {
		if lo, hi := new(Rule).interval(tt.lost, tt.lost, tt.lost, tt.span); lo != tt.lo || hi != tt.hi {
			t.Errorf("%s: %d to %d, want %d to %d", tt.name, lo, hi, tt.lo, tt.hi)
		}
	}
}
