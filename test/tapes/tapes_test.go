package tapes

import (
	"database/sql"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// widest is the maximum median width of loss intervals, as a share of the true loss: 0.3, rounded
// up, since the reported loss differs a little from the truth. Most intervals have that width by
// definition: see usuallyVague of package causal.
const widest = 0.305

// A tape gives the chains that were reported live, byte for byte, and they are right. Their
// intervals are no wider than necessary. -update keeps each recording, also those of older
// versions, and rewrites only the expected output.
func TestTapes(t *testing.T) {
	var mu sync.Mutex
	var widths []float64
	t.Cleanup(func() {
		if n := len(widths); n > 0 {
			slices.Sort(widths)
			if t.Logf("intervals are as wide as %.3f of the truth in the median of %d tapes", widths[n/2], n); widths[n/2] > widest {
				t.Errorf("intervals are as wide as %.3f of the truth in the median, want %v at most", widths[n/2], widest)
			}
		}
	})
	for _, path := range all(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			tp, db := load(t, path)
			migrated(t, db, tp.Schema)
			heard, reported := Rediagnose(t, db, tp.Until)
			if testkit.Updating() {
				_, unmigrated := load(t, path)
				tp.Heard, tp.Diagnosis = heard, reported
				if err := tp.write(path, unmigrated); err != nil {
					t.Fatal(err)
				}
				return
			}
			if differs := Compare(tp.Heard, heard); differs != "" {
				t.Errorf("the replay differs from what was reported live: %s", differs)
			}
			o := tp.Outcome
			o.Heard, o.Diagnosis = heard, reported
			v := Judge(&o)
			if !v.Right() || v.Hampered || v.Found != len(tp.Want) {
				t.Error(v.Line())
			}
			if v.Found > 0 && v.Clocked() {
				mu.Lock()
				widths = append(widths, v.Width())
				mu.Unlock()
			}
			if !slices.Equal(v.Disturbed, tp.Disturbed) || !slices.Equal(v.Misled, tp.Misled) {
				t.Errorf("disturbed by %q, misled by %q; want %q, %q", v.Disturbed, v.Misled, tp.Disturbed, tp.Misled)
			}
			if len(tp.Want) == 0 && len(tp.Disturbed)+len(tp.Misled) > 0 {
				t.Error("a tape of a healthy job or a decoy must be of an undisturbed run")
			}
			if tp.Within && !v.Covered() {
				t.Errorf("the true lost time is not within the interval: %s", v.Line())
			}
			if got := heard[len(heard)-1].lines(); !slices.Equal(got, tp.Said) {
				t.Errorf("the last tick reports %q, want %q", got, tp.Said)
			}
		})
	}
}

// migrated migrates a tape's recording to the current schema. It fails the test if the recording's
// schema is not the tape's.
func migrated(t *testing.T, path string, schema int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	version, err := store.SchemaVersion(db)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if version != schema || version > store.Schema() {
		t.Errorf("the recording has schema %d, the tape says %d, this is %d", version, schema, store.Schema())
	}
	if err := store.Migrate(path); err != nil {
		t.Fatal(err)
	}
}

// A tape names only processes of the lab and of the kernel.
func TestTapesNameNobodyElse(t *testing.T) {
	for _, path := range all(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			tp, db := load(t, path)
			playTo(t, db, tp.Until, nil, func(*query.Session) tick.Sink { return &witness{t: t, seen: map[string]bool{}} })
		})
	}
}

// witness is a sink that fails the test for each name that a tape must not have.
type witness struct {
	t    *testing.T
	seen map[string]bool
}

func (w *witness) see(name string) string {
	if !known.MatchString(name) && !w.seen[name] {
		w.seen[name] = true
		w.t.Errorf("a process %q is named", name)
	}
	return name
}

// read fails the test for each path of the recording machine.
func (w *witness) read(text string) string {
	if clean := placeless(text); clean != text && !w.seen[text] {
		w.seen[text] = true
		w.t.Errorf("%q says where the tape was recorded", text)
	}
	return text
}

func (w *witness) Batch(b *tick.Batch) error {
	named(b, w.see)
	eachString(reflect.ValueOf(b), w.read)
	return nil
}

func (w *witness) Tick(t *tick.Tick) error {
	namedInTick(t, w.see)
	eachString(reflect.ValueOf(t), w.read)
	for i := range t.Chains {
		for _, c := range t.Chains[i].Culprits {
			w.see(c.Thread.Name.String())
		}
	}
	return nil
}

func (w *witness) Close() error { return nil }

// The tapes stay small: 8 MiB in total, with those of package raw.
func TestTapesAreSmall(t *testing.T) {
	const most = 6400 << 10
	var sum int64
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	if sum > most {
		t.Errorf("the tapes take %d bytes, at most %d are allowed", sum, most)
	}
}
