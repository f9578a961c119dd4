package cli

import (
	"testing"
	"time"

	"ingero/internal/session"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// lives collects the episodes of ticks.
type lives struct {
	reported []tick.Episode
	at       []time.Time
}

func (l *lives) Batch(*tick.Batch) error { return nil }
func (l *lives) Close() error            { return nil }

func (l *lives) Tick(t *tick.Tick) error {
	for i := range t.Episodes {
		l.reported, l.at = append(l.reported, t.Episodes[i]), append(l.at, t.Time)
	}
	return nil
}

// A real incident is reported once, within two seconds of the first loss, and ends.
func TestIncidentLives(t *testing.T) {
	replay := segment.NewReplay(recorded(t, "incident"), segment.ReplayOptions{})
	var l lives
	if err := session.Run(t.Context(), session.Config{Source: session.FromRecording(replay), Clock: replay, Sinks: []tick.Sink{&l}, Poll: replayPoll}); err != nil {
		t.Fatal(err)
	}
	var kinds []tick.EpisodeKind
	for i := range l.reported {
		e := &l.reported[i]
		if e.Chain.Rule != "cpu-taken" || e.Chain.Culprit() != hogName {
			t.Errorf("%s of %s by %s", e.Kind, e.Chain.Rule, e.Chain.Culprit())
		}
		kinds = append(kinds, e.Kind)
	}
	if n := len(kinds); n < 2 || kinds[0] != tick.EpisodeBegin || kinds[n-1] != tick.EpisodeEnd {
		t.Fatalf("reported: %v", kinds)
	}
	for _, k := range kinds[1 : len(kinds)-1] {
		if k != tick.EpisodeUpdate {
			t.Errorf("reported: %v", kinds)
		}
	}
	if late := l.at[0].Sub(l.reported[0].From); late > 2*time.Second {
		t.Errorf("it was reported %v after the first slow step", late)
	}
	if last := &l.reported[len(l.reported)-1]; last.Lost < l.reported[0].Lost || last.Lost != last.Chain.Lost {
		t.Errorf("it cost %v in the end; the chain says %v", last.Lost, last.Chain.Lost)
	}
}
