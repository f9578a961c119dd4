package export

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"ingero/internal/query"
	"ingero/pkg/events"
)

// Result describes what was written.
type Result struct {
	Calls    uint64 // rows
	Sessions int    // sessions with rows
	Coverage query.Coverage
}

// Progress is called at intervals with the number of calls written so far; nil: none.
type Progress func(calls uint64)

// progressEvery is the number of calls between two calls of Progress.
const progressEvery = 1 << 16

// sink accepts rows. A row's values are in the order of columns, valid until put returns.
type sink interface {
	write(row []parquet.Value) error
	close() error
}

// Parquet writes the matching calls as a Parquet file, with zstd.
func Parquet(ctx context.Context, w io.Writer, r *query.Reader, f query.Filter, p Progress) (*Result, error) {
	return stream(ctx, newParquet(w), r, f, p)
}

// CSV writes the matching calls as RFC 4180 lines after a header line.
func CSV(ctx context.Context, w io.Writer, r *query.Reader, f query.Filter, p Progress) (*Result, error) {
	out, err := newCSV(w)
	if err != nil {
		return nil, err
	}
	return stream(ctx, out, r, f, p)
}

// stream writes the matching calls to a sink, and closes it.
func stream(ctx context.Context, out sink, r *query.Reader, f query.Filter, p Progress) (*Result, error) {
	res := &Result{}
	sessions, err := r.Chosen(ctx, f)
	if err != nil {
		return nil, err
	}
	for i := range sessions {
		if err := one(ctx, out, r, &sessions[i], f, p, res); err != nil {
			return nil, err
		}
	}
	return res, out.close()
}

// one writes a session's matching calls.
func one(ctx context.Context, out sink, r *query.Reader, session *query.Session, f query.Filter, p Progress, res *Result) error {
	s, err := newSession(ctx, r, session)
	if err != nil {
		return err
	}
	var failed error
	row := make([]parquet.Value, len(columns))
	c := call{s: s}
	before := res.Calls
	f.Session = session.ID
	cover, err := r.Each(ctx, f, func(_ *query.Session, e *events.Call, number uint64) bool {
		c.Call, c.number = e, number
		for i := range columns {
			row[i] = columns[i].value(&c)
		}
		if failed = out.write(row); failed != nil {
			return false
		}
		if res.Calls++; p != nil && res.Calls%progressEvery == 0 {
			p(res.Calls)
		}
		return true
	})
	if res.Calls > before {
		res.Sessions++
	}
	res.Coverage.Add(cover)
	return errors.Join(failed, err)
}

// newSession reads the common values of a session's rows.
func newSession(ctx context.Context, r *query.Reader, sess *query.Session) (*session, error) {
	sum, err := r.Summary(ctx, query.Filter{Session: sess.ID})
	if err != nil {
		return nil, err
	}
	s := &session{Session: sess, id: []byte(sess.ID), node: []byte(strings.ToValidUTF8(sess.Node, "?")), procs: map[uint32]*process{}, readable: map[string]parquet.Value{}}
	if s.funcs, err = r.Functions(ctx, sess); err != nil {
		return nil, err
	}
	for i := range sum.Processes {
		p := &sum.Processes[i]
		s.procs[p.PID] = &process{nameValue(p.Comm), nameValue(p.Cgroup), whereValues(&p.Where)}
	}
	return s, nil
}

// nameValue returns a name, NULL if unknown.
func nameValue(s string) parquet.Value {
	if s == "" {
		return null
	}
	return textValue(s)
}

// goValue returns a column's value in Go: nil, int64, bool, or string. Unsigned 64-bit values keep
// their bits as signed ones.
func goValue(k kind, v parquet.Value) any {
	switch {
	case v.IsNull():
		return nil
	case k == text:
		return string(v.ByteArray())
	case k == truth:
		return v.Boolean()
	case k == small:
		return int64(uint32(v.Int32()))
	case k == integer:
		return int64(v.Int32())
	}
	return v.Int64()
}

// appendValue appends a value as text, NULL as nothing.
func appendValue(b []byte, k kind, v parquet.Value) []byte {
	switch {
	case v.IsNull():
		return b
	case k == text:
		return append(b, v.ByteArray()...)
	case k == truth:
		return strconv.AppendBool(b, v.Boolean())
	case k == natural:
		return strconv.AppendUint(b, uint64(v.Int64()), 10)
	case k == small:
		return strconv.AppendUint(b, uint64(uint32(v.Int32())), 10)
	case k == integer:
		return strconv.AppendInt(b, int64(v.Int32()), 10)
	}
	return strconv.AppendInt(b, v.Int64(), 10)
}
