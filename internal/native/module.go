package native

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"ingero/internal/elffile"
	"ingero/internal/native/image"
	"ingero/internal/proc"
	"ingero/internal/symbols"
)

type file = image.File

// content identifies a file's content: by owner and build id, or else by the file and its modification time.
type content struct {
	id       string
	size     int64
	owner    uint32
	key      proc.Key
	modified int64
}

// module is a file of code, with the results of its lookups.
type module struct {
	content content
	img     *image.Image // nil when closed
	layout  elffile.Loads
	answers map[uint64]*answer // by address in the file
	signals map[uint64]*answer // return addresses of signal handlers; nil: not one
	cost    int                // size of the answers, in bytes
	users   int                // number of mappings
	left    time.Time          // when it lost its last mapping
	asked   time.Time          // time of its last lookup
	used    uint64
	bad     bool
}

// answer is the result for an address.
type answer struct {
	start  uint64 // start of the function, 0: unknown
	frames []frame
	signal bool // a signal handler returns here
}

type frame struct {
	name, file string
	line       int32
}

func (a *answer) unnamed() bool { return len(a.frames) == 0 || a.frames[len(a.frames)-1].name == "" }

// Limits of one module.
const (
	maxAnswers = 1 << 16
	maxFunc    = 512 // bytes of a name
	maxFile    = 1024
)

// words interns strings.
type words map[string]string

// maxWords bounds the table of strings; a full table is replaced by an empty one.
const maxWords = 1 << 16

func (w words) keep(s string, cost *int) string {
	if s == "" {
		return ""
	}
	if old, ok := w[s]; ok {
		return old
	}
	if len(w) >= maxWords {
		clear(w)
	}
	s = strings.Clone(s)
	w[s] = s
	*cost += len(s) + 32
	return s
}

// load opens a module's image from a file, and takes ownership of the file.
func (s *Symbolizer) load(mod *module, p *process, m *mapping, f file) bool {
	img, err := image.Open(f, func(d image.Debug, offer func(image.File) bool) {
		s.debug(p.pid, mod.content.owner, m.Mapping.Path, d, offer)
	})
	if err != nil {
		return false
	}
	mod.img, mod.layout, mod.asked = img, img.Layout(), s.now()
	s.recent = append(s.recent, mod)
	return true
}

// shut closes a module's image.
func (s *Symbolizer) shut(mod *module) error {
	if mod.img == nil {
		return nil
	}
	err := mod.img.Close()
	mod.img = nil
	s.recent = slices.DeleteFunc(s.recent, func(o *module) bool { return o == mod })
	return err
}

// kernelCode returns the module of the vdso.
func (s *Symbolizer) kernelCode() *module {
	if s.vdso != nil {
		return s.vdso
	}
	b, err := s.fs.VDSO()
	if err != nil {
		return nil
	}
	mod := &module{content: content{id: "vdso"}, answers: map[uint64]*answer{}}
	if !s.load(mod, &process{}, &mapping{}, bytesFile{bytes.NewReader(b)}) {
		return nil
	}
	mod.users++ // so it is never dropped
	s.vdso, s.modules[mod.content] = mod, mod
	return mod
}

type bytesFile struct{ *bytes.Reader }

func (bytesFile) Close() error { return nil }

// trampolines are the instructions to which signal handlers return, per machine: mov $15, %rax;
// syscall, and mov x8, #139; svc #0.
var trampolines = []string{"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", "\x68\x11\x80\xd2\x01\x00\x00\xd4"}

// signalReturn returns the answer for an address to which a signal handler returns, or nil. The
// frame above it was interrupted, and made no call.
func (s *Symbolizer) signalReturn(l *lookup) *answer {
	mod, addr := l.m.module, l.addr
	if a, known := mod.signals[addr]; known || mod.img == nil && !s.reopen(mod, l.m) {
		return a
	}
	mod.cost += 48
	if mod.signals == nil || len(mod.signals) >= maxAnswers {
		mod.signals = map[uint64]*answer{}
	}
	var a *answer
	for _, code := range trampolines {
		var b [9]byte
		if mod.img.Read(b[:len(code)], addr) && string(b[:len(code)]) == code {
			a = &answer{start: addr, frames: []frame{{name: signalName}}, signal: true}
		}
	}
	mod.signals[addr] = a
	s.grew = true
	return a
}

// signalName is the name of the frame between a signal handler and the interrupted function.
const signalName = "<signal handler called>"

// find looks addresses up in a module's file.
func (s *Symbolizer) find(mod *module, lookups []*lookup) {
	s.figures.Cold += uint64(len(lookups))
	s.grew = true
	mod.asked = s.now()
	if mod.img == nil && !s.reopen(mod, lookups[0].m) {
		return
	}
	if len(mod.answers)+len(lookups) > maxAnswers {
		clear(mod.answers)
		mod.cost = 0
	}
	var addrs []uint64
	for _, l := range lookups {
		if k := l.key(); mod.answers[k] == nil {
			mod.answers[k] = &answer{}
			addrs = append(addrs, k)
		}
	}
	for _, place := range mod.img.Find(addrs) {
		a := mod.answers[place.Addr]
		a.start = place.Start
		mod.cost += 96
		for _, f := range place.Frames {
			a.frames = append(a.frames, frame{
				name: s.words.keep(symbols.Function(f.Func, maxFunc), &mod.cost),
				file: s.words.keep(tail(f.File, maxFile), &mod.cost), line: f.Line})
			mod.cost += 40
		}
	}
	for _, l := range lookups {
		l.a = mod.answers[l.key()]
	}
}

// tail returns the end of a path that is too long.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return "..." + strings.ToValidUTF8(s[len(s)-most+3:], "")
}

// reopen opens a module whose image was closed.
func (s *Symbolizer) reopen(mod *module, m *mapping) bool {
	for _, p := range s.procs {
		for i := range p.code {
			if p.code[i].module != mod {
				continue
			}
			f, c, err := s.open(p, &p.code[i])
			if err == nil && c == mod.content {
				return s.load(mod, p, m, f)
			}
			if err == nil {
				_ = f.Close()
			}
			break
		}
	}
	return false
}
