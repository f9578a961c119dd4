package export

import (
	"github.com/parquet-go/parquet-go"

	"ingero/internal/tick"
)

// whereColumns are the columns that locate a call's process.
var whereColumns = func() (out []column) {
	for i := range tick.WhereFields {
		f := &tick.WhereFields[i]
		if !f.Beside {
			continue
		}
		at, kind := len(out), text
		if f.Number != nil {
			kind = small
		}
		out = append(out, column{f.Name, kind, func(c *call) parquet.Value {
			if p := c.s.procs[c.PID]; p != nil {
				return p.where[at]
			}
			return null
		}})
	}
	return out
}()

// whereValues returns the values of whereColumns.
func whereValues(w *tick.Where) (out []parquet.Value) {
	for i := range tick.WhereFields {
		f := &tick.WhereFields[i]
		switch {
		case !f.Beside:
		case f.Text != nil:
			out = append(out, nameValue(*f.Text(w)))
		default:
			n, known := f.Number(w).Value()
			v := null
			if known {
				v = smallValue(n)
			}
			out = append(out, v)
		}
	}
	return out
}
