package unwind

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"ingero/internal/elffile"
	"ingero/internal/proc"
)

// file is one file as the walker sees it. Several paths or inodes can be the same file.
type file struct {
	object uint32
	means  Means
	image  *Image
	same   string // build id, size and owner, equal for equal content; "": no build id
	users  int    // number of its uses
	// The last process that mapped it, and the mapping through which to open it.
	pid     uint32
	mapping proc.Mapping

	state   state
	counted bool // among the failed ones
	wanted  bool
	words   int           // size of its table, once built
	uses    uint32        // use count of its table when last read
	used    time.Time     // when its table was loaded, or uses last seen to change
	idle    uint64        // order in which users became 0
	next    time.Time     // earliest time of the next try to load its table
	wait    time.Duration // from the last failed try until then
}

// use is a space's use of a file, by the key of the copy that it maps.
type use struct {
	*file
	key proc.Key
}

type state uint8

const (
	unloaded state = iota
	loaded
	refused  // no room, or the kernel did not take it; retried when wanted again
	unopened // its process could not open it; retried when a process's mappings are read
	failed
)

// files has the files of all processes.
type files struct {
	Options
	rules   *Rules
	written int // number of rules in the kernel; 0: not even the built-in ones
	ids     ids
	byKey   map[proc.Key]*file // mapped files
	uses    map[use]int        // number of spaces
	bySame  map[string]*file   // mapped files, and some formerly mapped
	objects map[uint32]*file   // files that have or can have a table
	vdso    *file
	clock   uint64
	read    time.Time // when the uses of all tables were last read
	figures Figures
}

func newFiles(o Options) *files {
	return &files{Options: o, rules: NewRules(), ids: ids{limit: MaxObjects}, byKey: map[proc.Key]*file{}, uses: map[use]int{},
		bySame: map[string]*file{}, objects: map[uint32]*file{}}
}

const vdsoPath = "[vdso]"

// mappings converts a process's mappings to the kernel's, and adds a use to their files.
func (s *files) mappings(pid uint32, list []proc.Mapping) ([]Mapping, []use) {
	out := make([]Mapping, 0, len(list))
	var used []use
	for _, m := range list {
		if len(out) == MaxMappings {
			s.figures.Lost++
			break
		}
		if m.Path == "[uprobes]" || m.Path == "[vsyscall]" {
			continue // the kernel's own
		}
		k := Mapping{Start: m.Start, End: m.End, Means: MeansNone}
		if f := s.file(pid, m); f != nil {
			if u := (use{f, m.Key}); !slices.Contains(used, u) {
				used = append(used, u)
				s.uses[u]++
				f.users++
			}
			k.Means = f.means
			if f.means == MeansTable {
				k.Object = f.object
				ok := false
				if k.Bias, ok = f.bias(m); !ok || f.state == failed {
					k.Object = noObject
				}
			}
		}
		out = append(out, k)
	}
	return out, used
}

// noObject is the object number for no table.
const noObject = 1<<32 - 1

// buildable reports whether building a file's table can be tried.
func (f *file) buildable() bool { return f.state == unloaded || f.state == refused }

// opened reports whether some process could open the file.
func (f *file) opened() bool { return f.image != nil || f.state != unopened }

// fail records that a file has failed, and counts it once.
func (s *files) fail(f *file) {
	f.state = failed
	if !f.counted {
		f.counted = true
		s.figures.Failed++
	}
}

// mappedBy records that a process maps the file.
func (f *file) mappedBy(pid uint32, m proc.Mapping) {
	f.pid, f.mapping = pid, m
	if f.state == unopened {
		f.state = unloaded
	}
}

func (f *file) bias(m proc.Mapping) (uint64, bool) {
	if f.image == nil {
		return 0, false
	}
	return f.image.Bias(m.Start, m.Offset)
}

