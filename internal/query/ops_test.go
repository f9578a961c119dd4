package query

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/pkg/events"
)

// bySum sums calls one by one.
func bySum(calls []events.Call, f Filter, g Group) map[statKey]*store.Sum {
	from, to := bounds(f)
	s := &opStats{Group: g, found: map[statKey]*store.Sum{}}
	for i := range calls {
		if c := &calls[i]; c.Start >= from && c.Start < to && f.matches(c.PID, c.Op) && f.hasStack(c.Stack) {
			s.sum(&Session{Session: segment.Session{Node: "gpu-7"}}, c.Start, c.PID, c.Op, c.Stack, "").Add(c)
		}
	}
	return s.found
}

// window returns the filter with the window moved to the answer's ticks.
func (c *Coverage) window(f Filter) Filter {
	if !c.From.IsZero() {
		f.From, f.To = c.From, c.To
	}
	return f
}

func sameStats(t *testing.T, name string, got []OpStat, want map[statKey]*store.Sum) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d", name, len(got), len(want))
		return
	}
	for _, o := range got {
		k := statKey{node: o.Node, pid: o.PID, stack: o.Stack, op: o.Op}
		if !o.Time.IsZero() {
			k.time = o.Time.UnixNano()
		}
		w := want[k]
		o.Sum.Inner = 0 // records have no sum of it
		if w == nil || o.Sum != w.Counts || o.Dur.Sum() != w.Dur.Sum() || o.Dur.Count() != w.Dur.Count() ||
			o.Dur.Max() != w.Dur.Max() || o.Dur.Quantile(0.99) != w.Dur.Quantile(0.99) {
			t.Errorf("%s: %+v: %+v, want %+v", name, k, o.Sum, w)
			return
		}
	}
}

// Rollups with the calls at the edges equal the sums of all calls, for any window: during the
// recording, after it, and after a part of the rollups or of the calls is gone.
func TestOpStatsOfAnyWindow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s", Node: "gpu-7"})
	for range 40 {
		x.second()
		x.idle(time.Duration(x.r.IntN(30)) * time.Second)
	}
	r := openReader(t, path)
	random := rand.New(rand.NewPCG(3, 4))
	check := func(name string) {
		t.Helper()
		for i := range 60 {
			a := began.Add(time.Duration(random.Int64N(int64(11 * time.Minute))))
			b := a.Add(time.Duration(random.Int64N(int64(12 * time.Minute))))
			f := Filter{Session: AllSessions, From: a, To: b}
			g := Group{PID: i%2 == 0, Node: i%3 == 0}
			switch i % 5 {
			case 0:
				f.From = time.Time{}
			case 1:
				f.To = time.Time{}
			case 2:
				f.PIDs, g.Stack = []uint32{4830}, i%4 == 0
			case 4:
				f.Stacks = []uint32{1, 2}
			case 3:
				g.Every = []time.Duration{time.Second, 7 * time.Second, time.Minute, 250 * time.Millisecond}[i%4]
			}
			got, cover, err := r.OpStats(context.Background(), f, g)
			if err != nil || len(cover.Missing)+len(cover.Damage) > 0 {
				t.Fatal(cover, err)
			}
			sameStats(t, name, got, bySum(x.calls, cover.window(f), g))
		}
	}
	check("while it is recorded")
	x.second()
	check("and a second later")
	x.close()
	check("when it has ended")
	logs, err := filepath.Glob(filepath.Join(store.LogDir(path), "*.iseg"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	if err := os.Remove(logs[0]); err != nil {
		t.Fatal(err)
	}
	f := Filter{Session: AllSessions, From: began.Add(10 * time.Second), To: began.Add(400 * time.Second)}
	got, cover, err := r.OpStats(context.Background(), f, Group{PID: true})
	if err != nil || len(cover.Missing) > 0 {
		t.Fatal(cover, err)
	}
	sameStats(t, "whole seconds without the calls", got, bySum(x.calls, f, Group{PID: true}))
	f.From = f.From.Add(time.Millisecond)
	if _, cover, err := r.OpStats(context.Background(), f, Group{}); err != nil || !slices.Equal(cover.Missing, []string{"s"}) {
		t.Errorf("an edge without its calls: %+v (%v)", cover, err)
	}
}

// A window is cut without gaps or overlaps, whatever is kept.
func TestCover(t *testing.T) {
	const s = int64(time.Second)
	tiers := []rollTier{{60 * s, 0, 600 * s}, {10 * s, 300 * s, 700 * s}, {s, 500 * s, 1 << 62}}
	for _, tt := range []struct {
		from, to int64
		want     []stretch
	}{
		{0, 600 * s, []stretch{{60 * s, 0, 600 * s}}},
		{5, 60 * s, []stretch{{0, 5, 60 * s}}},
		{590 * s, 705*s + 7, []stretch{{10 * s, 590 * s, 700 * s}, {s, 700 * s, 705 * s}, {0, 705 * s, 705*s + 7}}},
		{30 * s, 130 * s, []stretch{{0, 30 * s, 60 * s}, {60 * s, 60 * s, 120 * s}, {0, 120 * s, 130 * s}}},
		{9, 9, nil},
	} {
		if diff := cmp.Diff(tt.want, cover(tiers, tt.from, tt.to), cmp.AllowUnexported(stretch{})); diff != "" {
			t.Errorf("[%d, %d) -want +got:\n%s", tt.from, tt.to, diff)
		}
	}
}

// BenchmarkMergeRollup reads one rollup.
func BenchmarkMergeRollup(b *testing.B) {
	var sum store.Sum
	for i := range int64(1000) {
		sum.Dur.Add(1000+i*i, 1)
	}
	text, err := sum.Dur.MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	var to stats.Sketch
	for b.Loop() {
		var s stats.Sketch
		if err := s.UnmarshalBinary(text); err != nil {
			b.Fatal(err)
		}
		to.Merge(&s)
	}
}
