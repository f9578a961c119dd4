package query

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// maxInference bounds the returned reads of inference servers: the latest count.
const maxInference = 1 << 14

// Inference returns the reads of inference servers in the filter's window, ordered by time. It
// ignores the filter's operations.
func (r *Reader) Inference(ctx context.Context, f Filter) ([]tick.Inference, error) {
	var out []tick.Inference
	s, within, err := r.labelled(ctx, f)
	if err != nil {
		return nil, err
	}
	from, to := bounds(f)
	err = r.rows(ctx, func(rows *sql.Rows) error {
		x, err := scanInference(rows)
		since := x.Since
		if since.IsZero() {
			since = x.Time
		}
		if f.wants(x.PID) && within.Contains(x.PID, since.UnixNano(), x.Time.UnixNano()) {
			out = append(out, x)
		}
		return err
	}, `SELECT * FROM (SELECT time_ns, pid, url, coalesce(since_ns, 0), engine, model, why, remedy, `+store.InferenceColumns()+`
		FROM inference WHERE session = ? AND time_ns >= ? AND time_ns < ? ORDER BY time_ns DESC LIMIT ?) ORDER BY time_ns, pid, url`, s.id, from, to, maxInference)
	if err != nil {
		return nil, fmt.Errorf("read the inference servers of session %s: %w", s.ID, err)
	}
	return out, nil
}

func scanInference(rows *sql.Rows) (x tick.Inference, err error) {
	var at, since int64
	to := []any{&at, &x.PID, &x.URL, &since, &x.Engine, &x.Model, &x.Why, &x.Do}
	for i := range tick.InferenceNumbers {
		to = append(to, tick.InferenceNumbers[i].Value(&x))
	}
	durations := make([]sql.NullString, len(tick.InferenceDurations))
	for i := range durations {
		to = append(to, &durations[i])
	}
	if err := rows.Scan(to...); err != nil {
		return x, err
	}
	x.Time, x.Since = segment.FromUnixNano(at), segment.FromUnixNano(since)
	for i, text := range durations {
		if !text.Valid {
			continue
		}
		d := &tick.Durations{}
		if err := json.Unmarshal([]byte(text.String), d); err != nil {
			return x, err
		}
		*tick.InferenceDurations[i].Value(&x) = d
	}
	return x, nil
}