// file returns the file of a mapping, nil for code made at run time.
func (s *files) file(pid uint32, m proc.Mapping) *file {
	if m.Path == vdsoPath {
		if s.vdso == nil {
			s.vdso = s.know(s.vdsoReader, 0, "", &file{users: 1})
		}
		return s.vdso
	}
	if m.Key == (proc.Key{}) {
		return nil
	}
	known := s.byKey[m.Key]
	if known != nil && known.opened() {
		known.mappedBy(pid, m)
		return known
	}
	f := &file{pid: pid, mapping: m}
	r, _, err := s.Files.OpenMapped(pid, m)
	if err != nil {
		if strings.HasPrefix(m.Path, "/memfd:") || strings.HasPrefix(m.Path, "/dev/") || strings.HasPrefix(m.Path, "/SYSV") {
			return nil
		}
		if known != nil {
			return known
		}
		s.fail(f)
		f.object = noObject
		if ofProcess(err) {
			f.state = unopened // the next process that maps it may be able to open it
		}
	} else {
		owner, same := identity(r)
		f = s.know(func() (io.ReaderAt, error) { return r, nil }, owner, same, f)
		_ = r.Close()
	}
	s.byKey[m.Key] = f
	return f
}

// ofProcess reports whether the reason why a file could not be opened is not the file's content.
func ofProcess(err error) bool { return !errors.Is(err, elffile.ErrFormat) }

// identity returns a file's owner, and a key that files of the same owner with equal content share, "" if there
// is none.
func identity(r *os.File) (owner uint32, same string) {
	owner, err := proc.Owner(r)
	if err != nil {
		return 1<<32 - 1, "" // no user
	}
	id, err := elffile.BuildID(r)
	if err != nil || id == "" {
		return owner, ""
	}
	st, err := r.Stat()
	if err != nil {
		return owner, ""
	}
	return owner, fmt.Sprintf("%s %d %d", id, st.Size(), owner)
}

func (s *files) vdsoReader() (io.ReaderAt, error) {
	b, err := s.Files.VDSO()
	return bytes.NewReader(b), err
}

// know completes a file's entry, or returns the existing one of equal content.
func (s *files) know(open func() (io.ReaderAt, error), owner uint32, same string, f *file) *file {
	if known := s.bySame[same]; same != "" && known != nil {
		known.mappedBy(f.pid, f.mapping)
		return known
	}
	r, err := open()
	if err == nil {
		f.image, err = Open(r)
	}
	if err == nil {
		f.image.owner = owner
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
		s.fail(f)
		f.object = noObject
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

// id returns an object number, after evicting an unused table if necessary.
func (s *files) id() (uint32, bool) {
	if id, ok := s.ids.take(); ok {
		return id, true
	}
	if f := s.oldest(); f != nil {
		s.forget(f)
	}
	return s.ids.take()
}

// release drops a space's uses of files.
func (s *files) release(list []use) {
	for _, u := range list {
		if s.uses[u]--; s.uses[u] == 0 {
			delete(s.uses, u)
			if s.byKey[u.key] == u.file { // the inode can have other content when it is mapped again
				delete(s.byKey, u.key)
			}
		}
		f := u.file
		if f.users--; f.users > 0 {
			continue
		}
		s.clock++
		f.idle = s.clock
		if f.means == MeansTable && f.object != noObject && (f.same == "" || f.state != loaded) {
			s.forget(f)
		}
	}
}

// oldest returns the file that has been unused for longest.
func (s *files) oldest() *file {
	var best *file
	for _, f := range s.objects {
		if f.users == 0 && (best == nil || f.idle < best.idle) {
			best = f
		}
	}
	return best
}

// forget drops an unused file.
func (s *files) forget(f *file) {
	s.unload(f)
	delete(s.objects, f.object)
	if s.bySame[f.same] == f {
		delete(s.bySame, f.same)
	}
	s.ids.free(f.object)
	s.figures.Files = len(s.objects)
}
