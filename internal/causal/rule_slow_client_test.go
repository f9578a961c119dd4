package causal

import (
	"testing"
	"time"

	"ingero/internal/tick"
)

// A response that ends after its last token, because its client left no room for it, is late.
func TestSlowClient(t *testing.T) {
	const ms = int64(time.Millisecond)
	for name, tt := range map[string]struct {
		refused, unread uint32
		length          int64  // of a response, ms
		steps           uint32 // of the engine for tokens meanwhile
		clients         int
		split           bool
		eager           bool // the engine launches no graph
		lost            time.Duration
		severity        tick.Severity
	}{
		"refuses bytes":                  {refused: 3, length: 500, steps: 20, clients: 1, split: true, lost: 20 * 400 * time.Millisecond, severity: tick.Medium},
		"leaves much unread":             {unread: 1 << 20, length: 500, steps: 20, clients: 1, split: true, lost: 20 * 400 * time.Millisecond, severity: tick.Medium},
		"two at the same time":           {refused: 3, length: 500, steps: 20, clients: 2, split: true, lost: 20 * 400 * time.Millisecond, severity: tick.Medium},
		"the engine works for others":    {refused: 3, length: 500, steps: 50, clients: 1, split: true, lost: 20 * 400 * time.Millisecond, severity: tick.Medium},
		"a little":                       {refused: 3, length: 113, steps: 10, clients: 1, split: true, lost: 20 * 13 * time.Millisecond, severity: tick.Low},
		"too little":                     {refused: 3, length: 104, steps: 10, clients: 1, split: true},
		"the server is late, not it":     {length: 500, steps: 20, clients: 1, split: true},
		"unread, but less than a buffer": {unread: 1<<20 - 1, length: 500, steps: 20, clients: 1, split: true},
		"it works, without graphs":       {refused: 3, length: 500, steps: 50, clients: 1, split: true, eager: true},
		"the engine is unknown":          {refused: 3, length: 500, steps: 20, clients: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			for range 20 { // each second, responses of 10 tokens after the first, and another client's
				begin := s.at
				for range 100 {
					s.step(0, 10*time.Millisecond, true)
				}
				other := s.request("10.0.0.5", begin-20*ms, begin, begin+100*ms, 400)
				other.TokenSteps, other.Events = 10, 11
				for range tt.clients {
					r := s.request("10.0.0.9", begin-20*ms, begin, begin+tt.length*ms, 400)
					r.Refused, r.Unread, r.TokenSteps, r.Events, r.Split, r.RoundTrip = tt.refused, tt.unread, tt.steps, 11, tt.split, 80*time.Millisecond
					r.After.Tokens = time.Duration(tt.steps) * 10 * time.Millisecond
					if tt.eager {
						r.After, r.TokenSteps = tick.RequestTime{Steps: r.After.Tokens}, 0
					}
				}
			}
			got := s.chains("slow-client")
			if tt.lost == 0 {
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) != 1 || (got[0].Lost-tt.lost).Abs() > time.Millisecond || got[0].PID != engineTID || got[0].Slow != 20*tt.clients || got[0].Severity != tt.severity {
				t.Fatalf("%+v", got)
			}
			want := map[int]string{1: "client 10.0.0.9: 20 responses, round trip of up to 80.0 ms", 2: "client 10.0.0.9: 40 responses, round trip of up to 80.0 ms"}[tt.clients]
			if c := got[0].Culprits; len(c) != 1 || c[0].What != want || c[0].Lost != got[0].Lost {
				t.Errorf("culprits: %+v", c)
			}
		})
	}
}
