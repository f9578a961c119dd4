package query

import (
	"context"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// An engine and a process with clients serve; a process that queries servers does not.
func TestServing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s1", Started: began, Mode: "trace"})
	received := func(pid uint32, object string) tick.HostSum {
		return tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostReceive, PID: pid, Object: object}, Count: 1}
	}
	sent := received(7, "10.0.0.9")
	sent.Kind = tick.HostSend
	x.now = began.Add(time.Second)
	err := x.db.Tick(&tick.Tick{Time: x.now, Started: began, Seq: 1, Final: true, EngineSteps: []tick.EngineSteps{engineStepsOf(1)},
		HostSums: []tick.HostSum{received(1, "10.0.0.9"), received(2, "::1"), received(3, "10.0.0.9:6379"), received(4, "[::1]:6379"), received(5, ""), sent}})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.db.Close(); err != nil {
		t.Fatal(err)
	}
	r := openReader(t, path)
	for _, tt := range []struct {
		from time.Time
		want map[uint32]bool
	}{
		{began, map[uint32]bool{1: true, 2: true, 4821: true}},
		{began.Add(time.Minute), map[uint32]bool{}},
	} {
		got, err := r.Serving(context.Background(), Filter{Session: "s1", From: tt.from, To: tt.from.Add(time.Minute)})
		if err != nil || !maps.Equal(got, tt.want) {
			t.Errorf("from %v: %v, %v, want %v", tt.from, got, err, tt.want)
		}
	}
}
