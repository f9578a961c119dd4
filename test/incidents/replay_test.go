//go:build measure

package incidents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingero/test/scores"
	"ingero/test/tapes"
)

// again judges kept runs by the chains that a replay of their recordings finds.
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
			db := strings.TrimSuffix(file, ".json") + ".db"
			live := *o
			o.Heard, o.Diagnosis = tapes.Rediagnose(t, db, o.Until)
			v := tapes.Judge(o)
			if v.Replay = tapes.Compare(live.Heard, o.Heard); v.Replay == "" {
				saveTape(t, v, db)
			}
			sum.add(t, v, o.Seed, scores.Now())
			check(t, v)
		})
	}
}

// keptOutcome reads the files that save wrote.
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

// keptVerdict returns the verdict of a run kept by an earlier -keep, if it need not be repeated.
func keptVerdict(t *testing.T, name string, n uint64) *verdict {
	t.Helper()
	file := fileName(*keep, name, n) + ".json"
	if _, err := os.Stat(file); *keep == "" || !*resume || err != nil {
		return nil
	}
	o := keptOutcome(t, file)
	if o.Diagnosis == nil { // kept by a version without diagnoses
		o.Diagnosis = tapes.Diagnose(t, fileName(*keep, name, n)+".db")
	}
	if v := tapes.Judge(o); v.Undisturbed() {
		return v
	}
	return nil
}

// fit reports whether a run may become a tape: its verdict is right in all respects and, unless
// -disturbed is given and it has a fault, nothing disturbed it.
func fit(v *verdict) bool {
	return v.Right() && v.Replay == "" && (v.Found == 0 || !v.Clocked() || v.Covered()) &&
		(v.Undisturbed() && len(v.Misled) == 0 || *disturbed && len(v.Want) > 0 && !v.Hampered)
}

// saveTape writes the run's tape if -tapes is set and the run is fit for one.
func saveTape(t *testing.T, v *verdict, db string) {
	t.Helper()
	if *tapeDir != "" && fit(v) {
		tapes.Save(t, *tapeDir, db, v.Outcome)
	}
}
