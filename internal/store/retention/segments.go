package retention

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/store/log"
	"ingero/internal/store/segment"
)

// Segment is a finished segment.
type Segment struct {
	segment.Info
	Last time.Time // its last write
}

// Segments are the finished segments of a database.
type Segments struct {
	All     []Segment    // oldest first
	Sealing segment.Info // the segment being sealed
	dir     *os.File
}

// List finds the existing segments, oldest first. Copied files may all have the same time; a
// session's segments are in order nevertheless.
func List(dir *os.File, now time.Time) (*Segments, error) {
	all, err := segment.List(log.Dir(dir.Name()))
	if err != nil {
		return nil, err
	}
	kept := &Segments{dir: dir}
	last := Segment{}
	for _, s := range all {
		info, err := os.Lstat(filepath.Join(dir.Name(), s.Name))
		if err != nil {
			continue
		}
		// Ages are fixed now and do not follow later clock steps. A time in the future comes from a
		// wrong clock, and no segment is older than its predecessor.
		k := Segment{s, now.Add(min(info.ModTime().Sub(now), 0))}
		if last.Session == k.Session && k.Last.Before(last.Last) {
			k.Last = last.Last
		}
		kept.All, last = append(kept.All, k), k
	}
	slices.SortStableFunc(kept.All, func(a, b Segment) int {
		return cmp.Or(a.Last.Compare(b.Last), segment.Compare(a.Info, b.Info))
	})
	return kept, nil
}

// DeleteLeftovers deletes what writers left that were killed while they sealed or copied a segment:
// incomplete files, and unsealed segments that were sealed.
func (s *Segments) DeleteLeftovers() {
	all, err := log.Dir(s.dir.Name()).List()
	if err != nil {
		return
	}
	for _, f := range all {
		_, part := segment.Parse(strings.TrimSuffix(f.Name, ".tmp"))
		part = part && strings.HasSuffix(f.Name, ".tmp")
		if i, ok := segment.Parse(f.Name); ok && !i.Sealed {
			name := segment.Name(i.Session, i.Seq, true)
			part = slices.ContainsFunc(s.All, func(k Segment) bool { return k.Name == name })
		}
		if part || strings.HasPrefix(f.Name, ".") && strings.HasSuffix(f.Name, ".part") {
			_ = unix.Unlinkat(int(s.dir.Fd()), f.Name, 0)
		}
	}
}

// Bytes returns the size of the segments.
func (s *Segments) Bytes() (n int64) {
	for i := range s.All {
		n += s.All[i].Bytes
	}
	return n
}

// unsealed returns the size of the segments that await sealing, which temporarily takes as much
// again. The segment being sealed counts even if it was deleted meanwhile.
func (s *Segments) unsealed() (n int64) {
	if !slices.ContainsFunc(s.All, func(k Segment) bool { return k.Name == s.Sealing.Name }) {
		n = s.Sealing.Bytes
	}
	for i := range s.All {
		if !s.All[i].Sealed {
			n += s.All[i].Bytes
		}
	}
	return n
}

// Free deletes the oldest segments while their last write was before from, or while they exceed
// room bytes together with what sealing takes. Readers with an open segment are not disturbed.
func (s *Segments) Free(from time.Time, room int64) {
	for len(s.All) > 0 && (s.All[0].Last.Before(from) || s.Bytes()+s.unsealed() > room) {
		if err := unix.Unlinkat(int(s.dir.Fd()), s.All[0].Name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return
		}
		s.All = slices.Delete(s.All, 0, 1)
	}
}
