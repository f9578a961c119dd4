package query

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// want compares a summary with independently computed counts.
func want(t *testing.T, s *Summary, calls []events.Call) {
	t.Helper()
	ops := storetest.Counts{}
	ops.See(calls...)
	gaps := tick.Gaps{}
	for i := range calls {
		if gaps[calls[i].PID] == nil {
			gaps[calls[i].PID] = &tick.Gap{}
		}
		gaps[calls[i].PID].Add(&calls[i])
	}
	for i := range s.Processes {
		if p := &s.Processes[i]; p.Comm != "python3" || p.Attached.Sub(p.Mapped) != 20*time.Millisecond {
			t.Errorf("process %+v", p)
		}
	}
	if d := cmp.Diff(gaps, s.Gaps, cmpopts.IgnoreUnexported(tick.Gap{})); d != "" {
		t.Errorf("gaps -want +got:\n%s", d)
	}
	if !slices.IsSortedFunc(s.Ops, func(a, b tick.Op) int { return int(a.Op) - int(b.Op) }) {
		t.Error("the operations are not in order")
	}
	for i := range s.Ops {
		o := &s.Ops[i]
		w := ops[storetest.Key{PID: o.PID, Op: o.Op}]
		if w == nil || o.Sum != w.Sum {
			t.Errorf("%d %v: %+v, want %+v", o.PID, o.Op, o.Sum, w)
			continue
		}
		for _, q := range []float64{0, 0.5, 0.9, 0.95, 0.99, 1} {
			if got := o.Dur.Quantile(q); got != w.Dur.Quantile(q) || o.Dur.Count() != w.Sum.Done {
				t.Errorf("%d %v: quantile %v = %d, want %d", o.PID, o.Op, q, got, w.Dur.Quantile(q))
			}
		}
		if !s.Rebuilt && *o.Hist != *w.Hist {
			t.Errorf("%d %v: the histogram differs", o.PID, o.Op)
		}
	}
	if len(s.Ops) != len(ops) {
		t.Errorf("%d operations, want %d", len(s.Ops), len(ops))
	}
}

func TestSummaryOfSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	r := openReader(t, path)
	for range 3 { // also while it is being written
		x.second()
		s := summary(t, r, Filter{})
		if s.Rebuilt || s.Thinned || !s.From.Equal(began) || !s.To.Equal(x.now) {
			t.Errorf("rebuilt %v, thinned %v, %v to %v", s.Rebuilt, s.Thinned, s.From, s.To)
		}
		want(t, s, x.calls)
	}
	x.close()
	s := summary(t, r, Filter{})
	want(t, s, x.calls)
	if len(s.Libraries) != 2 || s.Libraries[0].Lib != events.LibCudart || len(s.Reports) != 1 || len(s.Drops) != 0 {
		t.Errorf("libraries %v, reports %v, drops %v", s.Libraries, s.Reports, s.Drops)
	}
}

func TestSummaryFilters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	for range 4 {
		x.second()
	}
	x.close()
	r := openReader(t, path)
	sec := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
	for _, tt := range []struct {
		name    string
		f       Filter
		rebuilt bool
	}{
		{"all", Filter{}, false},
		{"bounds outside", Filter{From: sec(-5), To: sec(60)}, false},
		{"from the start", Filter{From: sec(0)}, false},
		{"the last two seconds", Filter{From: sec(2)}, true},
		{"the first", Filter{To: sec(1)}, true},
		{"the middle", Filter{From: sec(1), To: sec(3)}, true},
		{"half a second", Filter{From: sec(1), To: sec(1).Add(300 * time.Microsecond)}, true},
		{"one process", Filter{PIDs: []uint32{4830}}, false},
		{"one process, one second", Filter{PIDs: []uint32{4830}, From: sec(3)}, true},
		{"nothing", Filter{From: sec(10)}, true},
		{"no such process", Filter{PIDs: []uint32{1}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := summary(t, r, tt.f)
			if s.Rebuilt != tt.rebuilt {
				t.Errorf("rebuilt = %v", s.Rebuilt)
			}
			if s.Rebuilt && s.CountedFrom.IsZero() && !tt.f.From.After(x.now) {
				t.Error("the kernel's counts were not asked")
			}
			from, to := bounds(tt.f)
			if s.Rebuilt { // from a tick to a tick
				from, to = s.CountedFrom.UnixNano(), s.CountedTo.UnixNano()
			}
			var calls []events.Call
			for _, c := range x.calls {
				if c.Start >= from && c.Start < to && (tt.f.PIDs == nil || slices.Contains(tt.f.PIDs, c.PID)) {
					calls = append(calls, c)
				}
			}
			want(t, s, calls)
			f := tt.f
			f.From, f.To = s.CountedFrom, s.CountedTo
			got, err := r.Calls(context.Background(), f, 0)
			if err != nil || !slices.Equal(got, calls) {
				t.Errorf("%d calls, want %d (%v)", len(got), len(calls), err)
			}
		})
	}
}

