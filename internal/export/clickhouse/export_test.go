package clickhouse

import "testing"

// ParseRows decodes rows of a table, and returns the names of the columns that tell them apart.
func ParseRows(t *testing.T, name string, b []byte) (rows []map[string]any, keys []string) {
	t.Helper()
	for len(b) > 0 {
		var row map[string]any
		row, b = parseNext(t, name, b)
		rows = append(rows, row)
	}
	return rows, tableNamed(name).keyNames()
}
