package unwind

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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

// missed finds the tables that the kernel has missed.
func (s *files) missed() {
	for _, f := range s.objects {
		if !f.buildable() {
			continue
		}
		if n := s.Kernel.Uses(f.object); n != f.uses {
			f.uses, f.wanted = n, true
		}
	}
}

// loadMax and loadBytes bound a batch of tables, so that new requests wait only briefly.
const (
	loadMax   = 16
	loadBytes = 4 << 20
)

// load builds tables, wanted ones first, and reports whether there were any.
func (s *files) load() bool {
	var list []*file
	for _, f := range s.objects {
		eager := f.state == unloaded && f.users > 0 && f.image.frames.size <= uint64(s.Eager)
		if f.buildable() && (f.wanted || eager) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, order)
	var made []*file
	var tables []ObjectTable
	size := 0
	for _, f := range list[:min(len(list), loadMax)] {
		t, err := s.make(f)
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
	if err := s.publish(tables); err != nil {
		s.Log.Warn("stacks", "error", err)
		for _, f := range made {
			s.markUnloaded(f)
			f.state = failed
		}
	}
	return len(list) > 0
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
func (s *files) make(f *file) (*Table, error) {
	if f.state == refused && !s.room(4*f.words, f.wanted) {
		s.figures.Refused++
		return nil, errLarge
	}
	var t *Table
	var err error
	runLowPriority(starved, func() { t, err = s.build(f) })
	if err != nil {
		f.state = failed
		if errors.Is(err, errOpen) {
			f.state = unopened
		}
		s.figures.Failed++
		return nil, err
	}
	f.words = len(t.Words)
	if !s.room(4*f.words, f.wanted) {
		f.state = refused
		s.figures.Refused++
		return nil, errLarge
	}
	f.state = loaded
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

// room makes room for a table by evicting others: first those that no process maps. For a wanted
// table it then evicts those unused since the last check.
func (s *files) room(bytes int, wanted bool) bool {
	for s.figures.Bytes+bytes > s.Bytes {
		f := s.oldest()
		if f != nil {
			s.forget(f)
			s.figures.Evicted++
			continue
		}
		if !wanted || bytes > s.Bytes || !s.evict() {
			return false
		}
	}
	return true
}

func (s *files) evict() bool {
	var unused *file
	for _, f := range s.objects {
		if f.state != loaded {
			continue
		}
		if n := s.Kernel.Uses(f.object); n != f.uses {
			f.uses = n
		} else if unused == nil || f.words > unused.words {
			unused = f
		}
	}
	if unused == nil {
		return false
	}
	s.unload(unused)
	unused.state = refused
	s.figures.Evicted++
	return true
}
