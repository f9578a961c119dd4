package maintain

import (
	"context"
	"errors"
	"strings"
)

// table is a table in both databases, with their common columns: the source may come from an older
// ingero.
type table struct {
	name      string
	columns   []string // without session numbers
	ofSession bool     // has a column session
}

// list returns the columns for SQL.
func (t *table) list() string { return strings.Join(t.columns, ", ") }

// tables reads the tables from the schemas, so that new tables need no code here. It omits the
// table of a backup's files: they are copied as files.
func (m *merger) tables(ctx context.Context) (out []table, err error) {
	rows, err := m.SQL.QueryContext(ctx, `SELECT h.name, c.name FROM main.sqlite_schema h
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
