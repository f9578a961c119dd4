package incidents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/tick"
)

// again judges what was kept, by the chains that the recordings give now.
func again(t *testing.T, sum *results) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(*replay, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing is kept in %s: %v", *replay, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var o outcome
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if !wanted(o.Name) {
			continue
		}
		t.Run(o.Name, func(t *testing.T) {
			o.Heard = replayed(t, strings.TrimSuffix(file, ".json")+".db", o.Until)
			v := judge(&o)
			sum.add(v)
			check(t, v)
		})
	}
}

// replayed are the chains that a recording gives, tick by tick up to some time (Unix ns).
func replayed(t *testing.T, db string, until int64) []heard {
	t.Helper()
	r, err := query.Open(db)
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
	p := newTape(nil, func(t *tick.Tick) bool { return t.Time.UnixNano() >= until })
	source := store.NewReplay(log, store.ReplayOptions{})
	if err := session.Run(context.Background(), session.Config{Source: source, Clock: source, Sinks: []tick.Sink{p}, Poll: 250 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return p.said()
}

// playedAlike fails the test where the recording, played, does not give the chains that
// were heard in each tick, byte for byte.
func playedAlike(t *testing.T, db string, o *outcome) {
	t.Helper()
	played := replayed(t, db, o.Until)
	if len(played) != len(o.Heard) {
		t.Errorf("%d ticks were heard, and %d are played", len(o.Heard), len(played))
	}
	for i := range min(len(played), len(o.Heard)) {
		live, errLive := json.Marshal(o.Heard[i])
		again, err := json.Marshal(played[i])
		if err := errors.Join(errLive, err); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(live, again) {
			t.Fatalf("the chains of tick %d at %v are not those that are played:\n%s\n%s", i+1, o.Heard[i].Time, live, again)
		}
	}
}