func TestFilterByOperation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	x.second()
	x.second()
	x.close()
	r := openReader(t, path)
	for _, f := range []Filter{{Ops: []events.Op{opSync}}, {Ops: []events.Op{opSync}, From: began.Add(time.Nanosecond)}} {
		s := summary(t, r, f)
		for i := range s.Ops {
			o := &s.Ops[i]
			if o.Op != opSync || o.Sum.Total-o.Sum.Inner != o.Sum.Done*1000 || s.Gaps[o.PID].Total == 0 {
				t.Errorf("%+v, gaps %+v, want the synchronise's own 1,000 ns a call", o, s.Gaps[o.PID])
			}
		}
		if len(s.Ops) != 2 {
			t.Errorf("%d operations", len(s.Ops))
		}
	}
	calls, err := r.Calls(context.Background(), Filter{Ops: []events.Op{opMalloc}}, 3)
	if err != nil || len(calls) != 3 || calls[0].Op != opMalloc || calls[2].Result != 2 {
		t.Errorf("calls %v, error %v", calls, err)
	}
}

func TestOpenCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	o := x.ops.Op(4821, opSync)
	o.Sum.Calls, o.Sum.Abandoned = 5, 2 // 3 have not returned
	x.second()
	x.close()
	s := summary(t, openReader(t, path), Filter{PIDs: []uint32{4821}, Ops: []events.Op{opSync}})
	if got := s.Ops[0].Sum; got.Abandoned != 2 || got.Calls != 6 || got.Done != 1 || got.Errors != 0 {
		t.Errorf("%+v", got)
	}
}

// In a thinned session, the counts come from the kernel.
func TestThinnedSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	x.left = 7
	o := x.ops.Op(4821, opLaunch)
	o.Thinned = true
	for range 100_000 {
		o.Hist.Record(900, 1)
	}
	o.Sum.Calls += 100_000
	o.Sum.Done += 100_000
	x.second()
	x.close()
	r := openReader(t, path)
	s := summary(t, r, Filter{PIDs: []uint32{4821}, Ops: []events.Op{opLaunch}})
	got := stats.Durations{Seen: s.Ops[0].Dur, All: s.Ops[0].Hist, Thinned: s.Ops[0].Thinned}
	median, ok := got.Quantile(0.5)
	if !s.Thinned || !ok || median < 840 || median > 960 {
		t.Errorf("thinned %v, median %d", s.Thinned, median)
	}
	if len(s.Drops) != 1 || s.Drops[0].Count != 7 {
		t.Errorf("drops = %v", s.Drops)
	}
	if s := summary(t, r, Filter{From: began.Add(time.Nanosecond)}); !s.Thinned {
		t.Error("a part of a session that lost records does not say so")
	}
}

func TestCallsThatAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	x.second()
	x.close()
	r := openReader(t, path)
	log := filepath.Join(store.LogDir(path), "s-000000.iseg")
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	window := Filter{From: began.Add(time.Nanosecond)}
	for i := range b[len(b)/8 : len(b)/2] { // in the calls
		b[len(b)/8+i] ^= 1
	}
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := summary(t, r, window); len(s.Damage) == 0 {
		t.Error("a damaged log is not mentioned")
	}
	for i := range b[len(b)/8 : len(b)/2] {
		b[len(b)/8+i] ^= 1
	}
	if err := os.WriteFile(log, b[:len(b)*3/4], 0o600); err != nil {
		t.Fatal(err)
	}
	if s := summary(t, r, window); len(s.Damage) != 1 || !strings.Contains(s.Damage[0], "rest of the segment is missing") {
		t.Errorf("rest of the segment is missing, damage %q", s.Damage)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Summary(context.Background(), window); !errors.Is(err, ErrNoCalls) {
		t.Errorf("without the log: %v", err)
	}
	want(t, summary(t, r, Filter{}), x.calls) // the counts are elsewhere
}

func TestCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	x.second()
	x.close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := openReader(t, path).Calls(ctx, Filter{}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}
