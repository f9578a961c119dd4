package unwind

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

func (s *files) unload(f *file) {
	if f.state != loaded {
		return
	}
	if err := s.Kernel.DropTable(f.object); err != nil {
		s.Log.Warn("stacks", "error", err)
	}
	s.markUnloaded(f)
}

// markUnloaded records that the kernel no longer has a file's table.
func (s *files) markUnloaded(f *file) {
	s.figures.Tables--
	s.figures.Bytes -= 4 * f.words
	f.state = unloaded
}

// missed reads the uses of all tables, and finds those that the kernel has missed.
func (s *files) missed(now time.Time) {
	s.read = now
	for _, f := range s.objects {
		if n := s.Kernel.Uses(f.object); n != f.uses {
			f.uses, f.used, f.wanted = n, now, f.state != loaded
		}
	}
}

// loadMax and loadBytes bound a batch of tables, so that new requests wait only briefly.
const (
	loadMax   = 16
	loadBytes = 4 << 20
)

// load builds tables, wanted ones first, and reports whether there were any.
func (s *files) load(now time.Time) bool {
	var list []*file
	for _, f := range s.objects {
		eager := f.state == unloaded && f.users > 0 && f.image.frames.size <= uint64(s.Eager)
		if f.buildable() && !now.Before(f.next) && (f.wanted || eager) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, order)
	var made []*file
	var tables []ObjectTable
	size := 0
	for _, f := range list[:min(len(list), loadMax)] {
		t, err := s.make(f, now)
		f.wanted = false
		if err != nil {
			s.Log.Debug("stacks: table", "path", f.mapping.Path, "error", err)
			continue
		}
		made, tables = append(made, f), append(tables, ObjectTable{f.object, t.Words})
		if size += 4 * len(t.Words); size > loadBytes {
			break
		}
	}
	s.put(made, tables, now)
	return len(list) > 0
}

// How long a table waits after the kernel did not take it, until it is built again when wanted. The
// wait doubles each time. For lack of room it is at most unusedLeast.
const (
	putFirst = time.Second
	putLast  = 5 * time.Minute
)

// put gives the kernel the tables of files. After an error it tries each of them alone, since a
// large one can lack memory that the others do not need.
func (s *files) put(made []*file, tables []ObjectTable, now time.Time) {
	err := s.publish(tables)
	if err != nil && len(made) > 1 {
		for i := range made {
			s.put(made[i:i+1], tables[i:i+1], now)
		}
		return
	}
	for _, f := range made {
		if err == nil {
			f.wait = 0
			continue
		}
		s.markUnloaded(f)
		s.fail(f)
		f.refuse(now, putLast)
		s.Log.Warn("stacks: table", "path", f.mapping.Path, "retry", f.wait, "error", err)
	}
}

// refuse makes a file's table wait until it is tried again.
func (f *file) refuse(now time.Time, most time.Duration) {
	f.state = refused
	f.wait = min(max(2*f.wait, putFirst), most)
	f.next = now.Add(f.wait)
}

func (s *files) publish(tables []ObjectTable) error {
	if len(tables) == 0 {
		return nil
	}
	if err := s.writeRules(); err != nil {
		return err
	}
	return s.Kernel.PutTables(tables)
}

// order sorts wanted files first, then small ones.
func order(a, b *file) int {
	if a.wanted != b.wanted {
		if a.wanted {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.image.frames.size, b.image.frames.size), cmp.Compare(a.object, b.object))
}

// make builds the table of a file, after making room for it.
func (s *files) make(f *file, now time.Time) (*Table, error) {
	if f.state == refused && !s.room(4*f.words, f.wanted) {
		f.refuse(now, unusedLeast)
		s.figures.Refused++
		return nil, errLarge
	}
	var t *Table
	var err error
	runLowPriority(starved, func() { t, err = s.build(f) })
	if err != nil {
		s.fail(f)
		if errors.Is(err, errOpen) {
			f.state = unopened
		}
		return nil, err
	}
	f.words = len(t.Words)
	if !s.room(4*f.words, f.wanted) {
		f.refuse(now, unusedLeast)
		s.figures.Refused++
		return nil, errLarge
	}
	// A table that was just made is not unused, so room does not evict it before publish.
	f.state, f.used = loaded, now
	s.figures.Tables++
	s.figures.Bytes += 4 * f.words
	s.figures.Lost += uint64(t.Lost)
	return t, nil
}

// writeRules writes the rules that the kernel lacks.
func (s *files) writeRules() error {
	if s.written == s.rules.Len() {
		return nil
	}
	if err := s.Kernel.PutRules(s.written, s.rules.After(s.written)); err != nil {
		return err
	}
	s.written = s.rules.Len()
	return nil
}

// errOpen means that the process through which a file is opened cannot open it.
var errOpen = errors.New("its process cannot open it")

func (s *files) build(f *file) (*Table, error) {
	if f == s.vdso {
		r, err := s.vdsoReader()
		if err != nil {
			return nil, err
		}
		return Build(r, f.image, s.rules)
	}
	r, _, err := s.Files.OpenMapped(f.pid, f.mapping)
	if err != nil {
		if ofProcess(err) {
			err = fmt.Errorf("%w: %w", errOpen, err)
		}
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return Build(r, f.image, s.rules)
}

// unusedLeast is how long a mapped file's table must have been unused before it can be evicted.
const unusedLeast = 10 * time.Second

// room makes room for a table by evicting others: first those that no process maps, the longest unused
// one first. For a wanted table it then evicts unused ones of mapped files, large ones first. If all of
// them have too few bytes, it evicts none.
func (s *files) room(bytes int, wanted bool) bool {
	need := s.figures.Bytes + bytes - s.Bytes
	if need <= 0 {
		return true
	}
	var left, unused []*file
	have := 0
	for _, f := range s.objects {
		switch {
		case f.state != loaded:
			continue
		case f.users == 0:
			left = append(left, f)
		case wanted && s.read.Sub(f.used) >= unusedLeast:
			unused = append(unused, f)
		default:
			continue
		}
		have += 4 * f.words
	}
	if have < need {
		return false
	}
	slices.SortFunc(left, func(a, b *file) int { return cmp.Compare(a.idle, b.idle) })
	slices.SortFunc(unused, func(a, b *file) int { return cmp.Compare(b.words, a.words) })
	for _, f := range append(left, unused...) {
		if need <= 0 {
			break
		}
		need -= 4 * f.words
		s.figures.Evicted++
		if f.users == 0 {
			s.forget(f)
			continue
		}
		s.unload(f)
		f.state = refused
	}
	return true
}
