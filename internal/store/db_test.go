package store

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// clock is a manual clock with timers.
type clock struct {
	now    time.Time
	timers []*timer
}

type timer struct {
	at time.Time
	f  func()
}

func (c *clock) Now() time.Time { return c.now }

func (c *clock) AfterFunc(d time.Duration, f func()) func() bool {
	t := &timer{c.now.Add(d), f}
	c.timers = append(c.timers, t)
	return func() bool { t.f = nil; return true }
}

func (c *clock) advance(d time.Duration) {
	c.now = c.now.Add(d)
	for _, t := range c.timers {
		if f := t.f; f != nil && !t.at.After(c.now) {
			t.f = nil
			f()
		}
	}
}

func open(t *testing.T, path string, o Options) (*DB, *clock) {
	t.Helper()
	c := &clock{now: storetest.Began}
	o.Path, o.Now, o.AfterFunc = path, c.Now, c.AfterFunc
	if o.Session.Node == "" {
		o.Session.Node, o.Session.Target = "gpu-7", "pid 4821"
	}
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, c
}

// logged is the content of a log.
type logged struct {
	calls []events.Call
	waits []events.Wait
	end   *segment.End
}

func readLogged(l *segment.Log) (a logged, torn int64, err error) {
	var e segment.Entry
	for {
		err := l.Next(&e)
		if errors.Is(err, io.EOF) {
			return a, l.Torn(), nil
		}
		if err != nil {
			return a, l.Torn(), err
		}
		a.calls, a.waits = append(a.calls, e.Calls...), append(a.waits, e.Waits...)
		if e.End != nil {
			a.end = e.End
		}
	}
}

// readLog reads a session's log.
func readLog(t *testing.T, db *DB) (logged, int64) {
	t.Helper()
	l := openSession(t, db)
	a, torn, err := readLogged(l)
	if err != nil {
		t.Fatal(err)
	}
	return a, torn
}

// openSession opens a session's log until the test ends.
func openSession(t *testing.T, db *DB) *segment.Log {
	t.Helper()
	l, err := segment.OpenSession(log.Dir(LogDir(db.Path())), db.Session().ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestDatabaseHoldsWhatTheSessionSaw(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "ingero.db")
	db, c := open(t, path, Options{})
	g, k := storetest.NewGenerator(6), storetest.NewKernel()
	var calls []events.Call
	var last *tick.Tick
	for i := range 3 {
		got := g.Calls(nil, 5000)
		calls = append(calls, got...)
		k.See(got)
		c.advance(time.Second)
		last = k.Tick(uint64(i+1), c.now, i == 2)
		if err := errors.Join(db.Batch(&tick.Batch{Calls: got}), db.Tick(last)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range last.Ops {
		o := &last.Ops[i]
		got := testkit.Rows(t, path, "SELECT calls, done, errors, nested, total_ns, oncpu_ns, runnable_ns, blocked_ns, max_ns FROM ops WHERE pid = ? AND name = ?", o.PID, o.Op.String())
		s := &o.Sum
		longest := any(o.Dur.Max())
		if o.Dur.Count() == 0 {
			longest = nil
		}
		if want := strings.TrimSpace(fmt.Sprintln(s.Calls, s.Done, s.Errors, s.Nested, s.Total, s.OnCPU, s.Runnable, s.Blocked(), longest)); got != want {
			t.Errorf("%d %s: %s, want %s", o.PID, o.Op, got, want)
		}
	}
	for query, want := range map[string]string{
		"SELECT count(*) FROM ops":                                                            fmt.Sprint(len(last.Ops)),
		"SELECT state, ended_ns, target, records FROM sessions":                               "running <nil> pid 4821 300",
		"SELECT reason, count FROM drops ORDER BY 1":                                          "ring-full 3\nthinned 0",
		"SELECT path, probes FROM libraries":                                                  "/usr/lib/libcudart.so.12 32",
		"SELECT kind, object FROM reports":                                                    "missing-symbol cuLaunchGrid",
		"SELECT pid, comm, ended_ns - started_ns FROM processes":                              "4821 python3 63000000000\n4822 python3 63000000000",
		"SELECT application_id, user_version FROM pragma_application_id, pragma_user_version": fmt.Sprint(applicationID, " ", Schema()),
	} {
		if got := testkit.Rows(t, path, query); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", query, got, want)
		}
	}
	checkGaps(t, path, calls)
	checkBlobs(t, path, last)
	if err := errors.Join(db.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Rows(t, path, "SELECT state, ended_ns FROM sessions"); got != fmt.Sprint("ended ", c.now.UnixNano()) {
		t.Errorf("after Close: %s", got)
	}
	got, torn := readLog(t, db)
	storetest.SameCalls(t, calls, got.calls)
	if torn != 0 || got.end == nil {
		t.Errorf("log: %d calls of %d, %d torn, end %v", len(got.calls), len(calls), torn, got.end)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 2 { // the file and the directory: no -wal, no -shm
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func checkGaps(t *testing.T, path string, calls []events.Call) {
	t.Helper()
	want := map[uint32]*tick.Gap{}
	for i := range calls {
		c := &calls[i]
		if want[c.PID] == nil {
			want[c.PID] = &tick.Gap{}
		}
		want[c.PID].Add(c)
	}
	for pid, g := range want {
		got := testkit.Rows(t, path, "SELECT calls, count, total_ns, oncpu_ns, runnable_ns, blocked_ns, partial_ns FROM gaps WHERE pid = ?", pid)
		if w := fmt.Sprint(g.Calls, g.Count, g.Total, g.OnCPU, g.Runnable, g.Blocked, g.Partial); got != w || g.Count == 0 {
			t.Errorf("gaps of %d: %s, want %s", pid, got, w)
		}
	}
}

func checkBlobs(t *testing.T, path string, last *tick.Tick) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for i := range last.Ops {
		o := &last.Ops[i]
		var sketch, hist []byte
		if err := db.QueryRow("SELECT sketch, hist FROM ops WHERE pid = ? AND op = ?", o.PID, uint16(o.Op)).Scan(&sketch, &hist); err != nil {
			t.Fatal(err)
		}
		var s stats.Sketch
		if err := s.UnmarshalBinary(sketch); err != nil || s.Sum() != o.Dur.Sum() || s.Quantile(0.5) != o.Dur.Quantile(0.5) {
			t.Errorf("%s: the sketch differs (%v)", o.Op, err)
		}
		if h, err := segment.UnmarshalHist(hist); err != nil || *h != *o.Hist {
			t.Errorf("%s: the histogram differs (%v)", o.Op, err)
		}
	}
}

func TestReplayOfDatabaseLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	k, g := storetest.NewKernel(), storetest.NewGenerator(9)
	var last *tick.Tick
	for i := range uint64(3) {
		calls := g.Calls(nil, 1000)
		k.See(calls)
		c.advance(time.Second)
		last = k.Tick(i+1, c.now, i == 2)
		if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(last)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r := segment.NewReplay(openSession(t, db), segment.ReplayOptions{})
	var b tick.Batch
	var err error
	for err == nil {
		r.Due(new(tick.Tick))
		_, err = r.Poll(&b)
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var got tick.Tick
	if err := r.Totals(&got); err != nil {
		t.Fatal(err)
	}
	storetest.SameTotals(t, last, &got)
}
