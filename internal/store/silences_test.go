package store

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// older creates a database with the first n migrations.
func older(t *testing.T, path string, n int) {
	t.Helper()
	names, err := migrationNames()
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names[:n] {
		text, err := migrations.ReadFile(name)
		if err == nil {
			_, err = db.Exec(string(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = db.Exec(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, n))
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// A silence does not migrate the database under an older trace, and is refused if that has no silences.
func TestSilenceKeepsOlderSchema(t *testing.T) {
	for _, tt := range []struct {
		schema    int
		recording bool
		works     bool
		after     int
	}{
		{silencesSchema, true, true, silencesSchema},
		{silencesSchema, false, true, silencesSchema},
		{silencesSchema - 1, true, false, silencesSchema - 1},
		{silencesSchema - 1, false, true, Schema()},
	} {
		path := filepath.Join(t.TempDir(), "x.db")
		older(t, path, tt.schema)
		now := time.Unix(1_800_000_000, 0)
		silence := func() error {
			_, err := Silence(Silencing{Path: path, Now: now, Add: &tick.Silence{What: "lock-wait", Since: now, Until: now.Add(time.Hour)}})
			return err
		}
		do := silence
		if tt.recording {
			do = func() error { return Hold(path, nil, func(*Held) error { return silence() }) }
		}
		err := do()
		if got := testkit.Rows(t, path, "PRAGMA user_version"); (err == nil) != tt.works || got != fmt.Sprint(tt.after) {
			t.Errorf("%+v: schema %s, error %v", tt, got, err)
		}
		if tt.works {
			if got := testkit.Rows(t, path, "SELECT what FROM silences"); got != "lock-wait" {
				t.Errorf("%+v: silences %q", tt, got)
			}
		}
	}
}
