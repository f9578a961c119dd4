package query

import (
	"database/sql"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// thinly records seconds of a process whose records are thinned by weight and partly lost. It
// returns how many launches it had made at each tick.
func thinly(t *testing.T, path string, seconds int) (ticks []time.Time, made []uint64) {
	t.Helper()
	x := record(t, path, segment.Session{ID: "s", Node: "gpu-7", Started: began.Add(347 * time.Millisecond)})
	ticks, made = []time.Time{x.now}, []uint64{0}
	o := x.ops.Op(4821, opLaunch)
	for range seconds {
		n := 900 + x.r.IntN(200)
		step := time.Second + time.Duration(x.r.IntN(20)-10)*time.Millisecond
		var calls []events.Call
		for i := range n {
			c := events.Call{Start: x.now.UnixNano() + int64(i)*int64(step)/int64(n), PID: 4821, TID: 4821, Weight: 8, Op: opLaunch, Duration: 5000, OnCPU: 5000}
			o.Sum.Calls, o.Sum.Done, o.Sum.Total, o.Sum.OnCPU = o.Sum.Calls+1, o.Sum.Done+1, o.Sum.Total+5000, o.Sum.OnCPU+5000
			if x.r.IntN(8) == 0 && x.r.IntN(10) > 0 { // one in 8 has a record, and one in 10 of these is lost
				calls = append(calls, c)
			}
		}
		o.Sum.Calls++ // never returns
		o.Sum.Abandoned++
		o.Thinned = true
		x.left += 10
		x.calls = append(x.calls, calls...)
		x.now = x.now.Add(step)
		ticks, made = append(ticks, x.now), append(made, o.Sum.Calls)
		for _, c := range calls {
			o.Dur.Add(c.Duration, c.Weight)
		}
		if err := x.db.Batch(&tick.Batch{Calls: calls}); err != nil {
			t.Fatal(err)
		}
		if err := x.db.Tick(x.tick(false)); err != nil {
			t.Fatal(err)
		}
	}
	x.close()
	return ticks, made
}

// All answers about numbers of calls agree on a recording with thinned and lost records: they are
// the kernel's counts from tick to tick, of any period.
func TestCountsAreTheKernels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	ticks, made := thinly(t, path, 200)
	r := openReader(t, path)
	random := rand.New(rand.NewPCG(5, 6))
	end := ticks[len(ticks)-1]
	windows := []Filter{{}, {From: ticks[3], To: ticks[190]}, {From: ticks[7].Add(400 * time.Millisecond), To: ticks[7].Add(500 * time.Millisecond)}}
	for range 30 {
		a := ticks[0].Add(time.Duration(random.Int64N(int64(end.Sub(ticks[0])))))
		windows = append(windows, Filter{From: a, To: a.Add(time.Duration(random.Int64N(int64(end.Sub(a)))))})
	}
	for _, f := range windows {
		s, err := r.Summary(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Rebuilt {
			s.CountedFrom, s.CountedTo = s.From, s.To
		}
		s.From, s.To = s.CountedFrom, s.CountedTo
		a, b := slices.IndexFunc(ticks, s.From.Equal), slices.IndexFunc(ticks, s.To.Equal)
		if a < 0 || b <= a || !f.From.IsZero() && (s.From.Sub(f.From).Abs() > time.Second || s.To.Sub(f.To).Abs() > time.Second) {
			t.Fatalf("%v to %v became %v to %v, which are no ticks near", f.From, f.To, s.From, s.To)
		}
		want := made[b] - made[a]
		stats, cover, err := r.OpStats(t.Context(), f, Group{PID: true})
		if err != nil || len(stats) != 1 || stats[0].Sum != s.Ops[0].Sum || cover.Estimate || cover.Records || !cover.Thinned {
			t.Fatalf("%+v, %+v (%v), want %+v", stats, cover, err, s.Ops)
		}
		rolled, err := r.Rolled(t.Context(), f)
		if err != nil || rolled.Ops[0].Sum != s.Ops[0].Sum || s.Rebuilt && !(rolled.CountedFrom.Equal(s.From) && rolled.CountedTo.Equal(s.To)) {
			t.Fatalf("rolled %+v (%v), want %+v", rolled.Ops, err, s.Ops)
		}
		n, known, err := r.Called(t.Context(), f)
		if err != nil || !known {
			t.Fatal(err)
		}
		args := "(NULL, NULL)"
		if !f.From.IsZero() {
			args = "('" + f.From.UTC().Format(time.RFC3339Nano) + "', '" + f.To.UTC().Format(time.RFC3339Nano) + "')"
		}
		row := first(t, r, "SELECT count, errors, total_ns FROM op_stats"+args)
		if got := s.Ops[0].Sum; got.Calls != want || got.Abandoned != uint64(b-a) || n != want || row[0] != int64(want) || row[2] != int64(got.Total) {
			t.Errorf("%v to %v: %d calls, %d abandoned, called %d, SQL %v; want %d and %d", s.From, s.To, got.Calls, got.Abandoned, n, row, want, b-a)
		}
		q := first(t, r, "SELECT sum(count) FROM quantile('cudaLaunchKernel', 0.5"+map[bool]string{true: ")", false: ", " + args[1:]}[f.From.IsZero()])
		if q[0] != int64(want) {
			t.Errorf("quantile counts %v, want %d", q[0], want)
		}
	}
	for _, step := range []string{"1s", "10s", "1m"} {
		if n := first(t, r, "SELECT sum(count) FROM timeline('"+step+"')")[0]; n != int64(made[len(made)-1]) {
			t.Errorf("timeline of %s: %v calls, want %d", step, n, made[len(made)-1])
		}
	}
}

// While the rows of single ticks are deleted, oldest first, a timeline still has the calls of each
// period: the kernel's where all of its rows are left, else those of the records.
func TestCountsOfDeletedTicks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	ticks, _ := thinly(t, path, 60)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := openReader(t, path)
	const periods = "SELECT timestamp, count FROM timeline('10s') ORDER BY timestamp"
	exact := ask(t, r, periods).Rows
	records := ask(t, r, "SELECT timestamp / 10000000000 AS at, sum(weight) FROM events GROUP BY at ORDER BY at").Rows
	for _, tt := range []struct {
		name string
		cut  time.Time
		from int // period from which the kernel's counts remain
	}{{"none", ticks[0], 0}, {"from the middle of a period on", ticks[33], 4}, {"all", ticks[60], len(exact)}} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := db.Exec("DELETE FROM counted WHERE seconds = 1 AND end_ns <= ?", tt.cut.UnixNano()); err != nil {
				t.Fatal(err)
			}
			for i, row := range ask(t, r, periods).Rows {
				want := records[i][1]
				if i >= tt.from {
					want = exact[i][1]
				}
				if row[1] != want {
					t.Errorf("period %d: %v calls, want %v", i, row[1], want)
				}
			}
		})
	}
}

