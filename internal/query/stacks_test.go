package query

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store/segment"
	"ingero/pkg/events"
)

// Stacks are read back as recorded, and calls have their site and weight.
func TestStacks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	x.second()
	x.close()
	r := openReader(t, path)
	s, err := r.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Stacks(t.Context(), &s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range stacks {
		if d := cmp.Diff(&stacks[i], got.Stack(stacks[i].ID)); d != "" {
			t.Errorf("stack %d (-want +got):\n%s", i, d)
		}
	}
	if got.Stack(9) != nil || got.Site(9) != "" || got.Site(2) != "train.py:8 in step()" || got.Site(1) != "" {
		t.Errorf("places %q and %q, stack 9: %v", got.Site(1), got.Site(2), got.Stack(9))
	}
	rows := ask(t, r, "SELECT DISTINCT stack, stack_weight, site FROM events ORDER BY stack").Rows
	want := [][]any{{nil, nil, nil}, {int64(2), int64(1), "train.py:8 in step()"}}
	if d := cmp.Diff(want, rows); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	sums, without, _, err := r.StackSums(t.Context(), Filter{Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	var calls, wall, wantCalls, wantWall, wantWithout uint64
	for i := range sums {
		calls, wall = calls+sums[i].Calls, wall+sums[i].Wall
	}
	for i := range x.calls {
		c := &x.calls[i]
		if c.Stack == 0 {
			wantWithout++
			continue
		}
		wantCalls++
		if c.Flags&events.CallNested == 0 {
			wantWall += uint64(c.Duration)
		}
	}
	if calls != wantCalls || wall != wantWall || without != wantWithout {
		t.Errorf("%d calls, %d ns, %d without; want %d, %d, %d", calls, wall, without, wantCalls, wantWall, wantWithout)
	}
}

// A sample's share is that of the selected calls, so that its sums can be scaled to them.
func TestStackSample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	for range 200 {
		x.second() // a frame of the log
	}
	r := openReader(t, path)
	for name, f := range map[string]Filter{"all": {}, "a process": {PIDs: []uint32{4830}}, "an operation": {Ops: []events.Op{opMalloc}}} {
		t.Run(name, func(t *testing.T) {
			calls, _, err := r.Called(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			s, _, err := r.StackSample(t.Context(), f, calls/4)
			if err != nil {
				t.Fatal(err)
			}
			sampled := s.Without
			for i := range s.Sums {
				sampled += s.Sums[i].Calls
			}
			if got := uint64(math.Round(float64(sampled) / s.Share)); s.Share >= 1 || got != calls {
				t.Errorf("%d calls, %.3f of the window's, make %d, want %d", sampled, s.Share, got, calls)
			}
		})
	}
}
