package query

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// steps returns the ends of n steps of 15 ms, plus or minus more.
func steps(r *rand.Rand, n int, more int64) []int64 {
	at, out := began.UnixNano(), make([]int64, n)
	for i := range out {
		at += 15e6 + r.Int64N(more+1)
		out[i] = at
	}
	return out
}

// seen returns the steps as another machine's clock shows them.
func seen(r *rand.Rand, of []int64, ahead time.Duration, noise int64) []int64 {
	out := make([]int64, len(of))
	for i := range out {
		out[i] = of[i] + int64(ahead) + r.Int64N(noise)
	}
	return out
}

// Clock skew is measured for jobs in lockstep only.
func TestLockstep(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	a := steps(r, 2000, 1e6)
	for name, tt := range map[string]struct {
		a, b  []int64
		ok    bool
		ahead time.Duration
	}{
		"the same":               {a, seen(r, a, 0, 50e3), true, 0},
		"ahead":                  {a, seen(r, a, 1234*time.Millisecond, 50e3), true, 1234 * time.Millisecond},
		"behind":                 {a, seen(r, a, -7*time.Second, 50e3), true, -7 * time.Second},
		"began later":            {a, seen(r, a[300:], 40*time.Millisecond, 50e3), true, 40 * time.Millisecond},
		"further than is sought": {a, seen(r, a, 2*time.Minute, 50e3), false, 0},
		"on its own":             {a, steps(r, 2000, 1e6), false, 0},
		"all alike":              {steps(r, 2000, 0), seen(r, steps(r, 2000, 0), 0, 50e3), false, 0},
		"as uneven as uncertain": {a, seen(r, a, 0, 1e6), false, 0},
		"a few":                  {a[:100], a[:100], false, 0},
		"none":                   {a, nil, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ahead, within, ok := lockstep(tt.a, tt.b)
			if ok != tt.ok {
				t.Fatalf("%v: ahead %v, within %v", ok, time.Duration(ahead), time.Duration(within))
			}
			if off := (time.Duration(ahead) - tt.ahead).Abs(); ok && (off > 100*time.Microsecond || within > 50e3) {
				t.Errorf("ahead %v, within %v, want %v", time.Duration(ahead), time.Duration(within), tt.ahead)
			}
		})
	}
}

// recordSteps records synchronizing calls with the given ends.
func recordSteps(t *testing.T, path, node string, ends []int64, weight uint32) {
	t.Helper()
	now := time.Unix(0, ends[0]-10e6)
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{ID: node, Node: node, Started: now}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	var calls []events.Call
	for i, end := range ends {
		calls = append(calls, events.Call{Start: end - 9e6, Duration: 9e6, PID: 7, TID: 7, Op: opSync, Weight: weight},
			events.Call{Start: end - 8e6, Duration: 1e6, PID: 7, TID: 7, Op: opCuSync, Parent: opSync, Flags: events.CallNested, Weight: 1})
		if i%3 == 0 { // a thread with fewer
			calls = append(calls, events.Call{Start: end - 5e6, Duration: 1e6, PID: 7, TID: 8, Op: opSync, Weight: 1})
		}
	}
	now = time.Unix(0, ends[len(ends)-1])
	if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(&tick.Tick{Time: now, Seq: 1, Final: true}), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// A database's machines are compared with the first; one with thinned records gives no result.
func TestSkews(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a := steps(r, 1500, 1e6)
	path := filepath.Join(t.TempDir(), "x.db")
	recordSteps(t, path, "n1", a, 1)
	recordSteps(t, path, "n2", seen(r, a, 3*time.Second, 50e3), 1)
	recordSteps(t, path, "n3", steps(r, 1500, 1e6), 1)
	recordSteps(t, path, "n4", seen(r, a, time.Second, 50e3), 2)
	reader := openReader(t, path)
	var sessions []Session
	for _, id := range []string{"n1", "n2", "n3", "n4"} {
		s, err := reader.Session(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	got, err := reader.Skews(context.Background(), sessions)
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if k := got[0]; k.Node != "n2" || k.Against != "n1" || !k.Known || (k.Ahead-3*time.Second).Abs() > 100*time.Microsecond {
		t.Errorf("%+v", k)
	}
	if got[1].Known || got[2].Known {
		t.Errorf("%+v", got[1:])
	}
}
