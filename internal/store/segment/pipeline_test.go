package segment_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingero/internal/session"
	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

var (
	_ session.Recording = (*segment.Replay)(nil)
	_ session.Clock     = (*segment.Replay)(nil)
	_ tick.Sink         = (*store.DB)(nil)
)

// A recorded session, and the session replayed from its recording, give the same ticks, including
// distributions.
func TestReplayThroughSessionGivesWhatLiveGave(t *testing.T) {
	testkit.LeakCheck(t)
	run := func(b []byte, sinks ...tick.Sink) *storetest.Keeper {
		t.Helper()
		l, err := segment.OpenLog(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		k := &storetest.Keeper{}
		r := segment.NewReplay(l, segment.ReplayOptions{})
		if err := session.Run(context.Background(), session.Config{Source: session.FromRecording(r), Clock: r, Sinks: append(sinks, k)}); err != nil {
			t.Fatal(err)
		}
		return k
	}
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := store.Open(store.Options{Path: path, Session: segment.SampleSession(), Now: func() time.Time { return storetest.Began },
		AfterFunc: func(time.Duration, func()) func() bool { return func() bool { return true } }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	live := run(segment.Record(t, 4, 20_000), db)
	b, err := os.ReadFile(filepath.Join(store.LogDir(path), segment.Name(db.Session().ID, 0, true)))
	if err != nil {
		t.Fatal(err)
	}
	again := run(b)
	storetest.SameCalls(t, live.Calls, again.Calls)
	storetest.SameWaits(t, live.Waits, again.Waits)
	if len(live.Ticks) < 4 || len(live.Ticks) != len(again.Ticks) {
		t.Fatalf("%d ticks, live %d", len(again.Ticks), len(live.Ticks))
	}
	sketches := diff.Comparer(func(a, b *stats.Sketch) bool {
		x, _ := a.MarshalBinary()
		y, _ := b.MarshalBinary()
		return bytes.Equal(x, y)
	})
	opts := []diff.Option{sketches, cmpopts.EquateApproxTime(0), diff.Comparer(func(a, b *stats.Hist) bool { return *a == *b })}
	for i := range live.Ticks {
		if d := diff.Diff(&live.Ticks[i], &again.Ticks[i], opts...); d != "" {
			t.Errorf("tick %d -live +replay:\n%s", i+1, d)
		}
	}
	got := again.Ticks[len(again.Ticks)-1]
	if len(got.Launches) == 0 || got.Launches[0].Named == 0 || len(got.Launches[0].Unnamed) == 0 {
		t.Errorf("launches: %+v", got.Launches)
	}
}

// A damaged recording is replayed up to the damage, and the session reports the damage.
func TestReplayOfDamagedLogThroughSession(t *testing.T) {
	b := segment.Record(t, 3, 2000)
	b[len(b)*2/3] ^= 1
	l, err := segment.OpenLog(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	k := &storetest.Keeper{}
	r := segment.NewReplay(l, segment.ReplayOptions{})
	err = session.Run(context.Background(), session.Config{Source: session.FromRecording(r), Clock: r, Sinks: []tick.Sink{k}})
	if !errors.Is(err, log.ErrCorrupt) || len(k.Calls) == 0 || len(k.Ticks) == 0 || !k.Ticks[len(k.Ticks)-1].Final {
		t.Errorf("error %v, %d calls, %d ticks", err, len(k.Calls), len(k.Ticks))
	}
}
