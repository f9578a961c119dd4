//go:build measure

package session_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// Among ranks that arrive at 10,000 collectives at different times, none is late enough to be
// missing.
func TestNobodyIsLate(t *testing.T) {
	child, r, to := ranked(t, 1000, "--steps", strconv.Itoa(2500), "--buckets", "4", "--jitter-us", "1500", "--cpu-us", "50", "--layers", "1")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	if x, ok := to.find(func(*rolled) bool { return true }); ok {
		t.Errorf("somebody is missing: %+v", x.RollCall)
	}
}

// A rank that dies is named within two seconds. The time to name a hanging rank is measured too.
func TestMissingIsNamedInTime(t *testing.T) {
	for _, tt := range missingRanks {
		t.Run(tt.name, func(t *testing.T) {
			_, r, to := ranked(t, 100_000, append(tt.args, "--steps", "1000000")...)
			var x rolled
			testkit.Eventually(t, "rank 1 to be missing", func() (ok bool) {
				x, ok = to.find(func(x *rolled) bool { return x.without(1, missed) })
				return ok
			})
			since := x.Since
			if m := &x.Missing[0]; m.End.Time != 0 {
				since = m.End.Time
			}
			d := x.at.Sub(time.Unix(0, since))
			testkit.Measured(t, "named-after", d.Seconds()*1e3, "ms", testkit.Lower)
			if tt.least == 0 && d > 2*time.Second {
				t.Errorf("named after %v", d)
			}
			r.cancel()
			r.end(t)
		})
	}
}

// lostTo returns the time that ranks lose to a late rank, by the last tick's chains.
func (r *rolls) lostTo() map[int32]time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := map[int32]time.Duration{}
	for _, c := range r.chains {
		if c.Rule == "nccl-straggler" && len(c.Culprits) == 1 {
			lost[r.ranks[c.Culprits[0].Thread.PID]] += c.Lost
		}
	}
	return lost
}

// The others lose time to a rank that is late from some step on. On an overloaded machine any rank
// may be late for a while, and is blamed for that time alone.
func TestStragglerIsBlamed(t *testing.T) {
	const slow, late = 1, 30 * time.Millisecond
	_, r, to := ranked(t, 500_000, "--steps", "1000000", "--slow-rank", fmt.Sprint(slow), "--slow-ms", fmt.Sprint(late.Milliseconds()), "--slow-from", "150")
	blamed := func() bool {
		lost := to.lostTo()
		of := lost[slow]
		delete(lost, slow)
		for _, other := range lost {
			if other > of/10 {
				return false
			}
		}
		return of > 10*late
	}
	testkit.Eventually(t, "what ten late steps cost, and ten times what others did", blamed)
	r.cancel()
	r.end(t)
	if !blamed() {
		t.Errorf("lost to ranks: %v, of which %d is late", to.lostTo(), slow)
	}
	for _, c := range r.last.Chains {
		if c.Rule == "gpu-slower" {
			t.Errorf("%s of %d", c.Rule, c.PID)
		}
	}
}
