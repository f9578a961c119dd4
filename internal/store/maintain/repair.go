package maintain

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/wire"
)

// Repair repairs the database at path, and loses nothing that is readable: it renames damaged files
// and keeps them. It creates files for owner (nil: this process's user). It reports the number of
// calls read so far to calls, which may be nil. An interrupted repair can be run again. It returns
// a [store.LockedError] if a process is recording.
func Repair(ctx context.Context, path string, owner *store.Owner, calls func(uint64)) (*wire.Repaired, error) {
	k, err := segment.NewChecker(calls)
	if err != nil {
		return nil, err
	}
	out := &wire.Repaired{}
	err = store.Hold(path, owner, func(h *store.Held) error {
		r := &repairer{h, k, out}
		for _, step := range []func(context.Context) error{r.leftovers, r.segments, r.seal, r.rows} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// repairer repairs a database whose lock it holds.
type repairer struct {
	*store.Held
	*segment.Checker
	out *wire.Repaired
}

func (r *repairer) files() log.Dir { return log.Dir(r.Dir.Name()) }

func (r *repairer) path(name string) string { return filepath.Join(r.Dir.Name(), name) }

// leftovers deletes what killed processes left.
func (r *repairer) leftovers(context.Context) error {
	all, err := r.files().List()
	if err != nil {
		return err
	}
	for _, f := range all {
		name, rewritten := strings.CutSuffix(f.Name, rewrittenSuffix)
		if rewritten && !exists(r.path(name)) { // complete: the damaged one is renamed already
			if err := r.Rename(f.Name, name); err != nil {
				return err
			}
			continue
		}
		remove := isLeftover(f.Name)
		if s, ok := segment.Parse(f.Name); ok && !s.Sealed {
			if remove, err = r.twin(s, f.Bytes); err != nil {
				return err
			}
		}
		if remove {
			if err := r.Unlink(f.Name); err != nil {
				return err
			}
			r.out.Removed = append(r.out.Removed, f.Name)
		}
	}
	return nil
}

// twin reports whether an unsealed segment is unnecessary: it is empty, or its sealed form exists
// and is intact. It moves a damaged sealed form out of the way.
func (r *repairer) twin(s segment.Info, size int64) (bool, error) {
	if size == 0 {
		return true, nil
	}
	sealed := segment.Info{Name: segment.Name(s.Session, s.Seq, true), Session: s.Session, Seq: s.Seq, Sealed: true}
	if !exists(r.path(sealed.Name)) {
		return false, nil
	}
	c, err := r.look(sealed, nil)
	if err != nil || c.Err == nil && len(c.Bad) == 0 && c.Index == "" {
		return err == nil, err
	}
	return false, r.keep(sealed.Name)
}

// keep renames a damaged file.
func (r *repairer) keep(name string) error {
	bad := free(r.Dir.Name(), name+badSuffix)
	r.out.Kept = append(r.out.Kept, r.path(bad))
	return r.Rename(name, bad)
}

// look checks a segment.
func (r *repairer) look(s segment.Info, head *segment.Head) (_ *segment.Checked, err error) {
	file, err := r.Existing(s.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return r.Check(s, file, info.Size(), head)
}

// segments rewrites damaged segments, and truncates torn ones.
func (r *repairer) segments(ctx context.Context) error {
	return eachSession(r.files(), func(segs []segment.Info) error { return r.session(ctx, segs) })
}

func (r *repairer) session(ctx context.Context, segs []segment.Info) error {
	var all []*segment.Checked
	for _, s := range segs {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := r.look(s, nil)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	for i, c := range all {
		if c.Err == nil || c.Newer {
			continue
		}
		if head := headOf(all, i); head != nil {
			again, err := r.look(c.Info, head)
			if err != nil {
				return err
			}
			all[i] = again
		}
	}
	segment.Fit(all)
	for _, c := range all {
		if err := r.one(c); err != nil {
			return err
		}
	}
	return nil
}

// headOf reconstructs a segment's head from the session's other segments; it returns nil if no
// other is readable.
func headOf(all []*segment.Checked, i int) *segment.Head {
	for _, c := range all {
		if c.Err != nil {
			continue
		}
		head := c.Head
		head.Seq, head.First = all[i].Seq, 0
		switch {
		case i > 0 && all[i-1].Head.ID != "" && all[i-1].Seq == head.Seq-1:
			head.First = all[i-1].Next()
		case i+1 < len(all) && all[i+1].Err == nil && head.Seq > 0: // approximate: size unknown
			head.First = all[i+1].Head.First
		}
		return &head
	}
	return nil
}

// one repairs a segment.
func (r *repairer) one(c *segment.Checked) error {
	switch {
	case c.Newer:
		return nil
	case c.Head.ID == "":
		r.out.Lost = append(r.out.Lost, wire.Damage{File: c.Name, Bytes: c.Bytes, Calls: -1, What: "its beginning cannot be read"})
		return r.keep(c.Name)
	case len(c.Bad) > 0 || c.Index != "":
		return r.rewrite(c)
	case c.Torn > 0:
		file, err := r.Open(c.Name, 0)
		if err != nil {
			return err
		}
		info, err := file.Stat()
		if err == nil {
			err = errors.Join(file.Truncate(c.Intact), file.Sync(), age(file.Name(), info.ModTime()))
		}
		r.out.Cut = append(r.out.Cut, wire.Damage{File: c.Name, At: c.Intact, Bytes: c.Torn, What: "its end was truncated"})
		return errors.Join(err, file.Close())
	}
	return nil
}

// rewrite replaces a segment by its readable parts.
func (r *repairer) rewrite(c *segment.Checked) (err error) {
	src, err := r.Existing(c.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	temp := c.Name + rewrittenSuffix
	dst, err := r.Open(temp, unix.O_EXCL)
	if err != nil {
		return err
	}
	err = segment.Rewrite(dst, src, c, info.Size())
	if err == nil {
		err = errors.Join(dst.Sync(), age(dst.Name(), info.ModTime()))
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return errors.Join(err, r.Unlink(temp))
	}
	if err := r.keep(c.Name); err != nil {
		return err
	}
	if r.out.Lost = append(r.out.Lost, c.Bad...); len(c.Bad) == 0 {
		r.out.Indexed = append(r.out.Indexed, c.Name)
	}
	return r.Rename(temp, c.Name)
}

// seal seals the unsealed segments. Segments that a newer ingero wrote stay unsealed.
func (r *repairer) seal(ctx context.Context) error {
	segs, err := segment.List(r.files())
	if err != nil {
		return err
	}
	for _, s := range segs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.Sealed {
			continue
		}
		name := segment.Name(s.Session, s.Seq, true)
		_, err := r.Seal(s.Name, name+".tmp")
		if errors.Is(err, log.ErrVersion) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(r.Rename(name+".tmp", name), r.Unlink(s.Name)); err != nil {
			return err
		}
		r.out.Sealed++
	}
	return nil
}
