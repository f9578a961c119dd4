package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"ingero/internal/query"
	"ingero/pkg/events"
)

// bound records an hour with a size limit, on a clock that runs as fast as it can, and checks the
// files' size after each batch. It then queries the counts of all calls, most of which have been
// removed.
func bound(dir string, o *options) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := newStream(max(o.rate/15, 1), time.Second, 1)
	if err != nil {
		return err
	}
	most := o.cap * 1e6
	path := filepath.Join(dir, "x.db")
	db, err := s.open(path, most)
	if err != nil {
		return err
	}
	var largest int64
	for s.now.Sub(began) < time.Hour {
		if err := s.feed(db, 4, func() error { largest = max(largest, query.Size(path)); return nil }); err != nil {
			return errors.Join(err, db.Close())
		}
		largest = max(largest, query.Size(path))
	}
	if err := db.Close(); err != nil {
		return err
	}
	end := query.Size(path)
	r, err := query.Open(context.Background(), path)
	if err != nil {
		return err
	}
	kept, err := compare(r, s)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	fmt.Printf("cap: %d calls in an hour, %d kept; the bound is %d bytes, at most %+d bytes beyond it (%+.3f %%), %+.2f %% at the end; rollups count all\n",
		s.fed(), kept, most, largest-most, 100*float64(largest-most)/float64(most), 100*float64(end-most)/float64(most))
	return nil
}

// compare checks that the counts of each operation and process equal those fed. It returns how many
// calls are kept.
func compare(r *query.Reader, s *stream) (kept int, err error) {
	all, _, err := r.OpStats(context.Background(), query.Filter{}, query.Group{PID: true})
	if err != nil {
		return 0, err
	}
	if len(all) != len(s.total) {
		return 0, fmt.Errorf("%d operations of processes are counted, of %d", len(all), len(s.total))
	}
	for i := range all {
		a := &all[i]
		want := s.total[key{a.PID, a.Op}]
		if want == nil || a.Sum != want.Counts || a.Dur.Count() != want.Dur.Count() || a.Dur.Sum() != want.Dur.Sum() {
			return 0, fmt.Errorf("%v of %d counts %+v, was fed %+v", a.Op, a.PID, a.Sum, want)
		}
	}
	_, err = r.Each(context.Background(), query.Filter{}, func(*query.Session, *events.Call, uint64) bool { kept++; return true })
	return kept, err
}
