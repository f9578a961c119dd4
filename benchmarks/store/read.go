package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"ingero/benchmarks/figure"
	"ingero/internal/query"
)

const answers = 20 // runs of each query; the median counts

// read queries a large recording.
func read(dir string, o *options) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	perTick, each, batches := o.rate, time.Second, 125
	if o.hours > 0 { // few calls per second: wider ticks, or making it would take hours
		each, batches = 10*time.Second, 1
		perTick = int(float64(o.events) / (o.hours * 360))
	}
	s, err := newStream(perTick, each, 1)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "x.db")
	started := time.Now()
	db, err := s.open(path, 0)
	if err != nil {
		return err
	}
	for s.fed() < o.events {
		if err := s.feed(db, batches, nil); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	if err := db.Close(); err != nil {
		return err
	}
	fmt.Printf("read: %d calls over %s, %.2f bytes a call with waits and rollups, made in %s\n", s.fed(), s.now.Sub(began),
		float64(query.Size(path))/float64(s.fed()), time.Since(started).Round(time.Second))
	if err := timed("open", func() error {
		r, err := query.Open(context.Background(), path)
		if err != nil {
			return err
		}
		return r.Close()
	}); err != nil {
		return err
	}
	r, err := query.Open(context.Background(), path)
	if err != nil {
		return err
	}
	return errors.Join(ask(r, s), r.Close())
}

// ask times the queries, and checks that the counts equal those recorded.
func ask(r *query.Reader, s *stream) error {
	ctx := context.Background()
	// Not on a boundary, so that the edges are computed from single calls.
	last := s.now.Add(-time.Hour - 123_456_789)
	if last.Before(began) {
		last = s.now.Add(-s.now.Sub(began)/12 - 123_456_789)
	}
	for _, q := range []struct {
		name string
		f    query.Filter
		g    query.Group
	}{
		{"op_stats, all", query.Filter{}, query.Group{}},
		{"op_stats, all, by pid", query.Filter{}, query.Group{PID: true}},
		{"op_stats, since " + s.now.Sub(last).Round(time.Second).String(), query.Filter{From: last}, query.Group{}},
		{"op_stats, since then by pid", query.Filter{From: last}, query.Group{PID: true}},
	} {
		var n int
		if err := timed(q.name, func() error {
			stats, cover, err := r.OpStats(ctx, q.f, q.g)
			if err == nil && (len(cover.Missing) > 0 || len(cover.Damage) > 0) {
				err = fmt.Errorf("the answer is not whole: %+v", cover)
			}
			n = 0
			for i := range stats {
				n += int(stats[i].Sum.Calls)
			}
			return err
		}); err != nil {
			return err
		}
		if q.f.From.IsZero() && n != s.fed() {
			return fmt.Errorf("%s counts %d calls of %d", q.name, n, s.fed())
		}
	}
	for _, text := range []string{
		fmt.Sprintf("SELECT op, count FROM op_stats(%d, NULL, 'op')", last.UnixNano()),
		fmt.Sprintf("SELECT op, count(*) FROM events WHERE timestamp >= %d GROUP BY op", last.UnixNano()),
	} {
		var rows []string
		if err := timed(text, func() error {
			x, err := r.SQL(ctx, text, query.SQLLimits{Time: 2 * time.Minute})
			if err == nil {
				rows = rows[:0]
				for _, row := range x.Rows {
					rows = append(rows, fmt.Sprint(row...))
				}
			}
			return err
		}); err != nil {
			return err
		}
		fmt.Printf("  %d operations: %s\n", len(rows), slices.Max(rows))
	}
	return nil
}

// timed prints how long f takes, over many runs, or a few if it takes long.
func timed(name string, f func() error) error {
	var took figure.Spread
	for range answers {
		from := time.Now()
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		took = append(took, float64(time.Since(from).Microseconds())/1000)
		if took[0] > 2000 && len(took) == 3 {
			break
		}
	}
	fmt.Printf("  %-40s %s ms\n", name, took.Text("%.1f"))
	figure.Report(name, took, "ms")
	return nil
}
