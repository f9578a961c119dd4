package clickhouse

import (
	"context"
	"errors"
	"math"
	"time"

	"ingero/internal/export"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// factsPart is the period of reads and labels that is in memory at a time.
const factsPart = 30 * time.Minute

// facts sends the reads of inference servers, labels and requests. While a trace runs it does so at the
// pace of rollups, as it reads the log once more.
func (x *copier) facts(ctx context.Context, s *query.Session, last bool) error {
	if x.live && !last && s.Updated.Sub(x.sentUntil) < rollupEvery {
		return nil
	}
	if err := x.inference(ctx, s); err != nil {
		return err
	}
	if err := x.labels(ctx, s); err != nil {
		return err
	}
	if err := x.requests(ctx, s); err != nil {
		return err
	}
	x.sentUntil = s.Updated
	return nil
}

// keyed prepares the sending of a table's rows.
func (x *copier) keyed(s *query.Session, name string, sent *uint64) *keyed {
	x.out.clear()
	return &keyed{x: x, t: tableNamed(name), s: s, sent: sent}
}

// parts calls add for the parts of a session's time that may have rows to send, and then sends them. The
// database may get rows until a minute after their time: while a trace runs, the last minute is read
// again, and rows that the last pass found are left out.
func (x *copier) parts(ctx context.Context, s *query.Session, k *keyed, add func(query.Filter) error) error {
	if x.live {
		k.has, k.seen = x.seen[k.t.name], map[string]bool{}
	}
	from, to := s.Started.Add(-rollupLate), s.Updated.Add(rollupLate)
	if back := x.sentUntil.Add(-rollupLate); back.After(from) {
		from = back
	}
	if x.f.From.After(from) {
		from = x.f.From
	}
	if !x.f.To.IsZero() && x.f.To.Before(to) {
		to = x.f.To
	}
	for ; from.Before(to); from = from.Add(factsPart) {
		f := x.f
		if f.From, f.To = from, from.Add(factsPart); f.To.After(to) {
			f.To = to
		}
		if err := add(f); err != nil {
			return err
		}
	}
	if err := k.send(ctx); err != nil {
		return err
	}
	if x.live {
		x.seen[k.t.name] = k.seen
	}
	return nil
}

func (x *copier) inference(ctx context.Context, s *query.Session) error {
	k := x.keyed(s, "inference", &x.res.Reads)
	return x.parts(ctx, s, k, func(f query.Filter) error {
		reads, err := x.r.Inference(ctx, f)
		for i := 0; i < len(reads) && err == nil; i++ {
			err = k.add(ctx, inferenceRow(s, &reads[i]))
		}
		return err
	})
}

func (x *copier) labels(ctx context.Context, s *query.Session) error {
	k := x.keyed(s, "labels", &x.res.Labels)
	return x.parts(ctx, s, k, func(f query.Filter) error {
		spans, err := x.r.LabelSpans(ctx, f)
		for i := 0; i < len(spans) && err == nil; i++ {
			l := &spans[i]
			if x.live || l.From >= f.From.UnixNano() { // else it is in an earlier part
				err = k.add(ctx, labelRow(s, l))
			}
		}
		return err
	})
}

// requests sends the requests of the ticks since the last one whose requests are sent.
func (x *copier) requests(ctx context.Context, s *query.Session) error {
	k := x.keyed(s, "requests", &x.res.Requests)
	last := x.requested
	var failed error
	cover, err := x.r.Requests(ctx, s, x.f, x.requested, func(at time.Time, list []tick.Request) bool {
		if x.live && at.IsZero() { // its tick is not written yet
			return true
		}
		for i := 0; i < len(list) && failed == nil; i++ {
			failed = k.add(ctx, query.AppendRequest(nil, s, &list[i]))
		}
		if last = at; failed == nil && x.out.rows >= keyedRows {
			if failed = k.send(ctx); failed == nil {
				x.requested = last
			}
		}
		return failed == nil
	})
	x.cover(&query.Coverage{Damage: cover.Damage})
	if errors.Is(err, query.ErrNoCalls) { // calls reports it
		err = nil
	}
	if err == nil {
		err = failed
	}
	if err == nil {
		err = k.send(ctx)
	}
	if err != nil {
		return err
	}
	if read := s.Updated.Add(-rollupLate); x.live && read.After(last) { // the log had all ticks until then
		last = read
	}
	x.requested = last
	return nil
}

// requestColumns are the columns of requests in SQL. Those of the sort key cannot be NULL.
func requestColumns() (out []export.Column) {
	keys := map[string]string{"node": "String", "session": "String", "timestamp": "Int64", "pid": "UInt32", "tid": "UInt32", "port": "UInt32", "peer": "String"}
	for _, c := range query.RequestColumns() {
		kind := keys[c.Name]
		switch {
		case kind != "":
		case c.Type == "TEXT":
			kind = "Nullable(String)"
		default:
			kind = "Nullable(Int64)"
		}
		out = append(out, export.Column{Name: c.Name, Type: kind})
	}
	return out
}

// inferenceColumns are the columns of reads. A kind of durations has their number and sum, and a
// histogram as two arrays.
func inferenceColumns() []export.Column {
	out := []export.Column{{Name: "session", Type: "String"}, {Name: "node", Type: "String"}, {Name: "time_ns", Type: "Int64"}, {Name: "pid", Type: "UInt32"},
		{Name: "url", Type: "String"}, {Name: "since_ns", Type: "Nullable(Int64)"}, {Name: "engine", Type: "String"}, {Name: "model", Type: "String"},
		{Name: "why", Type: "String"}, {Name: "remedy", Type: "String"}}
	for i := range tick.InferenceNumbers {
		out = append(out, export.Column{Name: tick.InferenceNumbers[i].Name, Type: "Nullable(Float64)"})
	}
	for i := range tick.InferenceDurations {
		name := tick.InferenceDurations[i].Name
		out = append(out, export.Column{Name: name + "_count", Type: "Nullable(UInt64)"}, export.Column{Name: name + "_sum", Type: "Nullable(Float64)"},
			export.Column{Name: name + "_bucket", Type: "Array(Float64)"}, export.Column{Name: name + "_bucket_count", Type: "Array(UInt64)"})
	}
	return out
}

// inferenceRow returns a row in the order of inferenceColumns.
func inferenceRow(s *query.Session, r *tick.Inference) []any {
	var since any
	if !r.Since.IsZero() {
		since = r.Since.UnixNano()
	}
	out := []any{s.ID, s.Node, r.Time.UnixNano(), int64(r.PID), r.URL, since, r.Engine, r.Model, r.Why, r.Do}
	for i := range tick.InferenceNumbers {
		var v any
		if n := *tick.InferenceNumbers[i].Value(r); n != nil {
			v = *n
		}
		out = append(out, v)
	}
	for i := range tick.InferenceDurations {
		d := *tick.InferenceDurations[i].Value(r)
		if d == nil {
			out = append(out, nil, nil, []float64(nil), []uint64(nil))
			continue
		}
		bounds, counts := make([]float64, len(d.Buckets)), make([]uint64, len(d.Buckets))
		for j, b := range d.Buckets {
			if bounds[j], counts[j] = b.UpTo, b.Count; b.UpTo <= b.Over {
				bounds[j] = math.Inf(1)
			}
		}
		out = append(out, d.Count, d.Sum, bounds, counts)
	}
	return out
}

// labelRow returns a row in the order of the table's columns.
func labelRow(s *query.Session, l *tick.LabelSpan) []any {
	return []any{s.ID, s.Node, int64(l.PID), int64(l.TID), l.Key, l.From, l.Value, uint64(l.To)}
}
