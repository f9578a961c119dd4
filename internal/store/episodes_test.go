package store

import (
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// The file has each episode's last state, even if another program locked the database meanwhile; a
// revised episode is deleted.
func TestEpisodes(t *testing.T) {
	db, path, other, next := contested(t)
	step := func(seq uint64, reported ...tick.Episode) {
		t.Helper()
		next(seq, func(x *tick.Tick) { x.Episodes = reported })
	}
	at := time.Unix(1_700_000_000, 0)
	event := func(kind tick.EpisodeKind, id string, why tick.EpisodeReason, grade tick.Severity, lost time.Duration) tick.Episode {
		return tick.Episode{Kind: kind, ID: id, Why: why, Severity: grade, From: at, To: at.Add(lost), Lost: lost,
			Chain: tick.Chain{ID: "c", Rule: "cpu-taken", PID: 7, Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf("hog")}}}}}
	}
	step(1, event(tick.EpisodeBegin, "c.1", "", tick.Low, time.Second), event(tick.EpisodeBegin, "d.1", "", tick.Low, time.Second))
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	step(2, event(tick.EpisodeUpdate, "c.1", tick.ReasonSeverity, tick.High, 2*time.Second))
	step(3, event(tick.EpisodeRevised, "d.1", "", tick.Low, time.Second))
	const all = "SELECT id, chain, severity, lost_ns, ended_ns IS NULL, why, culprits ->> '$[0].comm' FROM episodes ORDER BY id"
	if got, want := testkit.Rows(t, path, all), "c.1 c LOW 1000000000 1  hog\nd.1 c LOW 1000000000 1  hog"; got != want {
		t.Errorf("while another has the database:\n%s\nwant\n%s", got, want)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	step(4)
	if got, want := testkit.Rows(t, path, all), "c.1 c HIGH 2000000000 1  hog"; got != want {
		t.Errorf("then:\n%s\nwant\n%s", got, want)
	}
	step(5, event(tick.EpisodeEnd, "c.1", tick.ReasonOver, tick.High, 3*time.Second))
	if got, want := testkit.Rows(t, path, all), "c.1 c HIGH 3000000000 0 over hog"; got != want {
		t.Errorf("at the end:\n%s\nwant\n%s", got, want)
	}
	if n := len(db.saver.episodes); n != 0 {
		t.Errorf("%d wait", n)
	}
}

// Hidden chains are kept.
func TestHiddenChainsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	x := storetest.NewKernel().Tick(1, c.now, false)
	x.Chains, x.Hidden = []tick.Chain{{ID: "shown"}}, []tick.Hidden{{Chain: tick.Chain{ID: "hidden"}}}
	if err := db.Tick(x); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Rows(t, path, "SELECT id FROM chains ORDER BY id"); got != "hidden\nshown" {
		t.Errorf("chains: %s", got)
	}
}
