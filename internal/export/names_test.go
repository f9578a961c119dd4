package export_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"ingero/internal/export"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// cutName is a name that the kernel truncated inside a character (ncabatoff/process-exporter#323).
const cutName = "ODS_T_BUGT - \xe8\xa1"

// Invalid UTF-8 in names and paths of processes is replaced, so every format stays valid.
func TestNamesAreValid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	now := began
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return now }, Session: segment.Session{ID: "s", Node: "gpu-7", Started: now}})
	if err != nil {
		t.Fatal(err)
	}
	all := calls(rand.New(rand.NewPCG(7, 7)), now, 30)
	for i := range all {
		all[i].PID = 4821
	}
	now = now.Add(time.Second)
	last := &tick.Tick{Time: now, Started: began, Seq: 1, Final: true,
		Processes: []tick.Process{{PID: 4821, Comm: cutName, Exe: "/opt/\xe8/train", Cgroup: "/a/\xff", Started: began}}}
	if err := errors.Join(db.Batch(&tick.Batch{Calls: all}), db.Tick(last), db.Close()); err != nil {
		t.Fatal(err)
	}
	lite, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lite.Close() }()
	var comm, exe, cgroup string
	if err := lite.QueryRow("SELECT comm, exe, cgroup FROM processes").Scan(&comm, &exe, &cgroup); err != nil || !utf8.ValidString(comm+exe+cgroup) || !strings.HasPrefix(comm, "ODS_T_BUGT - ") {
		t.Errorf("the database has %q, %q, %q, %v", comm, exe, cgroup, err)
	}
	r := open(t, path)
	for name, write := range map[string]func(*testing.T, *query.Reader, query.Filter) ([][]string, *export.Result){"csv": fromCSV, "parquet": fromParquet, "sqlite": fromSQLite} {
		rows, _ := write(t, r, query.Filter{})
		for _, row := range rows {
			if text := strings.Join(row, ""); !utf8.ValidString(text) || !slices.ContainsFunc(row, func(s string) bool { return strings.HasPrefix(s, "ODS_T_BUGT - ") }) {
				t.Fatalf("%s has %q", name, row)
			}
		}
		if len(rows) != len(all) {
			t.Errorf("%s has %d rows", name, len(rows))
		}
	}
	var b bytes.Buffer
	if _, err := export.Chrome(context.Background(), &b, r, query.Filter{}, nil); err != nil || !utf8.Valid(b.Bytes()) || !json.Valid(b.Bytes()) || !strings.Contains(b.String(), "ODS_T_BUGT") {
		t.Errorf("the timeline of %d bytes is not valid: %v", b.Len(), err)
	}
}
