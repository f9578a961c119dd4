package store

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A segment is sealed at a size of which many fit into what the database may take,
// so that the bound can be kept closely.
const (
	segmentMax   = 16 << 20
	segmentMin   = 64 << 10
	segmentShare = 1024
	rollupShare  = 10 // of what the database may take, the SQLite file gets one part before fine rollups go
)

// keptSegment is a segment that is written.
type keptSegment struct {
	Segment
	last time.Time // when it was written last
}

func (db *DB) segmentBytes() int64 {
	if db.o.MaxBytes <= 0 {
		return segmentMax
	}
	return min(max(db.o.MaxBytes/segmentShare, segmentMin), segmentMax)
}

// list finds the segments that there are, the oldest first. Files that were copied may
// all be of now: a session's are in their order all the same.
func (db *DB) list() error {
	all, err := Segments(Dir(db.dir.Name()))
	if err != nil {
		return err
	}
	now := db.o.Now()
	last := keptSegment{}
	for _, s := range all {
		info, err := os.Lstat(filepath.Join(db.dir.Name(), s.Name))
		if err != nil {
			continue
		}
		// Ages are what they are now, whatever becomes of the clock. One of the future
		// is of a clock that was wrong; and none is older than the one before it.
		k := keptSegment{s, now.Add(min(info.ModTime().Sub(now), 0))}
		if last.Session == k.Session && k.last.Before(last.last) {
			k.last = last.last
		}
		db.kept, last = append(db.kept, k), k
	}
	db.leftovers()
	slices.SortStableFunc(db.kept, func(a, b keptSegment) int {
		return cmp.Or(a.last.Compare(b.last), compareSegments(a.Segment, b.Segment))
	})
	return nil
}

// leftovers removes what writers left that were killed while they sealed a segment or
// copied one: files that are not whole, and segments that were sealed.
func (db *DB) leftovers() {
	all, err := Dir(db.dir.Name()).List()
	if err != nil {
		return
	}
	for _, f := range all {
		_, part := parseSegment(strings.TrimSuffix(f.Name, ".tmp"))
		part = part && strings.HasSuffix(f.Name, ".tmp")
		if s, ok := parseSegment(f.Name); ok && !s.Sealed {
			name := segmentName(s.Session, s.Seq, true)
			part = slices.ContainsFunc(db.kept, func(k keptSegment) bool { return k.Name == name })
		}
		if part || strings.HasPrefix(f.Name, ".") && strings.HasSuffix(f.Name, ".part") {
			_ = unix.Unlinkat(int(db.dir.Fd()), f.Name, 0)
		}
	}
}

// begin starts the segment seq, in place of the one before. That is left as it is
// when it fails.
func (db *DB) begin(seq int) error {
	first := segmentJSON{Session: db.o.Session, Seq: seq}
	if db.log != nil {
		first.First, first.Unkept = db.log.number, db.log.number-db.log.written
	}
	name := segmentName(db.o.Session.ID, seq, false)
	part := "." + name + ".part" // until it has its beginning: readers list the directory
	made, err := db.places().open(db.dir, part, unix.O_EXCL|unix.O_APPEND)
	if err != nil {
		return err
	}
	file, err := called(made, filepath.Join(db.dir.Name(), name))
	if err != nil {
		return errors.Join(err, db.unlink(part))
	}
	log, err := newLogWriter(file, &first)
	if err == nil {
		err = errors.Join(log.carry(db.log), db.rename(part, name))
	}
	if err != nil {
		return errors.Join(err, db.unlink(part), file.Close())
	}
	log.putFunctions(db.functions.list)
	log.putStacks(db.stacks.list)
	db.file, db.log, db.seq = file, log, seq
	return nil
}

// rotate ends the segment that is being written, and starts the next.
func (db *DB) rotate() error {
	file, log, seq := db.file, db.log, db.seq
	if err := db.begin(db.seq + 1); err != nil {
		return err
	}
	db.retire(file, log.size, seq)
	return nil
}

// leave ends the segment that is being written, for good.
func (db *DB) leave() {
	if db.file != nil {
		db.retire(db.file, db.log.size, db.seq)
		db.file = nil
	}
}

