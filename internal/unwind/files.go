package unwind

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ingero/internal/proc"
)

// file is what one file is to the walker: several paths or inodes can be one.
type file struct {
	object uint32
	means  Means
	image  *Image
	same   string     // tells its content: build id and size; "": no such thing
	keys   []proc.Key // of those that are mapped
	users  int        // spaces
	// The last process that mapped it, and where: through it the file is opened.
	pid  uint32
	from proc.Mapping

	state  state
	wanted bool
	words  int    // of its table, once it was made
	uses   uint32 // of its table, as last looked at
	idle   uint64 // when users became 0, in order
}

type state uint8

const (
	unloaded state = iota
	loaded
	refused // there was no room; tried again when it is wanted again
	failed
)

// files are those of all processes.
type files struct {
	Options
	rules   *Rules
	written int // rules that the kernel has; 0: it has not even those that there always are
	ids     ids
	byKey   map[proc.Key]*file // that are mapped
	bySame  map[string]*file   // these, and some that were mapped
	objects map[uint32]*file   // all that have a table or can have one
	vdso    *file
	clock   uint64
	figures Figures
}

func newFiles(o Options) *files {
	return &files{Options: o, rules: NewRules(), ids: ids{limit: MaxObjects}, byKey: map[proc.Key]*file{}, bySame: map[string]*file{},
		objects: map[uint32]*file{}}
}

const vdsoPath = "[vdso]"

// mappings makes the kernel's mappings of a process's, and holds the files that they use.
func (s *files) mappings(pid uint32, list []proc.Mapping) ([]Mapping, []*file) {
	out := make([]Mapping, 0, len(list))
	var used []*file
	for _, m := range list {
		if len(out) == MaxMappings {
			s.figures.Lost++
			break
		}
		if m.Path == "[uprobes]" || m.Path == "[vsyscall]" {
			continue // the kernel's own
		}
		k := Mapping{Start: m.Start, End: m.End, Means: MeansNone}
		if f := s.of(pid, m); f != nil {
			if !slices.Contains(used, f) {
				used = append(used, f)
				f.users++
			}
			k.Means = f.means
			if f.means == MeansTable {
				k.Object = f.object
				ok := false
				if k.Bias, ok = f.bias(m); !ok {
					k.Object = noObject
				}
			}
		}
		out = append(out, k)
	}
	return out, used
}

// noObject is the number of no table.
const noObject = 1<<32 - 1

func (f *file) bias(m proc.Mapping) (uint64, bool) {
	if f.image == nil {
		return 0, false
	}
	return f.image.Bias(m.Start, m.Offset)
}

// of returns the file of a mapping, nil where code is made at run time.
func (s *files) of(pid uint32, m proc.Mapping) *file {
	if m.Path == vdsoPath {
		if s.vdso == nil {
			s.vdso = s.know(s.vdsoReader, "", &file{users: 1})
		}
		return s.vdso
	}
	if m.Key == (proc.Key{}) {
		return nil
	}
	if f := s.byKey[m.Key]; f != nil {
		if f.state != loaded {
			f.pid, f.from = pid, m
		}
		return f
	}
	f := &file{pid: pid, from: m}
	r, _, err := s.Files.OpenMapped(pid, m)
	if err != nil {
		if strings.HasPrefix(m.Path, "/memfd:") || strings.HasPrefix(m.Path, "/dev/") || strings.HasPrefix(m.Path, "/SYSV") {
			return nil
		}
		f.state, f.object = failed, noObject
		s.figures.Failed++
	} else {
		f = s.know(func() (io.ReaderAt, error) { return r, nil }, sameness(r), f)
		_ = r.Close()
	}
	s.byKey[m.Key] = f
	f.keys = append(f.keys, m.Key)
	return f
}

type sized interface {
	io.ReaderAt
	io.Seeker
}

// sameness returns what two files of one content have in common, "" if that is unknown.
func sameness(r sized) string {
	id, err := proc.BuildID(r)
	if err != nil || id == "" {
		return ""
	}
	size, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d", id, size)
}

func (s *files) vdsoReader() (io.ReaderAt, error) {
	b, err := s.Files.VDSO()
	return bytes.NewReader(b), err
}

