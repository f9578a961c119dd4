package segment

import (
	"errors"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// liveOps returns a tick of n operations of different processes from pid first on.
func liveOps(seq uint64, first, n int) *tick.Tick {
	t := &tick.Tick{Seq: seq, Time: storetest.Began.Add(time.Duration(seq) * time.Second), Started: storetest.Began}
	for i := range n {
		t.Ops = append(t.Ops, tick.Op{PID: uint32(first + i), Op: events.Op(7), Sum: tick.Counts{Calls: seq, Done: seq}, Hist: &stats.Hist{3: seq}})
	}
	return t
}

// Many current operations do not fill a segment, and readers get all of them; as many past ones fill it.
func TestFullSegment(t *testing.T) {
	for name, c := range map[string]struct {
		live, step, ticks int // operations in a tick, and new ones in each
		full              bool
	}{
		"few":                {100, 0, 4, false},
		"many":               {fullOps + 10, 0, 4, false},
		"more than a reader": {maxOps + 10, 0, 2, false},
		"many past ones":     {fullOps / 2, fullOps / 2, 3, true},
		"no room for more":   {maxOps * 5 / 8, maxOps / 5, 4, true},
	} {
		m, w := beginLog(t, Head{})
		for i := range c.ticks {
			if err := errors.Join(w.Tick(liveOps(uint64(i+1), 1+i*c.step, c.live), 0), w.Flush()); err != nil {
				t.Fatal(err)
			}
		}
		if w.Full() != c.full {
			t.Errorf("%s: full %v", name, w.Full())
		}
		l := openLog(t, m.Bytes())
		last := map[opKey]uint64{}
		var e Entry
		err := l.Next(&e)
		for ; err == nil; err = l.Next(&e) {
			if e.Tick == nil {
				continue
			}
			for _, o := range e.Tick.Ops {
				last[opKey{o.PID, o.Op}] = o.Sum.Calls
			}
		}
		want := min(c.live+(c.ticks-1)*c.step, maxOps)
		if l.Torn() != 0 || len(last) != want || last[opKey{uint32(1 + (c.ticks-1)*c.step), 7}] != uint64(c.ticks) {
			t.Errorf("%s: %d operations, want %d, %d bytes left: %v", name, len(last), want, l.Torn(), err)
		}
	}
}
