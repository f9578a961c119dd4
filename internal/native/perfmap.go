package native

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"ingero/internal/symbols"
)

// Limits of the names that a process writes for its run-time code.
const (
	maxJIT      = 1 << 16  // functions
	maxJITNames = 4 << 20  // bytes
	maxJITBytes = 64 << 20 // of the file
	jitChunk    = 256 << 10
	jitOverlap  = 64 // earlier functions to search for one that covers an address
)

// perfMap is the content of a process's /tmp/perf-PID.map: one line per function, in hexadecimal
// except for the name. Later lines override earlier ones, since a JIT reuses addresses.
//
//	START SIZE name of the function
type perfMap struct {
	path   string
	uid    uint32
	looked time.Time // time of the last read
	off    int64     // bytes read so far
	funcs  []jitted
	names  []byte
	next   uint32
	full   bool
}

type jitted struct {
	start, end uint64
	most       uint64 // largest end among the functions up to this one
	name       uint32 // offset of its name in names
	n          uint16
	order      uint32
}

func (j *perfMap) bytes() int {
	if j == nil {
		return 0
	}
	return cap(j.funcs)*40 + cap(j.names)
}

// made returns the name and the start of a function that was made at run time.
func (s *Symbolizer) made(p *process, l *lookup) (name string, start uint64) {
	if l.m.module != nil && l.m.module != s.vdso && l.a != nil {
		return "", 0 // in an ELF file
	}
	ip := l.ip
	if !l.exact {
		ip--
	}
	if p.jit == nil {
		p.jit = s.perfMap(p.pid)
	}
	if now := s.now(); now.Sub(p.jit.looked) >= refreshWait {
		p.jit.looked = now
		s.more(p)
	}
	x := p.jit.find(ip)
	if x == nil {
		return "", 0
	}
	return symbols.Function(string(p.jit.names[x.name:x.name+uint32(x.n)]), maxFunc), x.start
}

// perfMap finds the path of a process's map. Its name has the process's number in its own PID
// namespace.
func (s *Symbolizer) perfMap(pid uint32) *perfMap {
	j := &perfMap{}
	if x, err := s.fs.Process(pid); err == nil {
		j.path, j.uid = fmt.Sprintf("/tmp/perf-%d.map", x.NSPID()), x.UID
	}
	return j
}

var errOwner = errors.New("another user owns it")

// more reads new lines of a process's map. Anybody can write files to /tmp, so only files owned by
// the process's user or root count.
func (s *Symbolizer) more(p *process) {
	j := p.jit
	if j.path == "" || j.full {
		return
	}
	f, err := s.fs.OpenIn(p.pid, j.path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	size, err := j.owned(f)
	if err != nil || size == j.off {
		return
	}
	if size < j.off { // the file was replaced
		*j = perfMap{path: j.path, uid: j.uid, looked: j.looked}
	}
	s.grew = true
	j.add(io.NewSectionReader(f, j.off, min(size, maxJITBytes)-j.off))
	j.full = j.full || size > maxJITBytes
}

func (j *perfMap) owned(f *os.File) (size int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || sys.Uid != 0 && sys.Uid != j.uid {
		return 0, errOwner
	}
	return st.Size(), nil
}

// add parses lines, up to the last complete one.
func (j *perfMap) add(r io.Reader) {
	buf := make([]byte, 0, jitChunk)
	for !j.full {
		got, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+got]
		used := 0
		for !j.full {
			end := bytes.IndexByte(buf[used:], '\n')
			if end < 0 {
				break
			}
			j.line(buf[used : used+end])
			used += end + 1
		}
		if used == 0 && len(buf) == cap(buf) { // no line is that long
			used = len(buf)
		}
		j.off += int64(used)
		buf = buf[:copy(buf, buf[used:])]
		if err != nil {
			break
		}
	}
	j.sort()
}

// line parses one line, and ignores an invalid one.
func (j *perfMap) line(b []byte) {
	start, rest, ok := bytes.Cut(b, []byte(" "))
	size, name, named := bytes.Cut(rest, []byte(" "))
	if !ok || !named {
		return
	}
	at, err := strconv.ParseUint(string(bytes.TrimPrefix(start, []byte("0x"))), 16, 64)
	n, err2 := strconv.ParseUint(string(bytes.TrimPrefix(size, []byte("0x"))), 16, 64)
	name = bytes.TrimSpace(name)
	name = name[:min(len(name), maxFunc)]
	if err != nil || err2 != nil || n == 0 || at+n < at || len(name) == 0 || !text(name) {
		return
	}
	if len(j.funcs) >= maxJIT || len(j.names)+len(name) > maxJITNames {
		j.full = true
		return
	}
	j.funcs = append(j.funcs, jitted{start: at, end: at + n, name: uint32(len(j.names)), n: uint16(len(name)), order: j.next})
	j.names = append(j.names, name...)
	j.next++
}

// text reports whether b is printable.
func text(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(b)
}

func (j *perfMap) sort() {
	slices.SortFunc(j.funcs, func(a, b jitted) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.order, b.order)) })
	most := uint64(0)
	for i := range j.funcs {
		most = max(most, j.funcs[i].end)
		j.funcs[i].most = most
	}
}

// find returns the function at an address that was written last.
func (j *perfMap) find(ip uint64) (best *jitted) {
	n := sort.Search(len(j.funcs), func(i int) bool { return j.funcs[i].start > ip })
	for i := n - 1; i >= 0 && i >= n-jitOverlap && j.funcs[i].most > ip; i-- {
		if x := &j.funcs[i]; ip < x.end && (best == nil || x.order > best.order) {
			best = x
		}
	}
	return best
}
