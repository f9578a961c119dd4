package export

import (
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Rows buffered until a page, and a row group, is written.
const (
	parquetBatch = 512
	parquetGroup = 1 << 18
)

// schema is the file's schema.
var schema = parquet.NewSchema("events", ordered{parquet.Group(nodes())})

// ordered is a group with fields in the order of the columns. A [parquet.Group] sorts them by name.
type ordered struct{ parquet.Group }

// Fields implements [parquet.Node].
func (o ordered) Fields() []parquet.Field {
	fields := o.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int { return place(a.Name()) - place(b.Name()) })
	return fields
}

func place(name string) int {
	return slices.IndexFunc(columns, func(c column) bool { return c.name == name })
}

// nodes returns the columns' types. Numbers grow slowly or repeat, and texts repeat.
func nodes() map[string]parquet.Node {
	all := map[string]parquet.Node{}
	for _, c := range columns {
		var n parquet.Node
		switch c.kind {
		case text:
			n = parquet.String()
			if c.name == "id" {
				n = parquet.Encoded(n, &parquet.DeltaByteArray)
			} else {
				n = parquet.Encoded(n, &parquet.RLEDictionary)
			}
		case number:
			n = parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked)
		case natural:
			n = parquet.Encoded(parquet.Uint(64), &parquet.RLEDictionary)
		case small:
			n = parquet.Encoded(parquet.Uint(32), &parquet.RLEDictionary)
		case integer:
			n = parquet.Encoded(parquet.Int(32), &parquet.DeltaBinaryPacked)
		case truth:
			n = parquet.Leaf(parquet.BooleanType)
		}
		all[c.name] = parquet.Optional(n)
	}
	return all
}

// parquetSink writes rows in batches.
type parquetSink struct {
	w    *parquet.GenericWriter[any]
	rows []parquet.Row
	text []byte // of the values in rows
}

func newParquet(w io.Writer) *parquetSink {
	return &parquetSink{w: parquet.NewGenericWriter[any](w, schema, parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.MaxRowsPerRowGroup(parquetGroup))}
}

func (p *parquetSink) write(row []parquet.Value) error {
	if len(p.rows) < cap(p.rows) {
		p.rows = p.rows[:len(p.rows)+1]
	} else {
		p.rows = append(p.rows, make(parquet.Row, 0, len(row)))
	}
	last := &p.rows[len(p.rows)-1]
	*last = (*last)[:0]
	for i, v := range row {
		level := 1
		switch {
		case v.IsNull():
			level = 0
		case columns[i].name == "id": // the others stay unchanged
			from := len(p.text)
			p.text = append(p.text, v.ByteArray()...)
			v = parquet.ByteArrayValue(p.text[from:])
		}
		*last = append(*last, v.Level(0, level, i))
	}
	if len(p.rows) < parquetBatch {
		return nil
	}
	return p.flush()
}

func (p *parquetSink) flush() error {
	_, err := p.w.WriteRows(p.rows)
	p.rows, p.text = p.rows[:0], p.text[:0]
	return err
}

func (p *parquetSink) close() error {
	if err := p.flush(); err != nil {
		return err
	}
	return p.w.Close()
}
