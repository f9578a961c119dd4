package store

import (
	"database/sql"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// contested returns a database, a connection that can lock it, and a function that makes the tick
// one second later.
func contested(t *testing.T) (db *DB, path string, other *sql.DB, next func(seq uint64, change func(*tick.Tick))) {
	path = filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	other, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	k := storetest.NewKernel()
	return db, path, other, func(seq uint64, change func(*tick.Tick)) {
		t.Helper()
		c.advance(time.Second)
		x := k.Tick(seq, c.now, false)
		change(x)
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
}

// A chain from a tick during another program's transaction is written later, even if no later tick
// has it.
func TestChainsWaitForTheDatabase(t *testing.T) {
	db, path, other, next := contested(t)
	step := func(seq uint64, chains ...tick.Chain) {
		t.Helper()
		next(seq, func(x *tick.Tick) { x.Chains = chains })
	}
	first := tick.Chain{ID: "a", Rule: "cpu-taken", Severity: tick.Low, PID: 7, Lost: 1e6,
		Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf("stress")}, What: "an \"odd\" \xff name"}}}
	step(1, first)
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	second := tick.Chain{ID: "b", Severity: tick.High, PID: 8, Confidence: math.NaN()}
	first.Severity, first.Lost, first.NotIt = tick.Medium, 2e6, []string{"no disk"}
	step(2, first, second)
	if got := testkit.Rows(t, path, "SELECT id, severity FROM chains"); got != "a LOW" {
		t.Errorf("while another has the database: %s", got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	step(3)
	const want = "a cpu-taken MEDIUM 7 2000000 <nil> 0 [\"no disk\"]\nb  HIGH 8 0 <nil> <nil> []"
	if got := testkit.Rows(t, path, "SELECT id, rule, severity, pid, lost_ns, step_p99_ns, confidence, not_it FROM chains ORDER BY id"); got != want {
		t.Errorf("chains:\n%s\nwant\n%s", got, want)
	}
	if got := testkit.Rows(t, path, "SELECT culprits ->> '$[0].comm', culprits ->> '$[0].what' FROM chains WHERE id = 'a'"); got != "stress an \"odd\" \ufffd name" {
		t.Errorf("culprit: %s", got)
	}
	if n := len(db.saver.chains) + len(db.saver.waiting); n > 2 {
		t.Errorf("%d chains are kept in memory", n)
	}
	step(4)
	if n := len(db.saver.chains) + len(db.saver.waiting); n != 0 {
		t.Errorf("%d chains that are over are kept in memory", n)
	}
}

// A chain that leaves the ticks before it is over is deleted; a chain that is over stays.
func TestRevisedChains(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	k := storetest.NewKernel()
	step := func(seq uint64, after time.Duration, chains ...tick.Chain) {
		t.Helper()
		c.advance(after)
		x := k.Tick(seq, c.now, false)
		x.Chains = chains
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	kept, revised := tick.Chain{ID: "kept", To: c.now}, tick.Chain{ID: "revised", To: c.now}
	step(1, time.Second, kept, revised)
	step(2, time.Second, kept)
	if got := testkit.Rows(t, path, "SELECT id FROM chains"); got != "kept" {
		t.Errorf("after one was revised: %s", got)
	}
	step(3, tick.ChainStays)
	step(4, time.Second)
	if got := testkit.Rows(t, path, "SELECT id FROM chains"); got != "kept" {
		t.Errorf("after the other had its time: %s", got)
	}
	step(5, time.Second, tick.Chain{ID: "revised", To: c.now})
	if got := testkit.Rows(t, path, "SELECT id FROM chains ORDER BY id"); got != "kept\nrevised" {
		t.Errorf("after it came back: %s", got)
	}
}

// Waits are written as soon as calls are.
func TestWaitsAreWrittenInTime(t *testing.T) {
	db, c := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	g := storetest.NewWaitGenerator(1)
	if err := db.Batch(&tick.Batch{Waits: g.Waits(nil, 10, c.now, time.Second)}); err != nil {
		t.Fatal(err)
	}
	c.advance(250 * time.Millisecond)
	if a, _ := readLog(t, db); len(a.waits) < 10 {
		t.Errorf("%d waits in the file", len(a.waits))
	}
}

// A chain's sharers are read as they were written; older rows have none.
func TestSharersInTheDatabase(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	want := []tick.Culprit{{What: "GPU 0", GPU: "0", Sharers: []tick.Sharer{{PID: 5210, Comm: "python3", Cmdline: "python3 train.py", Where: "pod b", Started: at}, {PID: 77}}}, {What: "disk 8:0"}}
	row, err := toChainRow(&tick.Chain{Culprits: want})
	if err != nil {
		t.Fatal(err)
	}
	var got tick.Chain
	if err := UnmarshalChain(&got, []byte(row.culprits), []byte(row.timeline), []byte(row.notIt)); err != nil || !reflect.DeepEqual(got.Culprits, want) {
		t.Errorf("%+v, %v, want %+v", got.Culprits, err, want)
	}
	if strings.Count(row.culprits, "sharers") != 1 {
		t.Errorf("a culprit that is no GPU has sharers: %s", row.culprits)
	}
}