// retire has a segment sealed to which nothing more is written.
func (db *DB) retire(file *os.File, bytes int64, seq int) {
	s := Segment{Name: segmentName(db.o.Session.ID, seq, false), Session: db.o.Session.ID, Seq: seq, Bytes: bytes}
	db.kept = append(db.kept, keptSegment{s, db.o.Now()})
	db.sealing.Go(func() {
		db.seal(s)
		_ = file.Close() // all of it was written
	})
}

// sealLeft seals what writers left that were killed.
func (db *DB) sealLeft() {
	for _, k := range db.kept {
		if !k.Sealed {
			db.sealing.Go(func() { db.seal(k.Segment) })
		}
	}
}

// seal puts a sealed segment in the place of one that is not. One that is torn or
// damaged, or for which there is no room, stays as it is and can be read.
func (db *DB) seal(s Segment) {
	db.sealer.Lock()
	defer db.sealer.Unlock()
	db.mu.Lock()
	db.inSeal = s
	db.mu.Unlock()
	name := segmentName(s.Session, s.Seq, true)
	size, err := sealFile(db.places(), db.dir, s.Name, name+".tmp")
	if err != nil {
		_ = unix.Unlinkat(int(db.dir.Fd()), name+".tmp", 0)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.inSeal = Segment{}
	if err != nil {
		return
	}
	i := slices.IndexFunc(db.kept, func(k keptSegment) bool { return k.Name == s.Name })
	if i < 0 || unix.Renameat(int(db.dir.Fd()), name+".tmp", int(db.dir.Fd()), name) != nil { // pruned meanwhile
		_ = unix.Unlinkat(int(db.dir.Fd()), name+".tmp", 0)
		return
	}
	_ = unix.Unlinkat(int(db.dir.Fd()), s.Name, 0)
	db.kept[i].Name, db.kept[i].Sealed, db.kept[i].Bytes = name, true, size
}

// sealFile writes the segment from, sealed, to a new file, of the same age.
func sealFile(p places, dir *os.File, from, to string) (size int64, err error) {
	src, err := p.existing(dir, from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	info, err := src.Stat()
	if err != nil {
		return 0, err
	}
	_ = unix.Unlinkat(int(dir.Fd()), to, 0) // a crash may have left one
	dst, err := p.open(dir, to, unix.O_EXCL)
	if err != nil {
		return 0, err
	}
	err = seal(dst, src, info.Size())
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

// measure brings the size up to date.
func (db *DB) measure() { db.size.Store(db.bytes()) }

// bytes is what all files take, or are about to.
func (db *DB) bytes() int64 {
	n := fileSize(db.o.Path)
	if db.saver != nil {
		n = max(n, db.saver.whole)
	}
	if db.file != nil {
		n += db.log.size
	}
	for i := range db.kept {
		n += db.kept[i].Bytes
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		n += fileSize(db.o.Path + suffix)
	}
	return n
}

// unsealed is what the segments take that are to be sealed: so much more for a while. The
// one that is being sealed takes it also when it has been removed meanwhile.
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

// SetBounds changes what the database may take and how old calls may be, as Options
// have it, from the next tick on. It may be called from any goroutine.
func (db *DB) SetBounds(maxBytes int64, maxAge time.Duration) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.o.MaxBytes, db.o.MaxAge = maxBytes, maxAge
}

// prune removes segments as free does, and leaves room for a segment, and for the rows of a tick.
func (db *DB) prune(more int64) { db.free(more + db.segmentBytes() + reserve) }

// free removes the oldest segments while with more bytes there are too many, or they
// are too old. Readers that have one open are not disturbed.
func (db *DB) free(more int64) {
	for len(db.kept) > 0 {
		old := db.o.MaxAge > 0 && db.o.Now().Sub(db.kept[0].last) > db.o.MaxAge
		full := db.o.MaxBytes > 0 && db.bytes()+db.unsealed()+more > db.o.MaxBytes
		if !old && !full {
			return
		}
		if err := unix.Unlinkat(int(db.dir.Fd()), db.kept[0].Name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return
		}
		db.kept = slices.Delete(db.kept, 0, 1)
	}
}
