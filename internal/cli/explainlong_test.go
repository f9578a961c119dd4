package cli

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// Stored results equal those of an analysis: the same chains, and the same account of each thread,
// to the nanosecond and with the same names.
func TestStoredIsWhatAnalysisFinds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := recordIncident(path); err != nil {
		t.Fatal(err)
	}
	r, err := query.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s, err := r.Rolled(t.Context(), query.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var got, want explain.Input
	if err := stored(t.Context(), r, s, query.Filter{}, &got); err != nil {
		t.Fatal(err)
	}
	c, err := analyse(t.Context(), r, &s.Session, time.Time{}, time.Time{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c.ledger(&want, nil)
	reported := func(in *explain.Input) string {
		in.Threads, in.Host, in.HostSums, in.Launches, in.Processes = nil, nil, nil, nil, s.Processes
		for i := range in.Breakdowns { // stored medians are those of the last row
			in.Breakdowns[i].Loop.Usual = tick.StepTimes{}
		}
		b, err := explain.ReportJSON(in)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	host := got.Host
	if diff := cmp.Diff(reported(&want), reported(&got)); diff != "" {
		t.Errorf("-analysed +kept:\n%s", diff)
	}
	if host == nil || host.CPUs != 2 {
		t.Errorf("host %+v, want that of two CPUs", host)
	}
}

// A step that began before the window is unfinished in it, as recorded. A process that finished a step in the window
// has none but the analysis's. A process that answered requests before the step serves.
func TestUnfinishedStepIsOlderThanTheWindow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	from := time.Date(2026, 7, 29, 14, 0, 0, 0, time.UTC)
	open := &tick.LoopStep{From: from.Add(-time.Hour), To: from.Add(time.Second)}
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return from }, Session: segment.Session{Started: from.Add(-2 * time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	client := tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostReceive, PID: 7, Object: "10.0.0.9"}, Count: 1}
	errs := []error{
		db.Tick(&tick.Tick{Time: open.From, Started: from.Add(-2 * time.Hour), Seq: 1, HostSums: []tick.HostSum{client}}),
		db.Tick(&tick.Tick{Time: open.To, Started: from.Add(-2 * time.Hour), Seq: 2, Final: true, Breakdowns: []tick.Breakdown{{PID: 7, Elapsed: 1e9, Open: open}, {PID: 8, Elapsed: 1e9, Open: open}}}),
		db.Close(),
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	r, err := query.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	in := explain.Input{Breakdowns: []tick.Breakdown{{PID: 7}, {PID: 8, Loop: &tick.Loop{}}, {PID: 9}}}
	if err := openSteps(t.Context(), r, query.Filter{From: from.Add(-time.Hour), To: from.Add(time.Minute)}, &in); err != nil {
		t.Fatal(err)
	}
	if !in.Serving[7] || in.Serving[8] {
		t.Errorf("serving %v, want 7", in.Serving)
	}
	if x := in.Breakdowns; x[0].Open == nil || !x[0].Open.From.Equal(open.From) || x[1].Open != nil || x[2].Open != nil {
		t.Errorf("got %+v, want the step of 7 only", x)
	}
}

// A chain of an hour reports its cost in that hour, not in its last minute; a chain that is
// entirely in its last state stays unchanged.
func TestChainsTellOfTheWholeWindow(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	chain := tick.Chain{ID: "c", From: at.Add(59 * time.Minute), To: at.Add(time.Hour), Lost: 2 * time.Second, LostMin: time.Second, LostMax: 4 * time.Second,
		Window: time.Minute, Excess: 3 * time.Second, Steps: 100, Slow: 20, Culprits: []tick.Culprit{{Lost: 2 * time.Second}}}
	c := &collector{}
	for _, part := range []time.Duration{0, 20 * time.Minute, 40 * time.Minute} {
		e := tick.Episode{Kind: tick.EpisodeEnd, From: at.Add(part), To: at.Add(part + 20*time.Minute), Lost: 20 * time.Second, Chain: chain}
		if err := c.Tick(&tick.Tick{Time: at.Add(part), Chains: []tick.Chain{chain}, Episodes: []tick.Episode{e, {Kind: tick.EpisodeUpdate, Lost: time.Hour, Chain: chain}}}); err != nil {
			t.Fatal(err)
		}
	}
	c.setTotalCosts(at, at.Add(time.Hour))
	x := c.chains["c"]
	if x.Lost != time.Minute || x.LostMin != 30*time.Second || x.LostMax != 2*time.Minute || x.Window != time.Hour || !x.From.Equal(at) || x.Steps != 0 || x.Culprits[0].Lost != time.Minute {
		t.Errorf("%+v, want a minute of an hour", x)
	}
	short := costs{}
	short.add("c", chain.Lost, chain.From, chain.To)
	if got := short.in(chain, at, at.Add(time.Hour)); got.Window != time.Minute || got.Steps != 100 {
		t.Errorf("one that was seen whole: %+v", got)
	}
}

// A cause that loses no time is listed beside one that does, if it overlaps the window.
func TestChainsWithoutLossStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x, err := startFixture(path, "gpu-7-one", "gpu-7", began)
	if err == nil {
		x.lost, x.leak = 200*time.Millisecond, true
		err = errors.Join(x.second(), x.end())
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := query.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	f := query.Filter{From: began, To: began.Add(2 * time.Second)}
	s, err := r.Rolled(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	chains, _, err := chainsIn(t.Context(), r, s, f)
	if err != nil || len(chains) != 2 || chains[0].ID != "c-1" || chains[1].ID != "c-leak" {
		t.Errorf("%+v, %v", chains, err)
	}
}
