package explain

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"ingero/internal/wire"
)

// Grid has the rows that a statement returned: nil, int64, float64, string and []byte.
type Grid struct {
	Columns    []string
	Rows       [][]any
	Database   string
	Cut        string      // why rows are missing
	Notes      []string    // what a reader must know; JSON only
	Nodes      []wire.Node // the queried nodes; JSON only
	NoTruncate bool        // no value is truncated, as in a file or a pipe
}

// widestCell is the maximum width of a value beside others.
const widestCell = 60

// GridText formats rows as text in columns: numbers right-aligned, NULL as "-". Long values are
// truncated if there are other columns.
func GridText(g *Grid) string {
	if len(g.Columns) == 0 {
		return ""
	}
	cellsOf := make([][]string, 0, len(g.Rows)+1)
	head := make([]string, len(g.Columns))
	wide, number := make([]int, len(g.Columns)), make([]bool, len(g.Columns))
	for i, name := range g.Columns {
		head[i], number[i] = clean(name), len(g.Rows) > 0
	}
	cellsOf = append(cellsOf, head)
	for _, row := range g.Rows {
		line := make([]string, len(g.Columns))
		for i, v := range row {
			line[i] = valueText(v, unknown)
			if len(g.Columns) > 1 && !g.NoTruncate {
				line[i] = cut(line[i], widestCell)
			}
			switch v.(type) {
			case nil, int64, float64:
			default:
				number[i] = false
			}
		}
		cellsOf = append(cellsOf, line)
	}
	for _, line := range cellsOf {
		for i, c := range line {
			wide[i] = max(wide[i], cells(c))
		}
	}
	var b strings.Builder
	for _, line := range cellsOf {
		for i, c := range line {
			if number[i] {
				line[i] = alignRight(c, wide[i])
			} else {
				line[i] = alignLeft(c, wide[i])
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(line, "  "), " ") + "\n")
	}
	return b.String()
}

// valueText formats a value as text.
func valueText(v any, null string) string {
	switch v := v.(type) {
	case nil:
		return null
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		if a := math.Abs(v); a >= 1e6 && a < 1e15 {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	case []byte:
		return hex.EncodeToString(v)
	}
	return clean(fmt.Sprint(v))
}

// GridCSV formats rows as CSV (RFC 4180) with a header line: numbers in full, blobs as hexadecimal,
// NULL as an empty field.
func GridCSV(g *Grid) []byte {
	rows := [][]string{g.Columns}
	for _, row := range g.Rows {
		line := make([]string, len(row))
		for i, v := range row {
			switch v := v.(type) {
			case string:
				line[i] = tame(v)
			case float64:
				line[i] = strconv.FormatFloat(v, 'g', -1, 64)
			default:
				line[i] = valueText(v, "")
			}
		}
		rows = append(rows, line)
	}
	return csvOf(rows)
}

// GridJSON formats rows as JSON: columns with their names, and rows, each an object in column
// order. Repeated names get a number appended. Blobs are hexadecimal; a float without a JSON number
// is null. cut is why rows are missing, or "".
func GridJSON(g *Grid) ([]byte, error) {
	names := unique(g.Columns)
	rows := make([]json.RawMessage, 0, len(g.Rows))
	for _, row := range g.Rows {
		b := []byte{'{'}
		for i, v := range row {
			if i > 0 {
				b = append(b, ',')
			}
			switch x := v.(type) {
			case []byte:
				v = hex.EncodeToString(x)
			case float64:
				if math.IsNaN(x) || math.IsInf(x, 0) {
					v = nil
				}
			}
			text, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			name, _ := json.Marshal(names[i]) // a string cannot fail
			b = append(append(append(b, name...), ':'), text...)
		}
		rows = append(rows, append(b, '}'))
	}
	out := wire.Table{Database: g.Database, Columns: names, Rows: rows, Cut: g.Cut, Notes: append([]string{}, g.Notes...), Nodes: g.Nodes}
	b, err := json.MarshalIndent(&out, "", "  ")
	return append(b, '\n'), err
}

// tame is clean for CSV, which quotes newlines.
func tame(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// unique returns the names, with a number appended to repeated ones.
func unique(names []string) []string {
	out := make([]string, 0, len(names))
	seen := map[string]bool{}
	for _, name := range names {
		free := name
		for n := 2; seen[free]; n++ {
			free = name + "_" + strconv.Itoa(n)
		}
		seen[free] = true
		out = append(out, free)
	}
	return out
}
