//go:build measure

package incidents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"
)

// score is what the table has of a run. A file of scores, one per line, holds the results of many
// machines and days: a measurement of some hours can be made in parts, and without the recordings.
type score struct {
	Name      string     `json:"name"`
	Seed      uint64     `json:"seed"`
	Date      string     `json:"date"` // when it was judged
	Wanted    int        `json:"wanted,omitempty"`
	Found     int        `json:"found,omitempty"`
	Named     int        `json:"named,omitempty"`
	Blamed    int        `json:"blamed,omitempty"`
	False     int        `json:"false,omitempty"`
	Diagnosed bool       `json:"diagnosed"`
	Alike     bool       `json:"alike"`               // the replay gave the same chains
	Disturbed bool       `json:"disturbed,omitempty"` // by other processes
	Hampered  bool       `json:"hampered,omitempty"`  // by the hypervisor
	Lost      *lostScore `json:"lost,omitempty"`      // nil: there was nothing to compare
}

// lostScore compares the reported lost time with the true one.
type lostScore struct {
	Said    float64 `json:"said_ms"`
	True    float64 `json:"true_ms"`
	Covered bool    `json:"covered"`
	Off     float64 `json:"off"`   // share of the true lost time
	Width   float64 `json:"width"` // share of the true lost time
	Delay   float64 `json:"delay_s"`
}

// scoreOf returns the score of a verdict.
func scoreOf(v *verdict, seed uint64) *score {
	x := &score{Name: v.Name, Seed: seed, Date: time.Now().UTC().Format(time.DateOnly), Wanted: len(v.Want), Found: v.Found, Blamed: v.Blamed, False: len(v.False),
		Diagnosed: len(v.Misled) == 0, Alike: v.Replay == "", Disturbed: len(v.Disturbed) > 0, Hampered: v.Hampered}
	for i := range v.Want {
		if v.Want[i].Named {
			x.Named++
		}
	}
	if v.Found == len(v.Want) && v.Found > 0 && v.Clocked() {
		x.Lost = &lostScore{Said: float64(v.Said.Mid) / 1e6, True: float64(v.True.Mid) / 1e6, Covered: v.Covered(), Off: v.Off(), Width: v.Width(), Delay: v.Delay.Seconds()}
	}
	return x
}

// readScores reads a file of scores; it need not exist.
func readScores(t *testing.T, file string) (all []*score) {
	t.Helper()
	text, err := os.ReadFile(file)
	if file == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		x := new(score)
		if err := json.Unmarshal(line, x); err != nil {
			t.Fatalf("%s: %v: %s", file, err, line)
		}
		all = append(all, x)
	}
	return all
}

// addScore adds a score to a file, in place of an earlier one of the same run.
func addScore(t *testing.T, file string, x *score) {
	t.Helper()
	all := slices.DeleteFunc(readScores(t, file), x.same)
	all = append(all, x)
	slices.SortFunc(all, func(a, b *score) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Seed, b.Seed)) })
	var text []byte
	for _, x := range all {
		line, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	part := file + ".part" // a run that is killed leaves the scores complete
	err := os.WriteFile(part, text, 0o644)
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// same reports whether another score is of the same run.
func (x *score) same(other *score) bool { return x.Name == other.Name && x.Seed == other.Seed }

// undisturbed reports whether the run counts.
func (x *score) undisturbed() bool { return !x.Disturbed && !x.Hampered }
