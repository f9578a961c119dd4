package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// The picker's slowest calls are the first ones of a sorted list.
func TestPicker(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var calls []events.Call
	for i := range 500 {
		c := events.Call{Start: int64(i), Duration: r.Int64N(50), Weight: 1}
		if i%7 == 0 {
			c.Flags |= events.CallUnmeasured
		}
		calls = append(calls, c)
	}
	for _, most := range []int{1, 5, 40, 1000} {
		p := callSelection{most: most, slowest: true}
		for i := range calls {
			if !p.add(&calls[i], func() explain.CallRow { return explain.CallRow{Call: calls[i]} }) {
				t.Fatal("it wants no more")
			}
		}
		want := slices.DeleteFunc(slices.Clone(calls), func(c events.Call) bool { return c.Flags&events.CallUnmeasured != 0 })
		slices.SortFunc(want, bySlow)
		got := p.sorted()
		if len(got) != min(most, len(want)) || p.seen != uint64(len(want)) {
			t.Fatalf("%d of %d calls, want %d of %d", len(got), p.seen, min(most, len(want)), len(want))
		}
		for i := range got {
			if got[i].Call != want[i] {
				t.Fatalf("call %d of %d is %+v, want %+v", i, most, got[i].Call, want[i])
			}
		}
	}
	p := callSelection{most: 3}
	n := 0
	for n < len(calls) && p.add(&calls[n], func() explain.CallRow { return explain.CallRow{Call: calls[n]} }) {
		n++
	}
	if n != 3 || !p.full || len(p.sorted()) != 3 {
		t.Errorf("after %d calls it is full: %v", n, p.full)
	}
}

// Notes report what an answer lacks.
func TestNotes(t *testing.T) {
	at := time.Date(2026, 3, 2, 15, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		change func(a *answerData)
		want   string
	}{
		"whole":   {func(*answerData) {}, ""},
		"thinned": {func(a *answerData) { a.covered(query.Coverage{Thinned: true}) }, "quantiles are estimates"},
		"missing": {func(a *answerData) { a.covered(query.Coverage{Missing: []string{"a", "b", "c", "d", "e"}}) }, "were deleted: a, b, c and 2 more"},
		"torn":    {func(a *answerData) { a.covered(query.Coverage{Torn: 4096}) }, "the last 4.00 KiB are lost"},
		"damaged": {func(a *answerData) { a.covered(query.Coverage{Damage: []string{"bad\x1bsum"}}) }, "cannot be read: bad?sum"},
		"full":    {func(a *answerData) { a.sessions[0].State, a.sessions[0].Problem = "full", "no space" }, "at 2026-03-02 16:00:00 CET: no space"},
		"lost":    {func(a *answerData) { a.facts[0].Drops = []tick.Drop{{Reason: "ring-full", Count: 1234}} }, "1,234 records were lost"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &answerData{sessions: []query.Session{{Session: segment.Session{Started: at}, Updated: at, State: "ended"}}, facts: []*query.Summary{{}}}
			tt.change(a)
			got := strings.Join(a.notes(zoneCET), "\n")
			if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("notes %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWordsSQL(t *testing.T) {
	for name, tt := range map[string]struct {
		err      error
		what, do string
		code     int
	}{
		"wrong":          {&query.SQLError{What: "no such table: x"}, "cannot run the statement: no such table: x", ".tables", exitUsage},
		"wrong, with do": {&query.SQLError{What: "no such table: x", Do: "try y"}, "no such table: x", "try y", exitUsage},
		"late":           {context.DeadlineExceeded, "timed out after 2 min 0 s", "--timeout", 0},
		"stopped":        {context.Canceled, "was stopped", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var p *problem
			if err := sqlProblem(tt.err, 2*time.Minute); !errors.As(err, &p) || !strings.Contains(p.What, tt.what) || !strings.Contains(p.Do, tt.do) || p.Code != tt.code {
				t.Errorf("%+v, want %q, %q and code %d", p, tt.what, tt.do, tt.code)
			}
		})
	}
	if other := errors.New("other"); sqlProblem(other, 0) != other {
		t.Error("another error is changed")
	}
}

// A statement that takes too long is stopped and reported.
func TestQueryTimeout(t *testing.T) {
	db := filepath.Join(t.TempDir(), "x.db")
	if err := recordFixture(db, "one", "gpu-7", began, 1); err != nil {
		t.Fatal(err)
	}
	out := temporary(t)
	e := &Env{Lock: testPlace(t), Args: []string{"query", "--db", db, "--timeout", "20ms",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"},
		Stdin: out, Stdout: out, Stderr: temporary(t), Getenv: func(string) string { return "" }}
	if code := e.run(t.Context()); code != exitFailed {
		t.Errorf("it ends with %d, want %d", code, exitFailed)
	}
}
