package store

import (
	"cmp"
	"errors"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The segment size is a small part of the database's limit, so that the limit can be kept closely.
const (
	segmentMax   = 16 << 20
	segmentMin   = 64 << 10
	segmentShare = 1024
	rollupShare  = 10 // divisor of the limit: the SQLite file's part before fine rollups go
)

// keptSegment is a finished segment.
type keptSegment struct {
	segment.Info
	last time.Time // its last write
}

func (db *DB) segmentBytes() int64 {
	if db.o.MaxBytes <= 0 {
		return segmentMax
	}
	return min(max(db.o.MaxBytes/segmentShare, segmentMin), segmentMax)
}

// list finds the existing segments, oldest first. Copied files may all have the same time; a
// session's segments are in order nevertheless. It deletes leftovers.
func list(dir *os.File, now time.Time) (kept []keptSegment, err error) {
	all, err := segment.List(log.Dir(dir.Name()))
	if err != nil {
		return nil, err
	}
	last := keptSegment{}
	for _, s := range all {
		info, err := os.Lstat(filepath.Join(dir.Name(), s.Name))
		if err != nil {
			continue
		}
		// Ages are fixed now and do not follow later clock steps. A time in the future comes from a
		// wrong clock, and no segment is older than its predecessor.
		k := keptSegment{s, now.Add(min(info.ModTime().Sub(now), 0))}
		if last.Session == k.Session && k.last.Before(last.last) {
			k.last = last.last
		}
		kept, last = append(kept, k), k
	}
	leftovers(dir, kept)
	slices.SortStableFunc(kept, func(a, b keptSegment) int {
		return cmp.Or(a.last.Compare(b.last), segment.Compare(a.Info, b.Info))
	})
	return kept, nil
}

// leftovers deletes what writers left that were killed while they sealed or copied a segment:
// incomplete files, and unsealed segments that were sealed.
func leftovers(dir *os.File, kept []keptSegment) {
	all, err := log.Dir(dir.Name()).List()
	if err != nil {
		return
	}
	for _, f := range all {
		_, part := segment.Parse(strings.TrimSuffix(f.Name, ".tmp"))
		part = part && strings.HasSuffix(f.Name, ".tmp")
		if s, ok := segment.Parse(f.Name); ok && !s.Sealed {
			name := segment.Name(s.Session, s.Seq, true)
			part = slices.ContainsFunc(kept, func(k keptSegment) bool { return k.Name == name })
		}
		if part || strings.HasPrefix(f.Name, ".") && strings.HasSuffix(f.Name, ".part") {
			_ = unix.Unlinkat(int(dir.Fd()), f.Name, 0)
		}
	}
}

// begin starts segment seq in place of the current one. On error, the current segment stays
// unchanged.
func (db *DB) begin(seq int) error {
	name := segment.Name(db.o.Session.ID, seq, false)
	part := "." + name + ".part" // until it has its start: readers list the directory
	made, err := db.held.Open(part, unix.O_EXCL|unix.O_APPEND)
	if err != nil {
		return err
	}
	file, err := called(made, filepath.Join(db.held.Dir.Name(), name))
	if err != nil {
		return errors.Join(err, db.held.Unlink(part))
	}
	w, err := segment.NewWriter(file, db.o.Session, seq, db.log)
	if err == nil {
		err = db.held.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, db.held.Unlink(part), file.Close())
	}
	db.file, db.log, db.seq = file, w, seq
	return nil
}

// rotate ends the current segment and starts the next.
func (db *DB) rotate() error {
	file, bytes, seq := db.file, db.log.Size(), db.seq
	if err := db.begin(db.seq + 1); err != nil {
		return err
	}
	db.retire(file, bytes, seq)
	return nil
}

// leave ends the current segment for good.
func (db *DB) leave() {
	if db.file != nil {
		db.retire(db.file, db.log.Size(), db.seq)
		db.file = nil
	}
}

// retire seals, in the background, a segment that is complete.
func (db *DB) retire(file *os.File, bytes int64, seq int) {
	s := segment.Info{Name: segment.Name(db.o.Session.ID, seq, false), Session: db.o.Session.ID, Seq: seq, Bytes: bytes}
	db.kept = append(db.kept, keptSegment{s, db.o.Now()})
	db.sealing.Go(func() {
		db.seal(s)
		_ = file.Close() // all of it is written
	})
}

