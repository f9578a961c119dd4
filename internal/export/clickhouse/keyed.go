package clickhouse

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ingero/internal/export"
	"ingero/internal/query"
)

// Rows of a keyed table.
const (
	keyedAsked = 1 << 12 // rows that the cluster is asked about together
	keyedRows  = 1 << 16 // rows that are sent together
)

// keyed sends the rows of a table whose sort key tells them apart: those that the cluster lacks. The
// sort key begins with the session and a time.
type keyed struct {
	x    *copier
	t    *table
	s    *query.Session
	sent *uint64 // counts the sent rows
	// While a trace runs, the cluster has exactly what was sent to it.
	has  map[string]bool // keys of the rows that the last pass found
	seen map[string]bool // and of those that this pass finds

	rows  [][]any // not encoded
	empty bool    // the cluster has no row of the session
	asked bool    // empty is known
}

// add adds a row: its values in the order of the table's columns.
func (k *keyed) add(ctx context.Context, values []any) error {
	if k.rows = append(k.rows, values); len(k.rows) < keyedAsked {
		return nil
	}
	return k.encode(ctx)
}

// encode encodes the rows that the cluster lacks.
func (k *keyed) encode(ctx context.Context) error {
	has, err := k.existing(ctx)
	if err != nil {
		return err
	}
	for _, values := range k.rows {
		key := k.t.key(values)
		skip := has[key] || k.seen[key]
		if k.seen != nil {
			k.seen[key] = true
		}
		if skip {
			continue
		}
		k.x.out.room = k.t.append(k.x.out.room[:0], values)
		if err := k.x.out.add(k.x.out.room, k.time(values)/int64(time.Second)); err != nil {
			return err
		}
	}
	k.rows = k.rows[:0]
	return nil
}

// send sends all rows.
func (k *keyed) send(ctx context.Context) error {
	if err := k.encode(ctx); err != nil {
		return err
	}
	n := uint64(k.x.out.rows)
	if err := k.x.out.send(ctx, k.x.c, k.t); err != nil {
		return err
	}
	*k.sent += n
	return nil
}

// time returns a row's time in Unix ns.
func (k *keyed) time(values []any) int64 {
	return values[k.t.index(k.t.keyNames()[0])].(int64)
}

// existing returns the keys of the rows that the cluster has.
func (k *keyed) existing(ctx context.Context) (map[string]bool, error) {
	if k.x.live || len(k.rows) == 0 {
		return k.has, nil
	}
	table := quoteName(k.x.c.o.Database) + "." + k.t.name
	if !k.asked {
		rows, err := k.x.c.query(ctx, 1, "SELECT count() FROM %s WHERE session = %s", table, quote(k.s.ID))
		if err != nil {
			return nil, err
		}
		k.asked, k.empty = true, len(rows) == 0 || rows[0][0] == "0"
	}
	if k.empty {
		return nil, nil
	}
	names := k.t.keyNames()
	times := make([]string, len(k.rows))
	for i, values := range k.rows {
		times[i] = fmt.Sprint(k.time(values))
	}
	fields := slices.Clone(names)
	for i, name := range names {
		if k.t.columns[k.t.index(name)].Type == "String" {
			fields[i] = "hex(" + name + ")"
		}
	}
	rows, err := k.x.c.query(ctx, len(fields), "SELECT %s FROM %s WHERE session = %s AND %s IN (%s)",
		strings.Join(fields, ", "), table, quote(k.s.ID), names[0], strings.Join(times, ", "))
	has := make(map[string]bool, len(rows))
	for _, row := range rows {
		has[strings.Join(row, "\t")] = true
	}
	return has, err
}

// keyNames returns the columns that tell the rows of a session apart, and the version.
func (t *table) keyNames() []string {
	names := strings.Split(t.order, ", ")[1:]
	if t.version != "" {
		names = append(names, t.version)
	}
	return names
}

// key returns a row's values of keyNames, texts in hexadecimal.
func (t *table) key(values []any) string {
	var b strings.Builder
	for i, name := range t.keyNames() {
		if i > 0 {
			b.WriteByte('\t')
		}
		switch v := values[t.index(name)].(type) {
		case string:
			fmt.Fprintf(&b, "%X", v)
		default:
			fmt.Fprint(&b, v)
		}
	}
	return b.String()
}

// index returns the index of a column.
func (t *table) index(name string) int {
	return slices.IndexFunc(t.columns, func(c export.Column) bool { return c.Name == name })
}

// append appends a row of int64, uint64, float64, string, []float64, []uint64 and nil values.
func (t *table) append(b []byte, values []any) []byte {
	for i, v := range values {
		kind, nullable := strings.CutPrefix(t.columns[i].Type, "Nullable(")
		switch {
		case nullable && v == nil:
			b = append(b, 1)
			continue
		case nullable:
			b = append(b, 0)
		}
		b = appendValue(b, strings.TrimSuffix(kind, ")"), v)
	}
	return b
}

func appendValue(b []byte, kind string, v any) []byte {
	wide := func(n uint64) []byte {
		if kind == "UInt32" {
			return binary.LittleEndian.AppendUint32(b, uint32(n))
		}
		return binary.LittleEndian.AppendUint64(b, n)
	}
	switch v := v.(type) {
	case string:
		return appendText(b, strings.ToValidUTF8(v, "?"))
	case int64:
		return wide(uint64(v))
	case uint64:
		return wide(v)
	case float64:
		return wide(math.Float64bits(v))
	case []float64:
		b = binary.AppendUvarint(b, uint64(len(v)))
		for _, n := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(n))
		}
	case []uint64:
		b = binary.AppendUvarint(b, uint64(len(v)))
		for _, n := range v {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
	}
	return b
}
