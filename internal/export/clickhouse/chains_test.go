package clickhouse_test

import (
	"testing"
	"time"

	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// chains returns the rows that a ReplacingMergeTree keeps of the chains: those with the highest
// version, by id. The caller must hold mu.
func (k *keeper) chains() map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, row := range k.rows["chains"] {
		id := row["id"].(string)
		if was := out[id]; was == nil || was["version"].(uint64) <= row["version"].(uint64) {
			out[id] = row
		}
	}
	return out
}

// severities returns the severities of c-1 and c-2.
func (k *keeper) severities() [2]any {
	return [2]any{k.severity("c-1"), k.severity("c-2")}
}

func (k *keeper) severity(id string) any {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.chains()[id]["severity"]
}

// causes are the chains of a tick: c-1, and c-2 of process 8 if both.
func causes(both bool) func(*tick.Batch, *tick.Tick) {
	return func(_ *tick.Batch, x *tick.Tick) {
		x.Chains = []tick.Chain{{ID: "c-1", Rule: "cpu-taken", Severity: tick.High, PID: 7, From: began, To: began.Add(time.Second), Lost: 5}}
		if both {
			x.Chains = append(x.Chains, tick.Chain{ID: "c-2", Rule: "disk-wait", Severity: tick.Low, PID: 8, TID: 9, From: began, To: began.Add(time.Second), Lost: 6, Confidence: 0.5})
		}
	}
}

// While a trace runs, a cause that more data showed to be none is withdrawn in the cluster, in the
// partition of its row, and a cause that comes back is there again.
func TestFollowWithdrawn(t *testing.T) {
	testkit.LeakCheck(t)
	k, address := newKeeper(t)
	cl, err := clickhouse.Open(address, hurried)
	if err != nil {
		t.Fatal(err)
	}
	w := newRecorder(t, "live")
	x := clickhouse.Follow(cl, clickhouse.FollowOptions{Path: w.path, Every: time.Millisecond, Grace: time.Minute,
		Mine: func(s *query.Session) bool { return s.ID == "live" }})
	for _, c := range []struct {
		both bool
		want [2]any
	}{{true, [2]any{"HIGH", "LOW"}}, {false, [2]any{"HIGH", "WITHDRAWN"}}, {true, [2]any{"HIGH", "LOW"}}, {false, [2]any{"HIGH", "WITHDRAWN"}}} {
		w.facts = causes(c.both)
		w.record(10)
		w.tick(false)
		testkit.Eventually(t, "the state of the causes", func() bool { return k.severities() == c.want })
	}
	_ = w.whole()
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	row := k.chains()["c-2"]
	for name, want := range map[string]any{"lost_ns": uint64(0), "from_ns": uint64(began.UnixNano()), "rule": "disk-wait", "pid": uint64(8), "tid": uint64(9), "session": "live", "node": "gpu-7"} {
		if row[name] != want {
			t.Errorf("%s of the withdrawn cause is %v, want %v", name, row[name], want)
		}
	}
	k.check("chains", 5) // one of c-1, four of c-2
}

// A copy withdraws the causes that the recording no longer has, once, and not those that a filter
// leaves out. A recording without causes withdraws none: a repair can lose them.
func TestCopyWithdrawn(t *testing.T) {
	k, address := newKeeper(t)
	cl := open(t, address)
	for _, c := range []struct {
		name string
		tick func(*tick.Batch, *tick.Tick)
		pids []uint32
		sent uint64
		want any
	}{
		{"both", causes(true), nil, 2, "LOW"},
		{"filter", causes(true), []uint32{7}, 0, "LOW"},
		{"none", func(_ *tick.Batch, x *tick.Tick) { x.Chains = nil }, nil, 0, "LOW"},
		{"one", causes(false), nil, 1, "WITHDRAWN"},
		{"again", causes(false), nil, 0, "WITHDRAWN"},
		{"back", causes(true), nil, 1, "LOW"},
	} {
		w := newRecorder(t, "s")
		w.facts = c.tick
		w.record(10)
		res, err := clickhouse.Copy(t.Context(), cl, w.whole(), query.Filter{Session: "s", PIDs: c.pids}, nil)
		if got := k.severities(); err != nil || res.Chains != c.sent || got != [2]any{"HIGH", c.want} {
			t.Errorf("%s: %d causes sent, they are %v, %v", c.name, res.Chains, got, err)
		}
	}
}

