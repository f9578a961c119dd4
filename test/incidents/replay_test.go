//go:build measure

package incidents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
		o := keptOutcome(t, file)
		if !wanted(o.Name) {
			continue
		}
		t.Run(o.Name, func(t *testing.T) {
			o.Heard, o.Diagnosis = diagnosedAnew(t, strings.TrimSuffix(file, ".json")+".db", o.Until)
			v := judge(o)
			sum.add(v)
			check(t, v)
		})
	}
}

// keptOutcome reads what save wrote.
func keptOutcome(t *testing.T, file string) *outcome {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return &o
}

// keptVerdict is that of a run which an earlier -keep has, if it shall not be made again.
func keptVerdict(t *testing.T, name string, n uint64) *verdict {
	t.Helper()
	file := fileName(*keep, name, n) + ".json"
	if _, err := os.Stat(file); *keep == "" || !*resume || err != nil {
		return nil
	}
	o := keptOutcome(t, file)
	if o.Diagnosis == nil { // it was kept before there were any
		o.Diagnosis = diagnosed(t, fileName(*keep, name, n)+".db")
	}
	if v := judge(o); v.counts() {
		return v
	}
	return nil
}

// compare says where a replay differs from what was heard live, "" where it does not.
func compare(live, again []heard) string {
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

// rules are the chains in short.
func (h heard) rules() string {
	var all []string
	for i := range h.Chains {
		all = append(all, fmt.Sprintf("%s %v", h.Chains[i].Rule, h.Chains[i].Lost))
	}
	return h.Time.Format("05.000000") + " " + strings.Join(all, ", ")
}

// replayed are the chains that a recording gives, tick by tick up to some time (Unix ns).
func replayed(t *testing.T, db string, until int64) []heard {
	t.Helper()
	return played(t, db, until).said()
}

// played plays a recording up to some time (Unix ns).
func played(t *testing.T, db string, until int64) *tape {
	t.Helper()
	return playedTo(t, db, until, func(*query.Session) tick.Sink { return nil })
}

// playedTo is played, also to the sink that into returns for the recording, if that is any.
func playedTo(t *testing.T, db string, until int64, into func(*query.Session) tick.Sink) *tape {
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
	p := newTape(into(&all[0]), func(t *tick.Tick) bool { return t.Time.UnixNano() >= until })
	source := store.NewReplay(log, store.ReplayOptions{})
	if err := session.Run(context.Background(), session.Config{Source: source, Clock: source, Sinks: []tick.Sink{p}, Poll: 250 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return p
}
