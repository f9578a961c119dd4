package unwind

import (
	"bytes"
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
