package export

import (
	"context"
	"encoding/binary"

	"github.com/parquet-go/parquet-go"

	"ingero/internal/query"
	"ingero/pkg/events"
)

// Column is a column of calls in ClickHouse.
type Column struct{ Name, Type string }

// keys are the columns that are never NULL in ClickHouse.
var keys = map[string]bool{"node": true, "session": true, "source": true, "op": true, "pid": true, "tid": true, "timestamp": true, "nested": true, "weight": true}

// nullable reports which columns can be NULL.
var nullable = func() []bool {
	out := make([]bool, len(columns))
	for i := range columns {
		out[i] = !keys[columns[i].name]
	}
	return out
}()

// binaryTypes are the ClickHouse types of columns.
var binaryTypes = [...]string{text: "String", number: "Int64", natural: "UInt64", small: "UInt32", integer: "Int32", truth: "UInt8"}

// BinaryColumns are the columns of [Rows], in order: the call's number in its session, and the
// columns of other exports without the id, which is derived from session and number.
func BinaryColumns() []Column {
	out := []Column{{"number", "UInt64"}}
	for i, c := range columns[1:] {
		t := binaryTypes[c.kind]
		if nullable[i+1] {
			t = "Nullable(" + t + ")"
		}
		out = append(out, Column{c.name, t})
	}
	return out
}

// Rows encodes a session's calls as ClickHouse's RowBinary.
type Rows struct{ c call }

// NewRows reads the current common values of a session's rows.
func NewRows(ctx context.Context, r *query.Reader, session *query.Session) (*Rows, error) {
	s, err := newSession(ctx, r, session)
	return &Rows{call{s: s}}, err
}

// Append appends a row. number is the call's in its session.
func (r *Rows) Append(b []byte, e *events.Call, number uint64) []byte {
	r.c.Call, r.c.number = e, number
	b = binary.LittleEndian.AppendUint64(b, number)
	for i := 1; i < len(columns); i++ {
		c := &columns[i]
		b = appendBinary(b, c.kind, nullable[i], c.value(&r.c))
	}
	return b
}

// appendBinary appends a value. An unknown value that cannot be NULL is 0 or empty.
func appendBinary(b []byte, k kind, mayBeNull bool, v parquet.Value) []byte {
	null := v.IsNull()
	switch {
	case mayBeNull && null:
		return append(b, 1)
	case mayBeNull:
		b = append(b, 0)
	}
	switch k {
	case text:
		s := []byte(nil)
		if !null {
			s = v.ByteArray()
		}
		return append(binary.AppendUvarint(b, uint64(len(s))), s...)
	case truth:
		if !null && v.Boolean() {
			return append(b, 1)
		}
		return append(b, 0)
	case small, integer:
		n := uint32(0)
		if !null {
			n = uint32(v.Int32())
		}
		return binary.LittleEndian.AppendUint32(b, n)
	}
	n := uint64(0)
	if !null {
		n = uint64(v.Int64())
	}
	return binary.LittleEndian.AppendUint64(b, n)
}