// know completes what is known of a file, or finds that it is one that is known already.
func (s *files) know(open func() (io.ReaderAt, error), same string, f *file) *file {
	if known := s.bySame[same]; same != "" && known != nil {
		known.pid, known.from = f.pid, f.from
		return known
	}
	r, err := open()
	if err == nil {
		f.image, err = Open(r)
	}
	if err == nil && f.image.frames.size == 0 {
		f.means = MeansFP
		return f
	}
	ok := false
	if err == nil {
		if f.object, ok = s.id(); !ok {
			err = errLarge
		}
	}
	if err != nil {
		f.state, f.object = failed, noObject
		s.figures.Failed++
		return f
	}
	f.same = same
	if same != "" {
		s.bySame[same] = f
	}
	f.uses = s.Kernel.Uses(f.object)
	s.objects[f.object] = f
	s.figures.Files = len(s.objects)
	return f
}

// id returns a number for a table, for which one that nobody uses may have to go.
func (s *files) id() (uint32, bool) {
	if id, ok := s.ids.take(); ok {
		return id, true
	}
	if f := s.oldest(); f != nil {
		s.forget(f)
	}
	return s.ids.take()
}

// release gives up files that a space used.
func (s *files) release(list []*file) {
	for _, f := range list {
		if f.users--; f.users > 0 {
			continue
		}
		// Its inode can have another content when it is mapped again.
		for _, key := range f.keys {
			delete(s.byKey, key)
		}
		f.keys = nil
		s.clock++
		f.idle = s.clock
		if f.means == MeansTable && f.object != noObject && (f.same == "" || f.state != loaded) {
			s.forget(f)
		}
	}
}

// oldest returns the file that has been without users for longest.
func (s *files) oldest() *file {
	var best *file
	for _, f := range s.objects {
		if f.users == 0 && (best == nil || f.idle < best.idle) {
			best = f
		}
	}
	return best
}

// forget drops a file that nobody uses.
func (s *files) forget(f *file) {
	s.unload(f)
	delete(s.objects, f.object)
	if s.bySame[f.same] == f {
		delete(s.bySame, f.same)
	}
	s.ids.free(f.object)
	s.figures.Files = len(s.objects)
}

func (s *files) unload(f *file) {
	if f.state != loaded {
		return
	}
	if err := s.Kernel.DropTable(f.object); err != nil {
		s.Log.Warn("stacks", "error", err)
	}
	s.gone(f)
}

// gone notes that the kernel has no table of a file any more.
func (s *files) gone(f *file) {
	s.figures.Tables--
	s.figures.Bytes -= 4 * f.words
	f.state = unloaded
}

// missed finds the tables that the kernel has missed.
func (s *files) missed() {
	for _, f := range s.objects {
		if f.state == loaded || f.state == failed {
			continue
		}
		if n := s.Kernel.Uses(f.object); n != f.uses {
			f.uses, f.wanted = n, true
		}
	}
}

// loadMax and loadBytes bound the tables that are made at a time, so that what is wanted
// meanwhile does not wait for long.
const (
	loadMax   = 16
	loadBytes = 4 << 20
)

// load makes tables, those that are wanted first, and returns whether there were any.
func (s *files) load() bool {
	var list []*file
	for _, f := range s.objects {
		eager := f.state == unloaded && f.users > 0 && f.image.frames.size <= uint64(s.Eager)
		if f.state != loaded && f.state != failed && (f.wanted || eager) {
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
			s.Log.Debug("stacks: table", "path", f.from.Path, "error", err)
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
			s.gone(f)
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

// order puts what is wanted first, then what is small.
func order(a, b *file) int {
	if a.wanted != b.wanted {
		if a.wanted {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.image.frames.size, b.image.frames.size), cmp.Compare(a.object, b.object))
}

// make makes the table of a file, for which it makes room.
func (s *files) make(f *file) (*Table, error) {
	if f.state == refused && !s.room(4*f.words, f.wanted) {
		s.figures.Refused++
		return nil, errLarge
	}
	t, err := s.build(f)
	if err != nil {
		f.state = failed
		if errors.Is(err, proc.ErrGone) {
			f.state = refused // whoever maps it next can open it
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

// writeRules gives the kernel the rules that it does not have yet.
func (s *files) writeRules() error {
	if s.written == s.rules.Len() {
		return nil
	}
	if err := s.Kernel.PutRules(s.written, s.rules.From(s.written)); err != nil {
		return err
	}
	s.written = s.rules.Len()
	return nil
}

func (s *files) build(f *file) (*Table, error) {
	if f == s.vdso {
		r, err := s.vdsoReader()
		if err != nil {
			return nil, err
		}
		return Build(r, f.image, s.rules)
	}
	r, _, err := s.Files.OpenMapped(f.pid, f.from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return Build(r, f.image, s.rules)
}

// room makes room for a table: those that nobody maps go first, then, for one that is
// wanted, those that have not been used since this was last asked.
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
