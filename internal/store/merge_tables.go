package store

import (
	"context"
	"errors"
	"strings"
)

// table is a table that both databases have, with the columns that both have: the
// source may be of an older ingero.
type table struct {
	name      string
	columns   []string // but for the numbers of sessions
	ofSession bool     // it has a column session
}

// list returns the columns for SQL.
func (t *table) list() string { return strings.Join(t.columns, ", ") }

// tables finds them in the schemas, so that a table to come needs no word here. That
// of a backup's files is left out: they are copied as files.
func (m *merger) tables(ctx context.Context) (out []table, err error) {
	rows, err := m.db.sql.QueryContext(ctx, `SELECT h.name, c.name FROM main.sqlite_schema h
		JOIN src.sqlite_schema s USING (type, name) JOIN pragma_table_info(h.name, 'main') c JOIN pragma_table_info(h.name, 'src') d ON d.name = c.name
		WHERE h.type = 'table' AND h.name <> 'files' AND h.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY h.name, c.cid`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name, column string
		if err := rows.Scan(&name, &column); err != nil {
			return nil, err
		}
		if len(out) == 0 || out[len(out)-1].name != quoted(name) {
			out = append(out, table{name: quoted(name)})
		}
		t := &out[len(out)-1]
		switch {
		case name == "sessions" && column == "id":
		case column == "session":
			t.ofSession = true
		default:
			t.columns = append(t.columns, quoted(column))
		}
	}
	return out, rows.Err()
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
