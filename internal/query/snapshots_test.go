package query

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

func TestSnapshots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s", Node: "gpu-7"})
	for range 5 {
		x.second()
	}
	r := openReader(t, path)
	got, err := r.Snapshots(context.Background(), Filter{From: began.Add(2 * time.Second), To: began.Add(4 * time.Second)})
	if err != nil || len(got) != 2 {
		t.Fatalf("%d snapshots, want 2 (%v)", len(got), err)
	}
	want := x.tick(false)
	for i, s := range got {
		if s.Session != "s" || s.Node != "gpu-7" || !s.Time.Equal(began.Add(time.Duration(2+i)*time.Second)) || s.Host != want.Host ||
			s.Self != (tick.Self{CPU: time.Millisecond, RSS: 30 << 20}) || s.Records != uint64(len(x.calls)/5*(2+i)) {
			t.Errorf("snapshot %d: %+v", i, s)
		}
	}
}

// Failed calls, and the slowest of each second, are kept with their numbers in the session.
func TestNotable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	x.second()
	slow := events.Call{Start: x.now.UnixNano(), PID: 4821, TID: 4822, Weight: 1, Op: opLaunch, Duration: 5e8, OnCPU: 1e8, Runnable: 1e8, Throttled: 1e8, Blocked: 2e8,
		Args: [events.MaxArgs]uint64{1 << 63, 2, 3, 4}}
	calls := []events.Call{slow, slow}
	calls[1].Flags, calls[1].Duration, calls[1].OnCPU = events.CallLedgerPartial, 4e8, 0
	x.calls = append(x.calls, calls...)
	if err := x.db.Batch(&tick.Batch{Calls: calls}); err != nil {
		t.Fatal(err)
	}
	x.second()
	x.close()
	got, err := openReader(t, path).Notable(context.Background(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	failed, slowed := 0, 0
	for _, n := range got {
		c := x.calls[n.Number]
		if n.Call.Start != c.Start || n.Call.Op != c.Op || n.Call.PID != c.PID || n.Call.Duration != c.Duration || n.Call.Args != c.Args ||
			n.Call.Runnable != c.Runnable || n.Call.Throttled != c.Throttled {
			t.Fatalf("%+v, number %d is %+v", n, n.Number, c)
		}
		switch n.Why {
		case "failed":
			failed++
		case "slow":
			slowed++
			if partial := c.Flags&events.CallLedgerPartial != 0; c.Op != opLaunch || partial != (n.Call.Flags&events.CallLedgerPartial != 0) || !partial && n.Call.Blocked != c.Blocked {
				t.Errorf("%+v is reported as slow", n)
			}
		}
	}
	if want := len(x.calls) - len(calls); slowed != 2 || failed == 0 || failed >= want/10 {
		t.Errorf("%d slow and %d failed calls of %d", slowed, failed, len(x.calls))
	}
	for i := range x.calls {
		if x.calls[i].Flags&events.CallFailed != 0 {
			failed--
		}
	}
	if failed != 0 {
		t.Errorf("%d failed calls are missing", -failed)
	}
}
