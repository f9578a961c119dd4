package causal

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// Where launches are thinned, the loss of a server's requests is not known, but bounded by how much
// longer they took. If the engine's steps say which of them launched graphs, it is known.
func TestLossOfUndividedRequests(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		stalls int // seconds with a long prompt
		seen   int // seconds before launches were thinned
		least  time.Duration
		most   time.Duration // of the upper bound
		share  float64       // the least confidence
		known  bool
	}{
		"all is known":               {stalls: 12, seen: 60, least: 2280 * ms, most: 2280 * ms * 115 / 100, share: 1},
		"half of the stalls":         {stalls: 20, seen: 10, least: 1900 * ms, most: 4900 * ms, share: 0.4},
		"the stalls had ended":       {stalls: 12, seen: 12, least: 2280 * ms, most: 2280 * ms * 115 / 100, share: 1},
		"little of 40 s, but of 4 s": {stalls: 5, seen: 4, least: 760 * ms, most: 1100 * ms, share: 0.7},
		"steps know their graphs":    {stalls: 20, seen: 10, least: 3800 * ms, most: 3800 * ms * 115 / 100, share: 1, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			s.thinned, s.known = servedFrom+int64(tt.seen)*1e9, tt.known
			s.step(0, 10*ms, true)
			for second := range int64(40) {
				begin, prompt := s.at, 20*ms
				if second < int64(tt.stalls) {
					prompt = 200 * ms
				}
				s.step(100*ms, prompt, false)
				s.request("10.0.0.9", begin+int64(100*ms), s.at+int64(ms), s.at+int64(ms), 48<<10).Events = 1
				asked := s.request("10.0.0.5", begin+int64(79*ms), begin+int64(100*ms), 0, 400)
				for s.at < servedFrom+(second+1)*1e9 {
					s.step(0, 10*ms, true)
				}
				// Tokens come every 50 ms, and later by what the prompt takes.
				asked.Last = asked.First + 450*ms + prompt - 20*ms
			}
			got := s.chains("prefill-stall")
			if len(got) != 1 {
				t.Fatalf("%d chains: %+v", len(got), got)
			}
			x := got[0]
			if x.Lost != tt.least || x.LostMax < x.Lost || x.LostMax > tt.most+ms || x.Confidence < tt.share {
				t.Errorf("lost %v (%v to %v), confidence %.2f", x.Lost, x.LostMin, x.LostMax, x.Confidence)
			}
			if told := strings.Contains(x.Baseline, tick.JudgedWithLess); told != (tt.seen < 40 && !tt.known) {
				t.Errorf("baseline: %s", x.Baseline)
			}
			if truth := time.Duration(tt.stalls) * 190 * ms; truth > x.LostMax {
				t.Errorf("%v were lost, at most %v by the report", truth, x.LostMax)
			}
		})
	}
}
