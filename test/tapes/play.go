package tapes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/session"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// Compare describes the first difference between the chains reported live and those of a replay,
// byte for byte; "" if there is none.
func Compare(live, again []Heard) string {
	if len(live) != len(again) {
		return fmt.Sprintf("%d ticks, not %d", len(again), len(live))
	}
	for i := range live {
		a, err := json.Marshal(live[i])
		b, err2 := json.Marshal(again[i])
		if err := errors.Join(err, err2); err != nil {
			return err.Error()
		}
		if !bytes.Equal(a, b) {
			return fmt.Sprintf("in tick %d: %s, not %s", i+1, again[i].rules(), live[i].rules())
		}
	}
	return ""
}

// rules returns the rules of the chains in brief form.
func (h Heard) rules() string {
	var all []string
	for i := range h.Chains {
		all = append(all, fmt.Sprintf("%s %v", h.Chains[i].Rule, h.Chains[i].Lost))
	}
	return h.Time.Format("05.000000") + " " + strings.Join(all, ", ")
}

// Play replays a recording up to a time (Unix ns) through the session's pipeline.
func Play(t testing.TB, db string, until int64) *Recorder {
	t.Helper()
	return playTo(t, db, until, nil, func(*query.Session) tick.Sink { return nil })
}

// playTo is Play that also writes to the sink that into returns, unless that sink is nil. The
// session reads the replay through wrap, unless wrap is nil.
func playTo(t testing.TB, db string, until int64, wrap func(*segment.Replay) session.Recording, into func(*query.Session) tick.Sink) *Recorder {
	t.Helper()
	r, err := query.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := r.Sessions(context.Background())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d sessions in %s: %v", len(all), db, err)
	}
	log, err := r.OpenLog(&all[0])
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := NewRecorder(into(&all[0]), func(t *tick.Tick) bool { return t.Time.UnixNano() >= until })
	replay := segment.NewReplay(log, segment.ReplayOptions{})
	var source session.Recording = replay
	if wrap != nil {
		source = wrap(replay)
	}
	if err := session.Run(context.Background(), session.Config{Source: session.FromRecording(source), Clock: replay, Sinks: []tick.Sink{p}, Poll: 250 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return p
}
