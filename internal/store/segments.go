package store

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/store/retention"
	"ingero/internal/store/segment"
)

// The segment size is a small part of the database's limit, so that the limit can be kept closely.
const (
	segmentMax   = 16 << 20
	segmentMin   = 64 << 10
	segmentShare = 1024
	callsShare   = 16 // divisor of the limit: the least share of the calls
	repeatMax    = 4  // segments of the normal size that one segment can replace
)

func (db *DB) segmentBytes() int64 {
	if db.o.MaxBytes <= 0 {
		return segmentMax
	}
	return min(max(db.o.MaxBytes/segmentShare, segmentMin), segmentMax)
}

// full reports whether the current segment has its size. If it repeats much of earlier segments, it has as
// much new content. Otherwise most of each segment would repeat earlier ones.
func (db *DB) full() bool {
	size, repeated := db.segmentBytes(), db.log.Repeated()
	return db.log.Full() || db.log.Size()-repeated >= min(max(size, repeated), repeatMax*size)
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
	db.kept.All = append(db.kept.All, retention.Segment{Info: s, Last: db.o.Now()})
	db.sealing.Go(func() {
		db.seal(s)
		_ = file.Close() // all of it is written
	})
}

// sealLeftovers seals the segments that killed writers left.
func (db *DB) sealLeftovers() {
	for _, k := range db.kept.All {
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
	db.kept.Sealing = s
	db.mu.Unlock()
	name := segment.Name(s.Session, s.Seq, true)
	size, err := db.held.Seal(s.Name, name+".tmp")
	db.mu.Lock()
	defer db.mu.Unlock()
	db.kept.Sealing = segment.Info{}
	if err != nil {
		return
	}
	i := slices.IndexFunc(db.kept.All, func(k retention.Segment) bool { return k.Name == s.Name })
	if i < 0 || db.held.Rename(name+".tmp", name) != nil { // pruned meanwhile
		_ = db.held.Unlink(name + ".tmp")
		return
	}
	_ = db.held.Unlink(s.Name)
	k := &db.kept.All[i]
	k.Name, k.Sealed, k.Bytes = name, true, size
}

// measure updates the size.
func (db *DB) measure() { db.size.Store(db.bytes()) }

// bytes returns the size of all files, including pending growth.
func (db *DB) bytes() int64 {
	n := FileSize(db.o.Path)
	if db.saver != nil {
		n = max(n, db.saver.rows.FileSize)
	}
	n += db.kept.Bytes()
	if db.file != nil {
		n += db.log.Size()
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		n += FileSize(db.o.Path + suffix)
	}
	return n
}

// FileSize returns the size of a file in bytes, 0 if there is none.
func FileSize(path string) int64 {
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
// the limit. If unused pages of the SQLite file leave no room, as after the limit was lowered, calls keep
// their least share until the next recording vacuums the file.
func (db *DB) free(more int64) {
	if len(db.kept.All) == 0 {
		return
	}
	var from time.Time
	if db.o.MaxAge > 0 {
		from = db.o.Now().Add(-db.o.MaxAge)
	}
	room := int64(math.MaxInt64)
	if db.o.MaxBytes > 0 {
		room = db.o.MaxBytes - more - (db.bytes() - db.kept.Bytes())
		if rows := db.saver.rows; !rows.Full() {
			room = max(room, min(db.o.MaxBytes/callsShare, room+rows.FileSize-rows.Used))
		}
	}
	db.kept.Free(from, room)
}
