package native

import (
	"errors"
	"slices"
	"sort"
	"time"

	"ingero/internal/proc"
	"ingero/pkg/events"
)

// Limits bound what a Symbolizer holds. Zero means the default.
type Limits struct {
	// Bytes bounds the tables, names and process data: 32 MiB.
	Bytes int
	// Processes bounds the known processes: 1024.
	Processes int
	// Idle is how long an unused file stays open: 10 s. Data of a file that no process maps is kept
	// six times as long.
	Idle time.Duration
}

// Figures are the statistics of a Symbolizer.
type Figures struct {
	Frames    uint64 // addresses to resolve
	Cold      uint64 // addresses looked up in a file
	Unnamed   uint64 // addresses without a function
	Unmapped  uint64 // addresses in no mapping
	Ended     uint64 // addresses of processes that ended before they were read
	Unread    uint64 // files that could not be read
	Dropped   uint64 // files and perf maps evicted to make room
	Processes int
	Modules   int
	Open      int // files
	Bytes     int
}

// Symbolizer resolves addresses of processes.
type Symbolizer struct {
	fs      proc.FS
	limits  Limits
	now     func() time.Time
	figures Figures
	procs   map[uint32]*process
	modules map[content]*module
	byKey   map[proc.Key]*module // module of each file key when last opened
	vdso    *module
	recent  []*module // modules with an open file
	words   words
	tick    uint64 // clock of uses: the most recently used entry has the largest
	grew    bool   // something was added since the last check of the bound
}

// New returns a Symbolizer for the processes of fs. now may be nil.
func New(fs proc.FS, limits Limits, now func() time.Time) *Symbolizer {
	set := func(v *int, n int) {
		if *v <= 0 {
			*v = n
		}
	}
	set(&limits.Bytes, 32<<20)
	set(&limits.Processes, 1024)
	if limits.Idle <= 0 {
		limits.Idle = 10 * time.Second
	}
	if now == nil {
		now = time.Now
	}
	return &Symbolizer{fs: fs, limits: limits, now: now, procs: map[uint32]*process{}, modules: map[content]*module{},
		byKey: map[proc.Key]*module{}, words: words{}}
}

// lookup is an address being resolved.
type lookup struct {
	ip    uint64
	exact bool // ip is the current instruction, not a return address
	m     *mapping
	addr  uint64 // in the module's file
	a     *answer
}

// Resolve resolves the addresses of a stack, innermost first. seen is a time at which the process
// existed, in Unix ns. All addresses are return addresses; if exact is set, the first is the
// current instruction. The result has a frame for each address, and one for each function inlined
// there.
func (s *Symbolizer) Resolve(pid uint32, seen int64, ips []uint64, exact bool) []events.Frame {
	s.tick++
	s.figures.Frames += uint64(len(ips))
	p := s.process(pid, seen, ips)
	list := make([]lookup, len(ips))
	cold := map[*module][]*lookup{}
	for i, ip := range ips {
		l := &list[i]
		l.ip, l.exact = ip, i == 0 && exact || i > 0 && list[i-1].a != nil && list[i-1].a.signal
		l.m = p.mapping(ip, l.exact)
		if l.m == nil || !s.file(p, l.m) {
			continue
		}
		mod := l.m.module
		var ok bool
		if l.addr, ok = mod.layout.Address(ip - l.m.start + l.m.offset); !ok {
			continue
		}
		if l.a = s.signalReturn(l); l.a != nil {
			continue
		}
		if l.a = mod.answers[l.key()]; l.a == nil {
			cold[mod] = append(cold[mod], l)
		}
	}
	for mod, lookups := range cold {
		s.find(mod, lookups)
	}
	out := make([]events.Frame, 0, len(ips)+len(ips)/4)
	for i := range list {
		out = s.frames(out, p, &list[i])
	}
	s.bound(p)
	return out
}

// key returns the address to look up: for a return address, one that lies in the call before it.
func (l *lookup) key() uint64 {
	if l.exact || l.addr == 0 {
		return l.addr
	}
	return l.addr - 1
}

// frames appends the frames of one address.
func (s *Symbolizer) frames(out []events.Frame, p *process, l *lookup) []events.Frame {
	f := events.Frame{Kind: events.FrameNative, IP: l.ip}
	switch {
	case l.m == nil && p.ended:
		s.figures.Ended++
		return append(out, f)
	case l.m == nil:
		s.figures.Unmapped++
		return append(out, f)
	}
	f.Module, f.Offset = l.m.path, l.ip-l.m.start+l.m.offset
	if l.a == nil || l.a.unnamed() {
		if name, start := s.made(p, l); name != "" {
			f.Func, f.Offset = name, l.ip-start
			return append(out, f)
		}
	}
	if l.m.module != nil && l.addr != 0 {
		f.Offset = l.addr
	}
	if l.a == nil || len(l.a.frames) == 0 {
		s.figures.Unnamed++
		return append(out, f)
	}
	last := len(l.a.frames) - 1
	for i, x := range l.a.frames {
		g := f
		g.Func, g.File, g.Line, g.Inline = x.name, x.file, x.line, i < last
		switch {
		case g.Inline:
			g.Offset = 0
		case l.a.start != 0 && l.addr >= l.a.start:
			g.Offset = l.addr - l.a.start
		}
		out = append(out, g)
	}
	if l.a.frames[last].name == "" {
		s.figures.Unnamed++
	}
	return out
}

// Learn sets the executable mappings of a process ([proc.FS.Code]), in case it ends before its
// first lookup.
func (s *Symbolizer) Learn(pid uint32, code []proc.Mapping) {
	s.tick++
	p := s.known(pid)
	s.take(p, code, s.now())
	s.bound(p)
}

// Forked copies the parent's mappings to a child, in case it ends before its first lookup.
func (s *Symbolizer) Forked(parent, child uint32) {
	p := s.procs[parent]
	if p == nil || s.procs[child] != nil {
		return
	}
	c := &process{pid: child, code: slices.Clone(p.code), used: s.tick}
	for i := range c.code {
		if m := c.code[i].module; m != nil {
			m.users++
		}
	}
	s.room()
	s.procs[child] = c
}

// Forget drops the data of a process that has ended or called exec. Resolve its stacks before.
func (s *Symbolizer) Forget(pid uint32) {
	if p := s.procs[pid]; p != nil {
		s.leave(p)
		delete(s.procs, pid)
	}
}

// Figures returns the statistics.
func (s *Symbolizer) Figures() Figures {
	f := s.figures
	f.Processes, f.Modules, f.Open, f.Bytes = len(s.procs), len(s.modules), len(s.recent), s.bytes()
	return f
}

// Close closes all files.
func (s *Symbolizer) Close() error {
	var errs []error
	for len(s.recent) > 0 {
		errs = append(errs, s.shut(s.recent[0]))
	}
	clear(s.procs)
	clear(s.modules)
	clear(s.byKey)
	return errors.Join(errs...)
}

// mapping returns the mapping of an address, nil if there is none.
func (p *process) mapping(ip uint64, exact bool) *mapping {
	if !exact && ip > 0 {
		ip-- // a function that never returns may be called at the end of a mapping
	}
	n := sort.Search(len(p.code), func(i int) bool { return p.code[i].end > ip })
	if n == len(p.code) || ip < p.code[n].start {
		return nil
	}
	return &p.code[n]
}
