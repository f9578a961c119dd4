package cli

import (
	"testing"
	"time"

	"ingero/internal/tick"
)

// A trace keeps current accounts of the reported processes only, however many others come and go.
// An analysis of a recording keeps those of all processes, up to a limit.
func TestCollectorIsBounded(t *testing.T) {
	const steady, seconds, each, stays = 7, 900, 20, 5
	for _, tt := range []struct {
		name     string
		reported bool
		most     int
	}{
		{"a trace", true, each*stays*2 + moreAccounts + 2},
		{"an analysis", false, maxKept},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &collector{lastTickOnly: tt.reported}
			for second := range seconds {
				x := &tick.Tick{Time: time.Unix(int64(second), 0), Processes: []tick.Process{{PID: steady}}, Breakdowns: []tick.Breakdown{{PID: steady, Elapsed: uint64(second)}}}
				for at := max(0, second-stays+1) * each; at < (second+1)*each; at++ {
					x.Processes = append(x.Processes, tick.Process{PID: uint32(1000 + at)})
					x.Breakdowns = append(x.Breakdowns, tick.Breakdown{PID: uint32(1000 + at), Elapsed: 1})
				}
				if err := c.Tick(x); err != nil {
					t.Fatal(err)
				}
				for i := range x.Breakdowns {
					if _, ok := c.accounts[x.Breakdowns[i].PID]; !ok && len(c.accounts) < maxKept {
						t.Fatalf("second %d: process %d has no account", second, x.Breakdowns[i].PID)
					}
				}
				if n := len(c.accounts); n > tt.most {
					t.Fatalf("second %d: %d accounts", second, n)
				}
			}
			if got := c.accounts[steady].Elapsed; got != seconds-1 {
				t.Errorf("the steady process has %d, want %d", got, seconds-1)
			}
			if n := len(c.accounts); !tt.reported && n != maxKept {
				t.Errorf("%d accounts were kept, want %d", n, maxKept)
			}
		})
	}
}
