package tapes

import (
	"archive/tar"
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"ingero/internal/query"
	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// Tape is a recording of a run of the lab, with the truth about it.
type Tape struct {
	Outcome
	// Schema is the version of the recording's database.
	Schema int
	// Within means that the true loss was within the reported interval.
	Within bool
	// Disturbed has the chains of CPU time that other processes or ingero took, and Misled the
	// resulting errors of the diagnosis. Both are empty for most tapes.
	Disturbed, Misled []string
	// Said has the chains of the last tick in brief form.
	Said []string
}

// Files of a tape: the truth, and the packed recording with the chains reported live.
const (
	truthSuffix = ".json"
	tapeSuffix  = ".tar.zst"
	dbName      = "run.db"
	heardName   = "heard.json"
)

// FileName returns the name of the files of a scenario's tape, without suffix.
func FileName(scenario string) string {
	return strings.NewReplacer("/", "-", " ", "-", ",", "", "'", "", ":", "", "% ", "").Replace(scenario)
}

// Save writes the tape of a run that was recorded in db. To remove the names of processes outside
// the lab, it replays the recording without them, and records it again.
func Save(t testing.TB, dir, db string, o *Outcome) {
	t.Helper()
	to := filepath.Join(t.TempDir(), dbName)
	end := func() time.Time { return time.Unix(0, o.Until) }
	heard := playTo(t, db, o.Until, func(r *segment.Replay) session.Recording { return scrubbed{r, map[string]string{}} }, func(s *query.Session) tick.Sink {
		rec, err := store.Open(store.Options{Path: to, Now: end, Session: segment.Session{Mode: s.Mode, Target: FileName(o.Name), PID: s.PID, Started: s.Started}})
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}).Heard()
	if len(heard) != len(o.Heard) {
		t.Fatalf("the tape has %d ticks, the run had %d", len(heard), len(o.Heard))
	}
	// Only names may differ from the live reports.
	for i := range heard {
		if !alike(heard[i].Chains, o.Heard[i].Chains) {
			t.Logf("no tape: without their names it reports %s, the run reported %s", heard[i].rules(), o.Heard[i].rules())
			return
		}
	}
	tape := &Tape{Outcome: *o, Schema: store.Schema()}
	tape.Heard = heard
	_, tape.Diagnosis = Rediagnose(t, to, o.Until)
	if err := trim(to); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755), tape.write(filepath.Join(dir, FileName(o.Name)), to)); err != nil {
		t.Fatal(err)
	}
}

// alike reports whether two lists of chains have the same rules, with lost times that differ by a
// tenth at most.
func alike(a, b []tick.Chain) bool {
	return slices.EqualFunc(a, b, func(a, b tick.Chain) bool {
		return a.Rule == b.Rule && 10*(a.Lost-b.Lost).Abs() <= b.Lost
	})
}

// trim removes from a database what a replay does not read.
func trim(path string) (err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	rows, err := db.Query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'sessions' AND name NOT LIKE 'sqlite_%'")
	if err != nil {
		return err
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return errors.Join(err, rows.Close())
		}
		tables = append(tables, name)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, name := range tables {
		if _, err := db.Exec("DELETE FROM " + name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	_, err = db.Exec("VACUUM; PRAGMA journal_mode = delete")
	return err
}

// write writes the files of a tape whose recording is at db.
func (tp *Tape) write(path, db string) error {
	v := Judge(&tp.Outcome)
	tp.Disturbed, tp.Misled, tp.Diagnosis = v.Disturbed, v.Misled, nil
	tp.Within, tp.Said = v.Found > 0 && v.Clocked() && v.Covered(), tp.Heard[len(tp.Heard)-1].lines()
	heard, err := json.Marshal(tp.Heard)
	if err != nil {
		return err
	}
	segments, err := filepath.Glob(db + ".d/*.iseg")
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20))
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	add := func(name string, text []byte) error {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	for _, file := range append([]string{db}, segments...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(filepath.Dir(db), file)
		if err := add(name, text); err != nil {
			return err
		}
	}
	if err := errors.Join(add(heardName, heard), w.Close(), z.Close()); err != nil {
		return err
	}
	plain := *tp
	plain.Heard = nil
	truth, err := json.MarshalIndent(&plain, "", "\t")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path+tapeSuffix, packed.Bytes(), 0o644), os.WriteFile(path+truthSuffix, append(truth, '\n'), 0o644))
}

// lines returns the chains in brief form.
func (h Heard) lines() []string {
	all := []string{}
	for i := range h.Chains {
		c := &h.Chains[i]
		all = append(all, fmt.Sprintf("%s %s of %d%s: lost %v (%v to %v)", c.Severity, c.Rule, c.PID, by(c), c.Lost, c.LostMin, c.LostMax))
	}
	return all
}

// load reads a tape and unpacks its recording to db.
func load(t testing.TB, path string) (tp *Tape, db string) {
	t.Helper()
	tp = &Tape{}
	text, err := os.ReadFile(path + truthSuffix)
	if err == nil {
		err = json.Unmarshal(text, tp)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path + tapeSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	dir := t.TempDir()
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(r)
		}
		if err == nil && h.Name == heardName {
			err = json.Unmarshal(b, &tp.Heard)
		} else if err == nil {
			to := filepath.Join(dir, filepath.FromSlash(h.Name))
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, b, 0o600))
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return tp, filepath.Join(dir, dbName)
}

// all returns the paths of the committed tapes, without suffix.
func all(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*" + truthSuffix)
	if err != nil || len(files) == 0 {
		t.Fatalf("no tapes in testdata: %v", err)
	}
	for i := range files {
		files[i] = strings.TrimSuffix(files[i], truthSuffix)
	}
	slices.Sort(files)
	return files
}
