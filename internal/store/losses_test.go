package store

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// hog is a chain of a hog that takes a tenth of each second from began on, as an engine with a
// one-minute window reports it at now.
func hog(began, now time.Time) tick.Chain {
	c := tick.Chain{ID: "hog", Rule: "cpu-taken", PID: 7, To: now,
		Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf("stress")}, Lost: 3}, {What: "disk 1:0, a read", Lost: 1}}}
	c.From = began
	if sees := now.Add(-time.Minute); sees.After(began) {
		c.From = sees
	}
	c.Lost = now.Sub(c.From) / 10
	for at := c.From.Truncate(tick.SpreadStep); at.Before(now); at = at.Add(tick.SpreadStep) {
		if !at.Before(now.Add(-time.Minute)) { // completely in the window
			end := at.Add(tick.SpreadStep)
			if end.After(now) {
				end = now
			}
			c.Spread = append(c.Spread, tick.Loss{Start: at.UnixNano(), Lost: end.Sub(at) / 10})
		}
	}
	return c
}

// A chain that many ticks report over a moving window is counted once, by minute and culprit.
func TestLosses(t *testing.T) {
	for name, spread := range map[string]bool{"by time": true, "as a sum": false} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			db, c := open(t, path, Options{})
			k := storetest.NewKernel()
			c.now = c.now.Truncate(time.Minute)
			began := c.now
			for i := range 400 { // 300 s of it; then it stays unchanged, and then it is absent
				c.advance(time.Second)
				x := k.Tick(uint64(i+1), c.now, false)
				end := c.now
				if last := began.Add(300 * time.Second); end.After(last) {
					end = last
				}
				if i < 390 {
					x.Chains = []tick.Chain{hog(began, end)}
					if !spread {
						x.Chains[0].Spread = nil
					}
				}
				if i == 390 {
					c.advance(lossKept + lossWindow)
					x.Time = c.now
				}
				if err := db.Tick(x); err != nil {
					t.Fatal(err)
				}
			}
			const q = "SELECT chain, culprit, rule, pid, count(*), sum(lost_ns) / 10000000 FROM losses WHERE seconds = 60 GROUP BY 1, 2 ORDER BY 6"
			if got, want := testkit.Rows(t, path, q), "hog disk 1:0 cpu-taken 7 5 750\nhog stress cpu-taken 7 5 2250"; got != want {
				t.Errorf("losses:\n%s\nwant\n%s", got, want)
			}
			if n := len(db.saver.lost); n != 0 {
				t.Errorf("%d chains that are over are kept in memory", n)
			}
			c.advance(30*24*time.Hour + time.Hour)
			if err := db.saver.rows.Trim(c.now); err != nil {
				t.Fatal(err)
			}
			if got, want := testkit.Rows(t, path, "SELECT seconds, count(*), sum(lost_ns) / 10000000 FROM losses GROUP BY 1"), "3600 2 3000"; got != want {
				t.Errorf("a month later: %s, want %s", got, want)
			}
		})
	}
}

// A revised loss is removed; the same chain's earlier losses stay.
func TestRevisedLosses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	k := storetest.NewKernel()
	seq := uint64(0)
	step := func(after time.Duration, chains ...tick.Chain) {
		t.Helper()
		c.advance(after)
		seq++
		x := k.Tick(seq, c.now, false)
		x.Chains = chains
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(want int) {
		t.Helper()
		if got := testkit.Rows(t, path, "SELECT coalesce(sum(lost_ns), 0) / 1000000 FROM losses"); got != fmt.Sprint(want) {
			t.Errorf("lost: %s ms, want %d", got, want)
		}
	}
	chain := func(lost time.Duration) tick.Chain {
		return tick.Chain{ID: "a", PID: 7, From: c.now.Add(-5 * time.Second), To: c.now, Lost: lost}
	}
	step(10*time.Second, chain(time.Second))
	sum(1000)
	step(2*time.Minute, chain(2*time.Second))
	sum(3000)
	step(time.Second)
	sum(1000)
	step(20*time.Second, chain(3*time.Second))
	sum(4000)
	// A growing loss is counted once, also when it goes from one interval into the next, and in a later episode.
	for _, want := range []int{3000, 5000} {
		began := c.now.Truncate(tick.SpreadStep).Add(2 * time.Minute)
		for i, at := range []time.Duration{4, 9, 20} {
			c.now = began.Add(at * time.Second)
			step(0, tick.Chain{ID: "b", PID: 7, From: began, To: c.now, Lost: time.Duration(min(i, 1)+1) * time.Second})
		}
		sum(want)
	}
}

// A loss that is known as a sum since its start, and stays listed after its end, is recorded whole, also if
// there are no ticks for a while.
func TestLongLoss(t *testing.T) {
	for name, last := range map[string]int{"all ticks": 930, "a gap of 12 minutes": 150} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			db, c := open(t, path, Options{})
			k := storetest.NewKernel()
			c.now = c.now.Truncate(time.Minute)
			began := c.now
			const lasts = 930 * time.Second
			for i := range 930 + 240 {
				if c.advance(time.Second); i >= last && i < 900 {
					continue
				}
				x := k.Tick(uint64(i+1), c.now, false)
				lost := min(c.now.Sub(began), lasts)
				x.Chains = []tick.Chain{{ID: "hang", Rule: "nccl-missing", PID: 7, From: began, To: began.Add(lost), Lost: lost}}
				if err := db.Tick(x); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := testkit.Rows(t, path, "SELECT count(*), sum(lost_ns) / 1000000000, max(lost_ns) / 1000000000 FROM losses"), "16 930 60"; got != want {
				t.Errorf("minutes, seconds lost, most in a minute: %s, want %s", got, want)
			}
		})
	}
}

// The loss of a replaced chain is recorded up to the start of the chain that replaces it.
func TestReplacedLosses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	k := storetest.NewKernel()
	c.now = c.now.Truncate(time.Minute)
	began := c.now
	var old tick.Chain
	for i := range 400 {
		c.advance(time.Second)
		x := k.Tick(uint64(i+1), c.now, false)
		if i < 185 {
			old = hog(began, c.now)
		}
		x.Chains = []tick.Chain{old}
		if i >= 185 { // the minute before is the other's, too
			by := hog(began.Add(2*time.Minute), c.now)
			by.ID, by.Rule = "burst", "burst-of-programs"
			old.Replaced = began.Add(130 * time.Second)
			x.Chains = []tick.Chain{old, by}
		}
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	const q = "SELECT chain, rule, sum(lost_ns) / 1000000 FROM losses GROUP BY 1 ORDER BY 1"
	if got, want := testkit.Rows(t, path, q), "burst burst-of-programs 27000\nhog cpu-taken 13000"; got != want {
		t.Errorf("losses:\n%s\nwant\n%s", got, want)
	}
}

// A loss that becomes known only when it is old is recorded whole.
func TestLateLoss(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	k := storetest.NewKernel()
	c.now = c.now.Truncate(time.Minute)
	began := c.now
	c.advance(20 * time.Minute)
	for i := range 3 {
		x := k.Tick(uint64(i+1), c.now, false)
		x.Chains = []tick.Chain{{ID: "hang", PID: 7, From: began, To: began.Add(20 * time.Minute), Lost: 20 * time.Minute}}
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
		c.advance(2 * time.Minute)
	}
	if got, want := testkit.Rows(t, path, "SELECT count(*), sum(lost_ns) / 1000000000 FROM losses"), "20 1200"; got != want {
		t.Errorf("minutes, seconds lost: %s, want %s", got, want)
	}
}
