package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/store/retention"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// statements connects to a SQLite file, and counts the statements by their texts.
type statements struct {
	path   string
	sqlite driver.Driver
	count  map[string]int
}

func (s *statements) Driver() driver.Driver { return s.sqlite }

func (s *statements) Connect(context.Context) (driver.Conn, error) {
	c, err := s.sqlite.Open(s.path)
	return counted{c, s}, err
}

// counted is a connection that prepares all statements, since it has no other methods for them.
type counted struct {
	driver.Conn
	all *statements
}

func (c counted) Prepare(text string) (driver.Stmt, error) {
	c.all.count[text]++
	return c.Conn.Prepare(text)
}

// No statement of a tick reads a whole table, but those with few rows of each session. Rows expire at
// most once a minute, also if they take more than their part of the limit.
func TestTicksReadNoWholeTable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	var db *DB
	for _, id := range []string{"one", "two"} {
		var c *clock
		db, c = open(t, path, Options{Session: segment.Session{ID: id}})
		g, k := storetest.NewGenerator(1), storetest.NewKernel()
		for seq := range uint64(25) {
			calls := g.Calls(nil, 100)
			k.See(calls)
			c.advance(time.Second)
			if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(k.Tick(seq+1, c.now, false))); err != nil {
				t.Fatal(err)
			}
		}
		if id == "one" {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := &statements{path: path, sqlite: db.held.SQL.Driver(), count: map[string]int{}}
	lite := sql.OpenDB(s)
	defer func() { _ = lite.Close() }()
	lite.SetMaxOpenConns(1)
	rows := retention.NewRows(lite, db.saver.id)
	rows.Bound = 1
	for i := range 20 { // each forgets two seconds
		if err := rows.Trim(storetest.Began.Add(time.Hour + time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := lite.Begin()
	if err != nil {
		t.Fatal(err)
	}
	pids := map[uint32]bool{4821: true}
	if err := errors.Join(retention.Reused(tx, db.saver.id, pids, pids), tx.Rollback()); err != nil {
		t.Fatal(err)
	}
	for q, n := range s.count {
		if strings.HasPrefix(q, "DELETE FROM losses") && n > 1 {
			t.Errorf("losses expire %d times in 20 s", n)
		}
	}
	for q := range db.saver.stmts {
		s.count[*q]++
	}
	checkPlans(t, path, s.count)
}

var (
	parameter = regexp.MustCompile(`\?\d*`)
	scanned   = regexp.MustCompile(`SCAN (\w+)`)
)

// checkPlans checks how SQLite runs some statements.
func checkPlans(t *testing.T, path string, all map[string]int) {
	t.Helper()
	tables := strings.Fields(testkit.Rows(t, path, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('sessions', 'tiers')"))
	text := ""
	for q := range all {
		text += q
		plan := testkit.Rows(t, path, "EXPLAIN QUERY PLAN "+parameter.ReplaceAllString(q, "1"))
		for _, m := range scanned.FindAllStringSubmatch(plan, -1) {
			if slices.Contains(tables, m[1]) {
				t.Errorf("%s\nreads all of %s:\n%s", q, m[1], plan)
			}
		}
	}
	for _, table := range tables {
		if !strings.Contains(text, table) && table != "silences" {
			t.Errorf("no statement of %s is checked", table)
		}
	}
	for _, table := range []string{"host_sums", "losses", "accounts", "counted", "rollups", "ops", "stacks"} {
		if !strings.Contains(text, "DELETE FROM "+table+" ") {
			t.Errorf("no rows of %s were deleted", table)
		}
	}
}
