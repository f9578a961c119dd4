package export

import (
	"encoding/csv"
	"io"

	"github.com/parquet-go/parquet-go"
)

// csvSink writes rows as lines.
type csvSink struct {
	w      *csv.Writer
	fields []string
	room   []byte
}

func newCSV(w io.Writer) (*csvSink, error) {
	s := &csvSink{w: csv.NewWriter(w), fields: make([]string, len(columns))}
	for i := range columns {
		s.fields[i] = columns[i].name
	}
	return s, s.w.Write(s.fields)
}

func (s *csvSink) write(row []parquet.Value) error {
	for i, v := range row {
		s.room = appendValue(s.room[:0], columns[i].kind, v)
		s.fields[i] = string(s.room)
	}
	return s.w.Write(s.fields)
}

func (s *csvSink) close() error {
	s.w.Flush()
	return s.w.Error()
}
