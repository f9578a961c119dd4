package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
)

// crowd has threads of one process that come and go.
type crowd struct {
	r    *rand.Rand
	live []tick.Thread
	next uint32
}

// tick advances the crowd by a second.
func (c *crowd) tick() []tick.Thread {
	for range c.r.IntN(6) {
		c.next++
		tid := 100 + c.next%80 // TIDs are reused
		if !hasThread(c.live, tid) {
			c.live = append(c.live, tick.Thread{PID: 7, TID: tid, Comm: fmt.Sprintf("t%d", tid)})
		}
	}
	var out []tick.Thread
	keep := c.live[:0]
	for _, t := range c.live {
		for _, x := range []*tick.Times{&t.InCalls, &t.Between} {
			x.Add(&tick.Times{OnCPU: c.r.Uint64N(1e9), Runnable: c.r.Uint64N(1e8), Throttled: c.r.Uint64N(1e7), Blocked: c.r.Uint64N(1e9)})
		}
		t.Sync = tick.Times{OnCPU: t.InCalls.OnCPU / 2, Runnable: t.InCalls.Runnable / 3, Blocked: t.InCalls.Blocked / 2}
		t.Ended = c.r.IntN(12) == 0
		out = append(out, t)
		if !t.Ended {
			keep = append(keep, t)
		}
	}
	c.live = keep
	return out
}

func hasThread(all []tick.Thread, tid uint32) bool {
	for i := range all {
		if all[i].TID == tid {
			return true
		}
	}
	return false
}

// The accounts of the threads add up to their process's: with more threads than are listed, when
// threads end, and when TIDs are reused. The same holds for the differences between any two ticks.
func TestThreadsAddUpToTheirProcess(t *testing.T) {
	l := New(0)
	c := &crowd{r: rand.New(rand.NewPCG(8, 1))}
	var was tick.Breakdown
	most := 0
	for second := range 200 {
		b := l.Tick(c.tick(), nil)[0]
		most = max(most, len(b.ByThread))
		since := b.Since(&was)
		for name, part := range map[string]*tick.Breakdown{"all": &b, "since": &since} {
			if got, want := addUp(part), *part; !cmp.Equal(got, [7]uint64{want.Elapsed, want.GPUWait, want.CallCPU, want.GapCPU, want.Runnable, want.Throttled, want.Blocked}) {
				t.Fatalf("second %d, %s: threads add up to %v, the process has %+v", second, name, got, want)
			}
		}
		if sum := was.Plus(&since); addUp(&sum) != addUp(&b) {
			t.Fatalf("second %d: %v and what came since is %v, not %v", second, addUp(&was), addUp(&sum), addUp(&b))
		}
		was = b
	}
	if most != maxListed+1 {
		t.Errorf("%d threads were told apart, want %d and the rest", most, maxListed)
	}
}

// addUp sums up the threads of an account by the parts of a process.
func addUp(b *tick.Breakdown) (sum [7]uint64) {
	var a account
	for i := range b.ByThread {
		for p := range a {
			a[p].Add(&b.ByThread[i].In[p].Times)
		}
	}
	var x tick.Breakdown
	a.fill(&x)
	return [7]uint64{x.Elapsed, x.GPUWait, x.CallCPU, x.GapCPU, x.Runnable, x.Throttled, x.Blocked}
}
