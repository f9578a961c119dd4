package testkit

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// Rows returns the rows of a query to the SQLite file at path: a line each, with the values
// separated by spaces. The test imports a driver named sqlite.
func Rows(t testing.TB, path, query string, args ...any) string {
	t.Helper()
	u := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	columns, _ := rows.Columns()
	values, to := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		to[i] = &values[i]
	}
	var out []string
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimSuffix(fmt.Sprintln(values...), "\n"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}