// A copy of a time range sends the last state of the causes that the range has, and keeps that of
// causes that the cluster has.
func TestCopyRangeOfCauses(t *testing.T) {
	w := newRecorder(t, "s")
	w.record(10)
	w.now = began.Add(20 * time.Second)
	w.facts = func(_ *tick.Batch, x *tick.Tick) {
		c := tick.Chain{ID: "c-1", Rule: "cpu-taken", Severity: tick.High, PID: 7, From: began, To: w.now, Lost: 5}
		x.Chains = []tick.Chain{c}
		for _, kind := range []tick.EpisodeKind{tick.EpisodeBegin, tick.EpisodeEnd} {
			x.Episodes = append(x.Episodes, tick.Episode{Kind: kind, ID: "c-1.0", Why: tick.ReasonOver, Severity: c.Severity, From: c.From, To: c.To, Lost: c.Lost, Chain: c})
		}
	}
	w.tick(false)
	w.now = began.Add(11 * time.Minute)
	w.facts = func(_ *tick.Batch, x *tick.Tick) {
		x.Chains = []tick.Chain{
			{ID: "c-1", Rule: "cpu-taken", Severity: tick.Low, PID: 7, From: began.Add(10 * time.Minute), To: w.now, Lost: 4},
			{ID: "c-2", Rule: "disk-wait", Severity: tick.Low, PID: 8, From: began.Add(10 * time.Minute), To: w.now, Lost: 6},
		}
	}
	r := w.whole()
	first := query.Filter{Session: "s", From: began, To: began.Add(time.Minute)}
	if all, err := r.Chains(t.Context(), first); err != nil || len(all) != 1 || all[0].Severity != tick.High {
		t.Fatalf("the range has %+v, %v, want the first state of c-1", all, err)
	}
	for _, c := range []struct {
		name   string
		copies []query.Filter
		want   [2]any
	}{
		{"range", []query.Filter{first}, [2]any{"LOW", nil}},
		{"all, then the range", []query.Filter{{Session: "s"}, first}, [2]any{"LOW", "LOW"}},
		{"range, then all", []query.Filter{first, {Session: "s"}}, [2]any{"LOW", "LOW"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, address := newKeeper(t)
			cl := open(t, address)
			for _, f := range c.copies {
				if _, err := clickhouse.Copy(t.Context(), cl, r, f, nil); err != nil {
					t.Fatal(err)
				}
			}
			if got := k.severities(); got != c.want {
				t.Errorf("the causes are %v, want %v", got, c.want)
			}
			row := k.chains()["c-1"]
			for name, want := range map[string]any{"lost_ns": uint64(4), "from_ns": uint64(began.Add(10 * time.Minute).UnixNano()), "to_ns": uint64(began.Add(11 * time.Minute).UnixNano())} {
				if row[name] != want {
					t.Errorf("%s is %v, want %v", name, row[name], want)
				}
			}
		})
	}
}

// Causes that retention deletes from the recording stay in the cluster. Later ones are withdrawn.
func TestDeletedCausesStay(t *testing.T) {
	testkit.LeakCheck(t)
	live, liveAt := newKeeper(t)
	copied, copiedAt := newKeeper(t)
	follow, err := clickhouse.Open(liveAt, hurried)
	if err != nil {
		t.Fatal(err)
	}
	cl, w := open(t, copiedAt), newRecorder(t, "s")
	copyFrom := func(r *query.Reader) {
		t.Helper()
		if _, err := clickhouse.Copy(t.Context(), cl, r, query.Filter{Session: "s"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	later := began.Add(10 * time.Minute)
	w.facts = func(b *tick.Batch, x *tick.Tick) {
		causes(true)(b, x)
		x.Chains = append(x.Chains, tick.Chain{ID: "c-3", Rule: "disk-wait", Severity: tick.Low, PID: 8, From: began, To: later.Add(-time.Minute), Lost: 7})
	}
	w.record(10)
	w.tick(false)
	x := clickhouse.Follow(follow, clickhouse.FollowOptions{Path: w.path, Every: time.Millisecond, Grace: time.Minute,
		Mine: func(s *query.Session) bool { return s.ID == "s" }})
	testkit.Eventually(t, "the causes", func() bool { return live.severity("c-3") != nil })
	r, err := query.Open(t.Context(), w.path)
	if err != nil {
		t.Fatal(err)
	}
	copyFrom(r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	w.now = later
	w.facts = func(_ *tick.Batch, x *tick.Tick) {
		x.Chains = []tick.Chain{{ID: "c-1", Rule: "cpu-taken", Severity: tick.High, PID: 7, From: began, To: later, Lost: 5}}
	}
	w.db.SetBounds(1, 0)
	r = w.whole()
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	copyFrom(r)
	if left := testkit.Rows(t, w.path, "SELECT id FROM chains"); left != "c-1" {
		t.Fatalf("the recording has the causes %s, want c-1 only", left)
	}
	for name, k := range map[string]*keeper{"live": live, "copied": copied} {
		if got := k.severities(); got != [2]any{"HIGH", "LOW"} || k.severity("c-3") != "WITHDRAWN" {
			t.Errorf("%s: the causes are %v and %v, want HIGH, LOW and WITHDRAWN", name, got, k.severity("c-3"))
		}
	}
}
