package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// Faults, episodes and causes that come while the disk is full are written when it has room again.
func TestFactsWhileDiskIsFull(t *testing.T) {
	dir := smallDisk(t, 16<<20)
	path, filler := filepath.Join(dir, "x.db"), filepath.Join(dir, "filler")
	db, c := open(t, path, Options{Session: segment.Session{ID: "s"}})
	s := newSeconds(db, c)
	if err := errors.Join(s.record(2, 500), fillDisk(filler)); err != nil {
		t.Fatal(err)
	}
	for i := 0; db.Problem() == nil; i++ {
		if err := s.record(1, 500); err != nil || i == 1000 {
			t.Fatal(i, err)
		}
	}
	step := func(facts func(*tick.Tick)) {
		t.Helper()
		c.advance(time.Second)
		s.seq++
		x := s.k.Tick(s.seq, c.now, false)
		facts(x)
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	chain := tick.Chain{ID: "c", Rule: "cpu-taken", PID: 7, From: c.now.Add(-2 * tick.ChainStays), To: c.now.Add(-tick.ChainStays), Lost: time.Second}
	begin := tick.Episode{Kind: tick.EpisodeBegin, ID: "c.1", From: c.now, To: c.now, Chain: chain}
	end := begin
	end.Kind, end.Why = tick.EpisodeEnd, tick.ReasonOver
	step(func(x *tick.Tick) {
		x.Chains, x.Episodes, x.Xids = []tick.Chain{chain}, []tick.Episode{begin}, []tick.Xid{{Burst: 1000, At: 1, Code: 79, Bus: "0000:75:00"}}
	})
	step(func(x *tick.Tick) { x.Chains, x.Episodes = []tick.Chain{chain}, []tick.Episode{end} })
	if db.Problem() == nil {
		t.Fatal("the disk is not full any more")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	step(func(*tick.Tick) {})
	var wait int // for another process's transaction, in ms
	if err := db.held.SQL.QueryRow("PRAGMA busy_timeout").Scan(&wait); err != nil || wait != 100 {
		t.Errorf("ticks wait %d ms, want 100 (%v)", wait, err)
	}
	for query, want := range map[string]string{
		"SELECT burst FROM xids WHERE code = 79": "1000", "SELECT id, why FROM episodes": "c.1 over", "SELECT id FROM chains": "c", "SELECT count(*) > 0 FROM losses": "1",
	} {
		if got := testkit.Rows(t, path, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// Queues of facts are bounded, and what they have no room for is counted.
func TestQueuedFactsAreBounded(t *testing.T) {
	v := &saver{gpus: segment.GPUChanges{}}
	v.noteGPU(&tick.Tick{Xids: make([]tick.Xid, maxFacts+2)})
	if err := v.noteEpisodes(&tick.Tick{Time: storetest.Began, Episodes: make([]tick.Episode, maxFacts+1)}); err != nil {
		t.Fatal(err)
	}
	if len(v.xids) != maxFacts || len(v.episodes) != maxFacts || v.leftOut != 3 {
		t.Errorf("%d faults, %d events, %d left out", len(v.xids), len(v.episodes), v.leftOut)
	}
}

// A write that fails for an unknown reason pauses the recording if there is no room, as with a full
// quota, and ends it otherwise.
func TestFullQuota(t *testing.T) {
	for name, full := range map[string]bool{"full": true, "free": false} {
		dir := smallDisk(t, 16<<20)
		db, c := open(t, filepath.Join(dir, "x.db"), Options{})
		filler := filepath.Join(dir, "filler")
		if full {
			if err := fillDisk(filler); err != nil {
				t.Fatal(err)
			}
		}
		err := db.fail(db.Path(), errors.New("disk I/O error"))
		if paused := err == nil && errors.Is(db.Problem(), unix.ENOSPC); paused != full {
			t.Errorf("%s: error %v, problem %v", name, err, db.Problem())
		}
		if !full {
			continue
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		s := newSeconds(db, c)
		if err := s.record(1, 10); err != nil || db.Problem() != nil {
			t.Errorf("%s: afterwards %v, problem %v", name, err, db.Problem())
		}
	}
}