// The period of several recordings' counts spans them all.
func TestPeriodOfSeveralRecordings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	for i, id := range []string{"a", "b"} {
		x := record(t, path, segment.Session{ID: id, Started: began.Add(time.Duration(i) * time.Minute)})
		for range 10 {
			x.second()
		}
		x.close()
	}
	r := openReader(t, path)
	for name, tt := range map[string]struct{ from, to, wantFrom, wantTo time.Duration }{
		"cuts the first": {4 * time.Second, 2 * time.Minute, 4 * time.Second, 70 * time.Second},
		"cuts the last":  {-time.Second, 65 * time.Second, 0, 65 * time.Second},
		"cuts none":      {-time.Second, 2 * time.Minute, 0, 70 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			_, c, err := r.OpStats(t.Context(), Filter{Session: AllSessions, From: began.Add(tt.from), To: began.Add(tt.to)}, Group{})
			if err != nil || !c.From.Equal(began.Add(tt.wantFrom)) || !c.To.Equal(began.Add(tt.wantTo)) {
				t.Errorf("from %v to %v (%v), want %v to %v", c.From.Sub(began), c.To.Sub(began), err, tt.wantFrom, tt.wantTo)
			}
		})
	}
}

// A count of rows is marked as an estimate, with its error bound.
func TestCountsOfRowsAreEstimates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	thinly(t, path, 20)
	res := ask(t, openReader(t, path), "SELECT sum(weight), sqrt(sum(weight * (weight - 1))) FROM events WHERE duration_ns > 1000")
	c := res.Coverage
	if !c.Estimate || !c.Records || c.Calls != float64(res.Rows[0][0].(int64)) || c.Variance != c.Calls*7 {
		t.Errorf("%+v of %v", c, res.Rows)
	}
	if sd := res.Rows[0][1].(float64); sd*sd < c.Variance*0.999 || sd*sd > c.Variance*1.001 {
		t.Errorf("a standard error of %v, want the root of %v", sd, c.Variance)
	}
}

// An answer names its operations with calls that were temporarily not counted.
func TestCountsThatAreLowerBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s", Node: "gpu-7", Started: began})
	x.ops.Op(4821, opLaunch).Sum.Calls = 100
	x.ops.Op(4821, opSync).Sum.Calls = 10
	x.now = x.now.Add(time.Second)
	last := x.tick(false)
	last.Reports = append(last.Reports, tick.Report{Kind: tick.LowerBound, Object: "cudaLaunchKernel", Why: "y"}, tick.Report{Kind: tick.LowerBound, Object: "cudaMemcpyAsync", Why: "y"})
	if err := x.db.Tick(last); err != nil {
		t.Fatal(err)
	}
	x.close()
	r := openReader(t, path)
	for _, tt := range []struct {
		ops  []events.Op
		want []string
	}{{nil, []string{"cudaLaunchKernel"}}, {[]events.Op{opSync}, nil}} {
		_, cover, err := r.OpStats(t.Context(), Filter{Ops: tt.ops}, Group{})
		if err != nil || !slices.Equal(cover.Least, tt.want) {
			t.Errorf("of %v: %v, %v; want %v", tt.ops, cover.Least, err, tt.want)
		}
	}
	if got := ask(t, r, "SELECT op, count FROM op_stats").Coverage.Least; !slices.Equal(got, []string{"cudaLaunchKernel"}) {
		t.Errorf("of SQL: %v", got)
	}
}
