package query

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"ingero/internal/stats"
)

// merged is a row under construction: each column has a value, two for an average, or a
// distribution.
type merged struct {
	cells    []any
	sketches map[int]*stats.Sketch
}

// Merge merges the answers of several databases. An answer that does not fit the statement is an
// error.
func (p *MergePlan) Merge(answers []*SQLResult) (*SQLResult, error) {
	wide := 0
	for i := range p.items {
		wide = max(wide, p.items[i].at+max(aggregates[p.items[i].how], 1))
	}
	out := &SQLResult{}
	rows := map[string]*merged{}
	var keys []string
	for _, a := range answers {
		if len(a.Columns) != wide {
			return nil, fmt.Errorf("an answer has %d columns, not %d", len(a.Columns), wide)
		}
		if out.Columns == nil {
			out.Columns = p.names(a.Columns)
		}
		out.Cut = cmp.Or(out.Cut, a.Cut)
		for _, row := range a.Rows {
			if len(row) != wide {
				return nil, fmt.Errorf("a row has %d values, not %d", len(row), wide)
			}
			k := p.key(row)
			m := rows[k]
			if m == nil {
				m = &merged{cells: make([]any, wide), sketches: map[int]*stats.Sketch{}}
				rows[k] = m
				keys = append(keys, k)
			}
			if err := p.add(m, row); err != nil {
				return nil, err
			}
		}
	}
	for _, k := range keys {
		out.Rows = append(out.Rows, p.row(rows[k]))
	}
	p.sort(out)
	return out, nil
}

// names returns the column names; from has the databases' names.
func (p *MergePlan) names(from []string) (out []string) {
	for i := range p.items {
		out = append(out, cmp.Or(p.items[i].name, from[p.items[i].at]))
	}
	return out
}

// key returns a row's group.
func (p *MergePlan) key(row []any) string {
	var b strings.Builder
	for i := range p.items {
		if x := &p.items[i]; x.how == "" {
			v := row[x.at]
			fmt.Fprintf(&b, "%T %d %v ", v, len(fmt.Sprint(v)), v)
		}
	}
	return b.String()
}

// add adds a database's row.
func (p *MergePlan) add(m *merged, row []any) error {
	for i := range p.items {
		x := &p.items[i]
		to, v := &m.cells[x.at], row[x.at]
		switch x.how {
		case "":
			*to = v
		case "min", "max":
			c := compareValues(v, *to)
			if v != nil && (*to == nil || x.how == "min" && c < 0 || x.how == "max" && c > 0) {
				*to = v
			}
		case "percentile":
			if err := m.distribution(x.at, v); err != nil {
				return err
			}
		default:
			sum, err := addValues(*to, v)
			if err == nil && x.how == "avg" {
				m.cells[x.at+1], err = addValues(m.cells[x.at+1], row[x.at+1])
			}
			if err != nil {
				return err
			}
			*to = sum
		}
	}
	return nil
}

func (m *merged) distribution(at int, v any) error {
	if v == nil {
		return nil
	}
	b, ok := v.([]byte)
	if !ok {
		return fmt.Errorf("a value of type %T is not a sketch", v)
	}
	var s stats.Sketch
	if err := s.UnmarshalBinary(b); err != nil {
		return err
	}
	if m.sketches[at] == nil {
		m.sketches[at] = &stats.Sketch{}
	}
	m.sketches[at].Merge(&s)
	return nil
}

// row returns the answer's row.
func (p *MergePlan) row(m *merged) (out []any) {
	for i := range p.items {
		x := &p.items[i]
		v := m.cells[x.at]
		switch x.how {
		case "avg":
			sum, _ := numeric(v)
			if n, _ := numeric(m.cells[x.at+1]); n > 0 {
				v = sum / n
			} else {
				v = nil
			}
		case "percentile":
			v = nil
			if s := m.sketches[x.at]; s != nil && s.Count() > 0 {
				v = s.Quantile(x.q)
			}
		}
		if unit := map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}[x.unit]; unit > 0 && v != nil {
			if n, ok := numeric(v); ok {
				v = n / float64(unit)
			}
		}
		out = append(out, v)
	}
	return out
}

// sort orders the rows, and drops those beyond the limit.
func (p *MergePlan) sort(r *SQLResult) {
	if len(p.order) > 0 {
		slices.SortStableFunc(r.Rows, func(a, b []any) int {
			for _, o := range p.order {
				c := compareValues(a[o.item], b[o.item])
				if o.desc {
					c = -c
				}
				if c != 0 {
					return c
				}
			}
			return 0
		})
	}
	if p.limit >= 0 && len(r.Rows) > p.limit {
		r.Rows = r.Rows[:p.limit]
	}
}

func numeric(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// addValues adds two numbers, ignoring NULL. A sum that overflows an integer becomes a float.
func addValues(a, b any) (any, error) {
	x, xInt := a.(int64)
	y, yInt := b.(int64)
	switch {
	case a == nil:
		if _, ok := numeric(b); !ok && b != nil {
			return nil, fmt.Errorf("a value of type %T is no number", b)
		}
		return b, nil
	case b == nil:
		return a, nil
	case xInt && yInt:
		if sum, _ := bits.Add64(uint64(x), uint64(y), 0); x >= 0 == (y >= 0) && int64(sum) >= 0 != (x >= 0) {
			return float64(x) + float64(y), nil
		}
		return x + y, nil
	}
	m, ok1 := numeric(a)
	n, ok2 := numeric(b)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("a value of type %T is no number", b)
	}
	return m + n, nil
}

// compareValues orders values as SQLite does: NULL, numbers, text, bytes.
func compareValues(a, b any) int {
	rank := func(v any) int {
		switch v.(type) {
		case nil:
			return 0
		case int64, float64:
			return 1
		case string:
			return 2
		}
		return 3
	}
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch x := a.(type) {
	case string:
		return strings.Compare(x, b.(string))
	case []byte:
		return bytes.Compare(x, b.([]byte))
	case int64:
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y)
		}
	}
	x, _ := numeric(a)
	y, _ := numeric(b)
	if math.IsNaN(x) || math.IsNaN(y) {
		return 0
	}
	return cmp.Compare(x, y)
}
