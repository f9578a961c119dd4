package query

import (
	"database/sql"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// Rollups of any window equal its calls' sums; their number is known before they are read; and
// whole seconds can be answered after the calls are deleted.
func TestRolledIsWhatTheCallsSay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s", Node: "gpu-7"})
	for range 90 {
		x.second()
	}
	x.close()
	r := openReader(t, path)
	ctx := t.Context()
	check := func(name string, f Filter, want *Summary) {
		t.Helper()
		got, err := r.Rolled(ctx, f)
		if err != nil {
			t.Fatal(name, err)
		}
		if len(got.Ops) != len(want.Ops) || len(got.Processes) != len(want.Processes) || !got.From.Equal(want.From) || !got.To.Equal(want.To) {
			t.Fatalf("%s: %d operations of %d processes from %v to %v, want %d of %d from %v to %v", name,
				len(got.Ops), len(got.Processes), got.From, got.To, len(want.Ops), len(want.Processes), want.From, want.To)
		}
		for i := range got.Ops {
			g, w := &got.Ops[i], &want.Ops[i]
			w.Sum.Inner, g.Sum.Inner, w.Sum.Abandoned = 0, 0, 0
			if g.PID != w.PID || g.Op != w.Op || g.Sum != w.Sum || g.Dur.Quantile(0.99) != w.Dur.Quantile(0.99) {
				t.Errorf("%s: %v: %+v, want %+v", name, g.Op, g.Sum, w.Sum)
			}
		}
	}
	windows := map[string]Filter{
		"all":           {},
		"whole seconds": {From: began.Add(7 * time.Second), To: began.Add(61 * time.Second)},
		"any":           {From: began.Add(7_123_456_789), To: began.Add(61_987_654_321)},
		"a process":     {From: began.Add(3 * time.Second), PIDs: []uint32{4830}},
	}
	said := map[string]*Summary{}
	for name, f := range windows {
		want, err := r.Summary(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		check(name, f, want)
		said[name] = want
		if name == "a process" { // the number covers all processes
			continue
		}
		n, ok, err := r.Called(ctx, f)
		if all := calls(want); err != nil || !ok || math.Abs(float64(n)-float64(all)) > float64(all)/20 {
			t.Errorf("%s: about %d calls (%v, %v), want %d", name, n, ok, err, all)
		}
	}
	logs, err := filepath.Glob(filepath.Join(store.LogDir(path), "*.iseg"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, l := range logs {
		if err := os.Remove(l); err != nil {
			t.Fatal(err)
		}
	}
	check("without the calls", windows["whole seconds"], said["whole seconds"])
}

func calls(s *Summary) (n uint64) {
	for i := range s.Ops {
		n += s.Ops[i].Sum.Calls
	}
	return n
}

// accountMinutes is the length of accountsDB in minutes.
const accountMinutes = 300

// accountsDB is a database with a process's accounts, and no calls.
func accountsDB(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	for i := range 6 * accountMinutes {
		x.now = began.Add(time.Duration(i+1) * 10 * time.Second)
		b := tick.Breakdown{PID: 7, Threads: 1, Elapsed: uint64(i+1) * 10e9, GPUWait: uint64(i+1) * 9e9, Blocked: uint64(i+1) * 1e9, GapCPU: uint64(i+1) * 1e6,
			Code:     []tick.CodeTime{{At: "a.py:1", NS: uint64(i+1) * 1e6}},
			ByThread: []tick.ThreadTime{{TID: 7, In: [tick.Places]tick.Spent{{Times: tick.Times{Blocked: uint64(i+1) * 9e9}}, {}, {Times: tick.Times{Blocked: uint64(i+1) * 1e9}}}}}}
		if err := x.db.Tick(&tick.Tick{Time: x.now, Started: began, Seq: uint64(i + 1), Breakdowns: []tick.Breakdown{b}}); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// A window's accounts are those of its rows, even for a day, and even when only coarse ones are
// left.
func TestAccountsOfAWindow(t *testing.T) {
	const minutes = accountMinutes
	r := openReader(t, accountsDB(t))
	for name, tt := range map[string]struct {
		from, to time.Duration
		want     time.Duration // total covered time
	}{
		"a minute":       {time.Minute, 2 * time.Minute, time.Minute},
		"cuts rows":      {time.Minute + 4*time.Second, 2*time.Minute + 6*time.Second, 70 * time.Second},
		"an hour":        {time.Hour, 2 * time.Hour, time.Hour},
		"four hours":     {7 * time.Minute, 247 * time.Minute, 4 * time.Hour},
		"all":            {0, 0, minutes * time.Minute},
		"before and now": {-time.Hour, 10 * time.Minute, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			f := Filter{From: began.Add(tt.from)}
			if tt.to > 0 {
				f.To = began.Add(tt.to)
			}
			got, err := r.Accounts(t.Context(), f)
			if err != nil || len(got) != 1 {
				t.Fatalf("%+v (%v), want one account", got, err)
			}
			a := &got[0]
			if a.Elapsed != uint64(tt.want) || time.Duration(a.To-a.From) != tt.want || a.GPUWait+a.Blocked != a.Elapsed || a.ByThread[0].Elapsed() != a.Elapsed || a.Code[0] != (tick.CodeTime{At: "a.py:1", NS: a.Blocked / 1000}) {
				t.Errorf("an account of %v, want %v: %+v", time.Duration(a.Elapsed), tt.want, a)
			}
		})
	}
	if got, err := r.Accounts(t.Context(), Filter{PIDs: []uint32{8}}); err != nil || len(got) != 0 {
		t.Errorf("of another process: %+v (%v)", got, err)
	}
}

// A window whose older part has only coarse accounts has these for it, and no time twice.
func TestAccountsPartlyDeleted(t *testing.T) {
	path := accountsDB(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("DELETE FROM accounts WHERE seconds = 10 AND end_ns <= ?", began.Add(90*time.Minute).UnixNano())
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	r := openReader(t, path)
	f := Filter{From: began.Add(time.Hour), To: began.Add(2 * time.Hour)}
	got, err := r.Accounts(t.Context(), f)
	if err != nil || len(got) != 1 || got[0].Covered != time.Hour || got[0].Elapsed != uint64(time.Hour) || got[0].From != f.From.UnixNano() || got[0].To != f.To.UnixNano() {
		t.Errorf("%+v (%v), want one account of an hour", got, err)
	}
	pieces, length, err := r.Pieces(t.Context(), f, time.Minute)
	var sum time.Duration
	for i := range pieces {
		sum += time.Duration(pieces[i].To - pieces[i].From)
	}
	if err != nil || length != longAccount || sum != time.Hour || pieces[0].From != f.From.UnixNano() {
		t.Errorf("%d pieces of %v, resolution %v: %v", len(pieces), sum, length, err)
	}
}

// Accounts are copies: changing one affects no other answer.
func TestAccountsAreTheCallers(t *testing.T) {
	r := openReader(t, accountsDB(t))
	f := Filter{From: began, To: began.Add(10 * time.Second)}
	spoil := func(a []Account) {
		for i := range a {
			x := &a[i].ByThread[0].In[tick.InGPUWaits]
			x.Blocked, a[i].ByThread[0].TID, a[i].RunnableBy = 1, 1, append(a[i].RunnableBy, tick.Share{NS: 1})
		}
	}
	var before []Account
	for n := range 3 {
		got, err := r.Accounts(t.Context(), f)
		if err != nil || len(got) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		if n == 0 {
			before, err = openReader(t, r.Path()).Accounts(t.Context(), f)
		}
		if d := cmp.Diff(before, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("answer %d (-want +got): %s, %v", n, d, err)
		}
		spoil(got)
	}
}
