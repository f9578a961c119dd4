package native

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"ingero/internal/elffile"
	"ingero/internal/proc"
)

// process is one known process.
type process struct {
	pid   uint32
	code  []mapping // by address
	read  time.Time // time of the last read
	used  uint64
	ended bool // ended before it could be read
	jit   *perfMap
}

// mapping is a range of addresses with code.
type mapping struct {
	start, end, offset uint64
	path               string
	Mapping            proc.Mapping
	module             *module
	tried              bool
}

// mappingSize is the approximate size of a mapping in memory, in bytes.
const mappingSize = 192

// refreshWait is the minimum time between two reads of a process's mappings. After rereadWait they are read
// again in any case: a library can replace another at its addresses.
const (
	refreshWait = 100 * time.Millisecond
	rereadWait  = 10 * time.Second
)

// known returns the entry of a process, and creates it if necessary.
func (s *Symbolizer) known(pid uint32) *process {
	p := s.procs[pid]
	if p == nil {
		s.room()
		p = &process{pid: pid}
		s.procs[pid] = p
	}
	p.used = s.tick
	return p
}

// process returns the entry of a process. It reads the mappings again if one of the addresses is in
// none of them, or if they are old.
func (s *Symbolizer) process(pid uint32, seen int64, ips []uint64) *process {
	p := s.known(pid)
	now := s.now()
	look := !p.ended && now.Sub(p.read) >= rereadWait
	for i, ip := range ips {
		if look {
			break
		}
		look = p.mapping(ip, i == 0) == nil
	}
	if look && now.Sub(p.read) >= refreshWait {
		s.read(p, seen, now, ips)
	}
	return p
}

// read reads the mappings of a process, for a stack. If none of the stack's addresses is in the new ones,
// the stack is from before an exec, and the mappings stay.
func (s *Symbolizer) read(p *process, seen int64, now time.Time, ips []uint64) {
	p.read = now
	list, err := s.fs.Code(p.pid, time.Unix(0, seen))
	if err != nil {
		p.ended = p.ended || errors.Is(err, proc.ErrExited) && len(p.code) == 0
		return
	}
	has := func(ip uint64) bool {
		return slices.ContainsFunc(list, func(m proc.Mapping) bool { return m.Start <= ip && ip <= m.End })
	}
	if len(p.code) == 0 || slices.ContainsFunc(ips, has) {
		s.take(p, list, now)
	}
}

// take replaces the mappings of a process.
func (s *Symbolizer) take(p *process, list []proc.Mapping, now time.Time) {
	p.read, s.grew = now, true
	if len(list) == 0 { // a zombie, or a kernel thread
		p.ended = len(p.code) == 0
		return
	}
	code := make([]mapping, len(list))
	for i, m := range list {
		code[i] = mapping{start: m.Start, end: m.End, offset: m.Offset, path: m.Path, Mapping: m}
		if m.Path == "" {
			code[i].path, code[i].offset = jitName, 0
		}
		if old := p.mapping(m.Start, true); old != nil && old.Mapping == m && old.module != nil {
			code[i].module, code[i].tried, code[i].path = old.module, true, old.path
			old.module.users++
		}
	}
	s.leave(p)
	p.code, p.ended = code, false
}

// jitName is the path of the mappings of run-time code.
const jitName = "[JIT]"

// leave drops a process's uses of modules.
func (s *Symbolizer) leave(p *process) {
	for i := range p.code {
		if m := p.code[i].module; m != nil {
			if m.users--; m.users == 0 {
				m.left = s.now()
				_ = s.shut(m)
			}
		}
	}
	p.code = nil
}

// room makes room for one more process.
func (s *Symbolizer) room() {
	if len(s.procs) < s.limits.Processes {
		return
	}
	var oldest *process
	for _, p := range s.procs {
		if oldest == nil || p.used < oldest.used {
			oldest = p
		}
	}
	s.figures.Dropped++
	s.Forget(oldest.pid)
}

// file loads the module of a mapping, and reports whether it has one.
func (s *Symbolizer) file(p *process, m *mapping) bool {
	if m.module != nil {
		m.module.used = s.tick
		return true
	}
	if m.tried {
		return false
	}
	m.tried = true
	switch {
	case m.path == "[vdso]":
		m.module = s.kernelCode()
	case m.Mapping.Key == (proc.Key{}):
	default:
		m.module = s.identify(p, m)
	}
	if m.module == nil {
		return false
	}
	m.module.users++
	m.module.used = s.tick
	return true
}

// identify finds or creates the module of a mapping.
func (s *Symbolizer) identify(p *process, m *mapping) *module {
	f, c, err := s.open(p, m)
	if err != nil {
		if mod := s.byKey[m.Mapping.Key]; mod != nil { // another process mapped it
			return mod
		}
		s.figures.Unread++
		return nil
	}
	mod := s.modules[c]
	if mod == nil {
		mod = &module{content: c, answers: map[uint64]*answer{}}
		if !s.load(mod, p, m, f) {
			s.figures.Unread++
			mod.bad = true
			return nil
		}
		s.modules[c] = mod
	} else {
		if mod.img == nil {
			s.load(mod, p, m, f)
		} else {
			_ = f.Close()
		}
	}
	s.byKey[m.Mapping.Key] = mod
	return mod
}

// open opens the file of a mapping, and identifies its content.
func (s *Symbolizer) open(p *process, m *mapping) (file, content, error) {
	f, _, err := s.fs.OpenMapped(p.pid, m.Mapping)
	if errors.Is(err, proc.ErrExited) {
		f, err = s.fs.OpenPath(m.Mapping)
	}
	if err != nil {
		return nil, content{}, fmt.Errorf("pid %d: %w", p.pid, err)
	}
	c, err := identity(f, m.Mapping.Key)
	if err != nil {
		return nil, content{}, errors.Join(err, f.Close())
	}
	return f, c, nil
}

func identity(f *os.File, key proc.Key) (c content, err error) {
	st, err := f.Stat()
	if err != nil {
		return c, err
	}
	c.size = st.Size()
	if c.owner, err = proc.Owner(f); err != nil {
		return c, err
	}
	if c.id, err = elffile.BuildID(f); c.id == "" {
		c.key, c.modified = key, st.ModTime().UnixNano()
	}
	return c, err
}
