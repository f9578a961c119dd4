package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingero/internal/session"
	"ingero/internal/stats"
	"ingero/internal/store/log"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var (
	_ session.Recording = (*Replay)(nil)
	_ session.Clock     = (*Replay)(nil)
	_ tick.Sink         = (*DB)(nil)
)

// keeper is a sink that keeps its input.
type keeper struct {
	calls []events.Call
	waits []events.Wait
	ticks []tick.Tick
}

func (k *keeper) Batch(b *tick.Batch) error {
	k.calls, k.waits = append(k.calls, b.Calls...), append(k.waits, b.Waits...)
	return nil
}

func (k *keeper) Tick(t *tick.Tick) error { k.ticks = append(k.ticks, *t); return nil }
func (k *keeper) Close() error            { return nil }

// A recorded session, and the session replayed from its recording, give the same ticks, including
// distributions.
func TestReplayThroughSessionGivesWhatLiveGave(t *testing.T) {
	testkit.LeakCheck(t)
	run := func(b []byte, sinks ...tick.Sink) *keeper {
		t.Helper()
		l, err := OpenLog(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		k := &keeper{}
		r := NewReplay(l, ReplayOptions{})
		if err := session.Run(context.Background(), session.Config{Source: session.FromRecording(r), Clock: r, Sinks: append(sinks, k)}); err != nil {
			t.Fatal(err)
		}
		return k
	}
	path := filepath.Join(t.TempDir(), "x.db")
	db, _ := open(t, path, Options{Session: testSession()})
	live := run(record(t, 4, 20_000).bytes, db)
	b, err := os.ReadFile(filepath.Join(LogDir(path), segmentName(db.Session().ID, 0, true)))
	if err != nil {
		t.Fatal(err)
	}
	again := run(b)
	sameCalls(t, live.calls, again.calls)
	sameWaits(t, live.waits, again.waits)
	if len(live.ticks) < 4 || len(live.ticks) != len(again.ticks) {
		t.Fatalf("%d ticks, live %d", len(again.ticks), len(live.ticks))
	}
	sketches := diff.Comparer(func(a, b *stats.Sketch) bool {
		x, _ := a.MarshalBinary()
		y, _ := b.MarshalBinary()
		return bytes.Equal(x, y)
	})
	opts := []diff.Option{sketches, cmpopts.EquateApproxTime(0), diff.Comparer(func(a, b *stats.Hist) bool { return *a == *b })}
	for i := range live.ticks {
		if d := diff.Diff(&live.ticks[i], &again.ticks[i], opts...); d != "" {
			t.Errorf("tick %d -live +replay:\n%s", i+1, d)
		}
	}
	got := again.ticks[len(again.ticks)-1]
	if len(got.Launches) == 0 || got.Launches[0].Named == 0 || len(got.Launches[0].Unnamed) == 0 {
		t.Errorf("launches: %+v", got.Launches)
	}
}

// A damaged recording is replayed up to the damage, and the session reports the damage.
func TestReplayOfDamagedLogThroughSession(t *testing.T) {
	b := record(t, 3, 2000).bytes
	b[len(b)*2/3] ^= 1
	l, err := OpenLog(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{}
	r := NewReplay(l, ReplayOptions{})
	err = session.Run(context.Background(), session.Config{Source: session.FromRecording(r), Clock: r, Sinks: []tick.Sink{k}})
	if !errors.Is(err, log.ErrCorrupt) || len(k.calls) == 0 || len(k.ticks) == 0 || !k.ticks[len(k.ticks)-1].Final {
		t.Errorf("error %v, %d calls, %d ticks", err, len(k.calls), len(k.ticks))
	}
}
