package store

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Each row has the steps of what the program repeated in its time, with the slowest of them.
func TestLoopsOfPhases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	loop := func(id, steps uint64, length time.Duration, recent bool) *tick.Loop {
		l := &tick.Loop{ID: id, TID: 7, Waits: int(id), Steps: steps, Total: time.Duration(steps) * length, Lengths: &stats.Sketch{}}
		l.Lengths.Add(int64(length), uint32(steps))
		if recent {
			l.Recent = []tick.LoopStep{{From: c.now.Add(-length), To: c.now}}
		}
		return l
	}
	for seq := range uint64(40) { // 20 s of training, then of an evaluation
		c.advance(time.Second)
		l := loop(1, 10*min(seq+1, 20), 100*time.Millisecond, seq < 20)
		if seq >= 20 {
			l.Others = []*tick.Loop{loop(2, 2*(seq-19), 500*time.Millisecond, true)}
		}
		x := &tick.Tick{Time: c.now, Started: storetest.Began, Seq: seq, Breakdowns: []tick.Breakdown{{PID: 7, Elapsed: (seq + 1) * 1e9, Loop: l}}}
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	const query = `SELECT detail ->> '$.loop.waits', detail ->> '$.loop.steps', json_array_length(detail, '$.loop.slowest'),
		(SELECT max(value ->> 'to_ns' - value ->> 'from_ns') / 1000000 FROM json_each(detail, '$.loop.slowest')) FROM accounts WHERE seconds = 10 ORDER BY end_ns`
	if got, want := testkit.Rows(t, path, query), "1 100 5 100\n1 100 5 100\n2 20 5 500\n2 20 5 500"; got != want {
		t.Errorf("waits, steps, slowest steps, and ms of the slowest:\n%s\nwant\n%s", got, want)
	}
}

// A row has the step that was unfinished at its end, as the tick had it.
func TestUnfinishedStepOfAnAccount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	var want tick.LoopStep
	for seq := range uint64(10) {
		c.advance(time.Second)
		want = tick.LoopStep{From: c.now.Add(-8 * time.Second), To: c.now, Times: tick.StepTimes{Blocked: 8 * time.Second}, Took: []tick.Share{{NS: 8e9, Count: 2, Reason: events.ReasonPoll}}}
		x := &tick.Tick{Time: c.now, Started: storetest.Began, Seq: seq, Breakdowns: []tick.Breakdown{{PID: 7, Elapsed: (seq + 1) * 1e9, Open: &want}}}
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	const query = `SELECT (detail ->> '$.open.to_ns' - detail ->> '$.open.from_ns') / 1000000, detail ->> '$.open.blocked_ns', end_ns - detail ->> '$.open.to_ns', json_array_length(detail, '$.open.took') FROM accounts WHERE seconds = 10`
	if got, want := testkit.Rows(t, path, query), "8000 8000000000 0 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := slowOf(&want); !reflect.DeepEqual(slowOf(new(got.step())), got) {
		t.Errorf("%+v does not survive", got)
	}
}
