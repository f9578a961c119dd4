package store

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A label lasts until its next change or the end of its process. A repair restores the rows, also
// from segments whose earlier ones are gone.
func TestLabelsAreRowsOfTime(t *testing.T) {
	now := time.Unix(0, 100)
	db, err := Open(Options{Path: t.TempDir() + "/x.db", Session: segment.Session{ID: "s", Node: "n", Started: now}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	batches := []tick.Batch{
		{Labels: []tick.Label{{Time: 110, PID: 7, Key: "epoch", Value: "1"}, {Time: 110, PID: 8, Key: "tenant", Value: "a"}, {Time: 112, PID: 7, TID: 71, Key: "epoch", Value: "x"}}},
		{Labels: []tick.Label{{Time: 115, PID: 7, Key: "epoch", Value: "1"}, {Time: 120, PID: 7, Key: "epoch", Value: "2"}}},
		{Procs: []tick.ProcEvent{{Time: 130, Kind: tick.ProcExited, PID: 7}, {Time: 130, Kind: tick.ProcExeced, PID: 8}}},
		{Labels: []tick.Label{{Time: 140, PID: 7, Key: "epoch", Value: "9"}, {Time: 141, PID: 7, Key: "epoch"}}}, // the PID is reused
	}
	for i := range batches {
		if err := db.Batch(&batches[i]); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			db.mu.Lock()
			err = errors.Join(db.flush(), db.rotate())
			db.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(db.Tick(&tick.Tick{Time: now, Final: true}), db.Close()); err != nil {
		t.Fatal(err)
	}
	const all = "SELECT group_concat(x, ' ') FROM (SELECT pid || '/' || tid || ':' || key || '=' || value || '@' || from_ns || '-' || coalesce(to_ns, '') AS x FROM labels ORDER BY pid, tid, key, from_ns)"
	const want = "7/0:epoch=1@110-120 7/0:epoch=2@120-130 7/0:epoch=9@140-141 7/71:epoch=x@112-130 8/0:tenant=a@110-"
	if got := testkit.Rows(t, db.Path(), all); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	restoreFile(t, db.Path(), db.Session().ID)
	if got := testkit.Rows(t, db.Path(), all); got != want {
		t.Errorf("after a repair: got  %s\nwant %s", got, want)
	}
	segs, err := segment.OfSession(log.Dir(LogDir(db.Path())), "s")
	if err != nil || len(segs) != 2 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	if err := os.Remove(filepath.Join(LogDir(db.Path()), segs[0].Name)); err != nil {
		t.Fatal(err)
	}
	restoreFile(t, db.Path(), db.Session().ID)
	if got, want := testkit.Rows(t, db.Path(), all), strings.TrimPrefix(want, "7/0:epoch=1@110-120 "); got != want {
		t.Errorf("from the last segment: got  %s\nwant %s", got, want)
	}
}

// Names and labels that wait for the database are bounded. Those left out are counted, and no label
// whose beginning is queued lasts too long.
func TestQueuesAreBounded(t *testing.T) {
	const times, kept = maxQueued, 10
	v := &saver{dropped: map[tick.LabelSpan]bool{}}
	v.addFunctions(make([]events.Function, kept))
	v.addFunctions(make([]events.Function, times))
	if len(v.named) != maxQueued || v.leftOut != kept {
		t.Errorf("%d names wait, %d are left out", len(v.named), v.leftOut)
	}
	v.leftOut = 0
	labels := make([]tick.Label, times)
	for i := range labels {
		labels[i] = tick.Label{Time: int64(i + 1), PID: 7, Key: "step", Value: strconv.Itoa(i)}
	}
	v.addLabels(labels, nil)
	v.addLabels(nil, []tick.ProcEvent{{Time: times + 1, Kind: tick.ProcExited, PID: 7}})
	open := map[string]bool{}
	for i := range v.spans {
		s := &v.spans[i]
		open[s.Value] = s.To == 0
	}
	if begun := uint64(len(open)); len(v.spans) > maxQueued+1 || begun+v.leftOut != times || len(v.dropped) != 0 {
		t.Errorf("%d spans of %d labels wait, %d are left out", len(v.spans), begun, v.leftOut)
	}
	for value, last := range open {
		if last {
			t.Errorf("label %s lasts", value)
		}
	}
}
