package native

import (
	"errors"
	"sort"
	"time"

	"ingero/internal/proc"
	"ingero/pkg/events"
)

// Limits bound what a Symbolizer holds. Zero means the default.
type Limits struct {
	// Bytes of tables, of names and of what is known of processes: 32 MiB.
	Bytes int
	// Processes that are known: 1024.
	Processes int
	// Idle is how long a file that was not asked about stays open, and how long what is
	// known of it stays where no process has it any more: 10 s and six times that.
	Idle time.Duration
}

// Figures are what a Symbolizer did and holds.
type Figures struct {
	Frames    uint64 // addresses that were asked about
	Cold      uint64 // of these: looked up in a file
	Unnamed   uint64 // of these: without a function
	Unmapped  uint64 // of these: of nothing that the process has mapped
	Ended     uint64 // of these: the process ended before it was looked at
	Unread    uint64 // files that could not be read
	Dropped   uint64 // files and perf maps that were let go for want of room
	Processes int
	Modules   int
	Open      int // files
	Bytes     int
}

// Symbolizer names addresses of processes.
type Symbolizer struct {
	fs      proc.FS
	limits  Limits
	now     func() time.Time
	figures Figures
	procs   map[uint32]*process
	modules map[content]*module
	byKey   map[proc.Key]*module // what a file was when it was last looked at
	vdso    *module
	recent  []*module // that have a file open
	words   words
	tick    uint64 // of uses: what was used last has the largest
	grew    bool   // something was taken in since it was last weighed
}

// New returns a Symbolizer of the processes of fs. now may be nil.
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

// lookup is an address on its way to its frames.
type lookup struct {
	ip    uint64
	exact bool // ip is where the thread is, and not where a call returns to
	m     *mapping
	addr  uint64 // in the module's file
	a     *answer
}

// Resolve names the addresses of a stack of a process that was there at seen, in Unix ns;
// innermost first. All but the first are where calls return to; the first one is, unless
// it is exact. There is a frame for each address, and one for each function that was put
// into another.
func (s *Symbolizer) Resolve(pid uint32, seen int64, ips []uint64, exact bool) []events.Frame {
	s.tick++
	s.figures.Frames += uint64(len(ips))
	p := s.process(pid, seen, ips)
	list := make([]lookup, len(ips))
	cold := map[*module][]*lookup{}
	for i, ip := range ips {
		l := &list[i]
		l.ip, l.exact = ip, i == 0 && exact || i > 0 && list[i-1].a != nil && list[i-1].a.signal
		l.m = p.at(ip, l.exact)
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
	for mod, asked := range cold {
		s.find(mod, asked)
	}
	out := make([]events.Frame, 0, len(ips)+len(ips)/4)
	for i := range list {
		out = s.frames(out, p, &list[i])
	}
	s.bound(p)
	return out
}

// key is the address whose instruction was executed: before the one returned to.
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

// Learn takes what a process has mapped as code, in case it ends before it is asked about:
// [proc.FS.Code].
func (s *Symbolizer) Learn(pid uint32, code []proc.Mapping) {
	s.tick++
	p := s.known(pid)
	s.take(p, code, s.now())
	s.bound(p)
}

// Forked lets a child have what its parent has mapped, in case it ends before it is asked
// about.
func (s *Symbolizer) Forked(parent, child uint32) {
	p := s.procs[parent]
	if p == nil || s.procs[child] != nil {
		return
	}
	c := &process{pid: child, code: p.code, used: s.tick, inherited: true}
	for i := range c.code {
		if m := c.code[i].module; m != nil {
			m.users++
		}
	}
	s.room()
	s.procs[child] = c
}

// Forget lets go what is known of a process: it has ended, or runs another program. Its
// stacks are to be resolved before.
func (s *Symbolizer) Forget(pid uint32) {
	if p := s.procs[pid]; p != nil {
		s.leave(p)
		delete(s.procs, pid)
	}
}

// Figures returns what was done and is held.
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

// at returns the mapping of an address, nil if there is none.
func (p *process) at(ip uint64, exact bool) *mapping {
	if !exact && ip > 0 {
		ip-- // a function that never returns may be called at the end of a mapping
	}
	n := sort.Search(len(p.code), func(i int) bool { return p.code[i].end > ip })
	if n == len(p.code) || ip < p.code[n].start {
		return nil
	}
	return &p.code[n]
}