// sealLeftovers seals the segments that killed writers left.
func (db *DB) sealLeftovers() {
	for _, k := range db.kept {
		if !k.Sealed {
			db.sealing.Go(func() { db.seal(k.Info) })
		}
	}
}

// seal replaces a segment by its sealed form. A torn or damaged segment, or one without room for
// sealing, stays readable as it is.
func (db *DB) seal(s segment.Info) {
	db.sealer.Lock()
	defer db.sealer.Unlock()
	db.mu.Lock()
	db.inSeal = s
	db.mu.Unlock()
	name := segment.Name(s.Session, s.Seq, true)
	size, err := sealFile(db.held, s.Name, name+".tmp")
	if err != nil {
		_ = unix.Unlinkat(int(db.held.Dir.Fd()), name+".tmp", 0)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.inSeal = segment.Info{}
	if err != nil {
		return
	}
	i := slices.IndexFunc(db.kept, func(k keptSegment) bool { return k.Name == s.Name })
	if i < 0 || unix.Renameat(int(db.held.Dir.Fd()), name+".tmp", int(db.held.Dir.Fd()), name) != nil { // pruned meanwhile
		_ = unix.Unlinkat(int(db.held.Dir.Fd()), name+".tmp", 0)
		return
	}
	_ = unix.Unlinkat(int(db.held.Dir.Fd()), s.Name, 0)
	db.kept[i].Name, db.kept[i].Sealed, db.kept[i].Bytes = name, true, size
}

// sealFile writes segment from in sealed form to a new file with the same modification time.
func sealFile(h *Held, from, to string) (size int64, err error) {
	src, err := h.Existing(from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	info, err := src.Stat()
	if err != nil {
		return 0, err
	}
	_ = h.Unlink(to) // a crash may have left one
	dst, err := h.Open(to, unix.O_EXCL)
	if err != nil {
		return 0, err
	}
	err = segment.Seal(dst, src, info.Size())
	if err == nil {
		err = dst.Sync()
	}
	if err == nil {
		err = os.Chtimes(dst.Name(), info.ModTime(), info.ModTime())
	}
	out, statErr := dst.Stat()
	if err = errors.Join(err, statErr, dst.Close()); err != nil {
		return 0, err
	}
	return out.Size(), nil
}

// measure updates the size.
func (db *DB) measure() { db.size.Store(db.bytes()) }

// bytes returns the size of all files, including pending growth.
func (db *DB) bytes() int64 {
	n := fileSize(db.o.Path)
	if db.saver != nil {
		n = max(n, db.saver.fileSize)
	}
	if db.file != nil {
		n += db.log.Size()
	}
	for i := range db.kept {
		n += db.kept[i].Bytes
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		n += fileSize(db.o.Path + suffix)
	}
	return n
}

// unsealed returns the size of the segments that await sealing, which temporarily takes as much
// again. The segment being sealed counts even if it was deleted meanwhile.
func (db *DB) unsealed() (n int64) {
	if !slices.ContainsFunc(db.kept, func(k keptSegment) bool { return k.Name == db.inSeal.Name }) {
		n = db.inSeal.Bytes
	}
	for i := range db.kept {
		if !db.kept[i].Sealed {
			n += db.kept[i].Bytes
		}
	}
	return n
}

func fileSize(path string) int64 {
	s, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return s.Size()
}

// SetBounds changes MaxBytes and MaxAge of the Options, from the next tick on. It is safe for
// concurrent use.
func (db *DB) SetBounds(maxBytes int64, maxAge time.Duration) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.o.MaxBytes, db.o.MaxAge = maxBytes, maxAge
}

// prune deletes segments as free does, with room for one more segment and a tick's rows.
func (db *DB) prune(more int64) { db.free(more + db.segmentBytes() + reserve) }

// free deletes the oldest segments while they are too old, or while the files and more bytes exceed
// the limit. Readers with an open segment are not disturbed.
func (db *DB) free(more int64) {
	for len(db.kept) > 0 {
		old := db.o.MaxAge > 0 && db.o.Now().Sub(db.kept[0].last) > db.o.MaxAge
		full := db.o.MaxBytes > 0 && db.bytes()+db.unsealed()+more > db.o.MaxBytes
		if !old && !full {
			return
		}
		if err := unix.Unlinkat(int(db.held.Dir.Fd()), db.kept[0].Name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return
		}
		db.kept = slices.Delete(db.kept, 0, 1)
	}
}
