package probes

import "testing"

// A thread's state is as of the start of the reading, or of the thread's latest event after it.
func TestAsOf(t *testing.T) {
	const begun = 1000
	for name, tt := range map[string]struct {
		change func(*ThreadState)
		want   uint64
	}{
		"nothing happened":              {func(s *ThreadState) { s.Clock.Since, s.ReturnedNs, s.Depth, s.Open[0].Rec.StartNs = 900, 800, 1, 950 }, begun},
		"it was switched":               {func(s *ThreadState) { s.Clock.Since = 1100 }, 1100},
		"a call returned":               {func(s *ThreadState) { s.ReturnedNs = 1200 }, 1200},
		"calls began":                   {func(s *ThreadState) { s.Depth, s.Open[0].Rec.StartNs, s.Open[1].Rec.StartNs = 2, 1100, 1300 }, 1300},
		"a call began and has returned": {func(s *ThreadState) { s.ReturnedNs, s.Open[0].Rec.StartNs = 1200, 1300 }, 1200},
	} {
		var s ThreadState
		tt.change(&s)
		if got := asOf(&s, begun); got != tt.want {
			t.Errorf("%s: as of %d, want %d", name, got, tt.want)
		}
	}
}
