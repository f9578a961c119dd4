package python

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"ingero/pkg/events"
)

// CodeRecord is the kernel's record of a code object, sent before the first stack that contains it:
// struct py_code_record of bpf/pyabi.h.
type CodeRecord struct {
	PID, Epoch uint32
	Code       uint64
	Mark       uint32
	first      int32
	name, file string
	lines      []byte // nil: read from the process
	pairs      bool   // lines holds pairs: 3.10
	partly     bool   // a name was truncated
}

const (
	codeRecordBytes = 808 // sizeof(struct py_code_record)
	codeRecordName  = 40
	codeRecordFile  = codeRecordName + 256
	codeRecordEnd   = codeRecordFile + 512
)

var errCodeRecord = errors.New("truncated record of a code object")

// ParseCodeRecord parses a code object record of the kernel.
func ParseCodeRecord(b []byte) (CodeRecord, error) {
	if len(b) < codeRecordBytes {
		return CodeRecord{}, fmt.Errorf("%w: %d bytes", errCodeRecord, len(b))
	}
	le := binary.LittleEndian
	t := CodeRecord{PID: le.Uint32(b[4:]), Code: le.Uint64(b[8:]), Mark: le.Uint32(b[16:]), Epoch: le.Uint32(b[20:]),
		first: int32(le.Uint32(b[24:])), pairs: b[1]&flagLasti != 0}
	size := int(le.Uint32(b[28:]))
	if size > len(b)-codeRecordBytes {
		return CodeRecord{}, fmt.Errorf("%w: %d bytes of lines", errCodeRecord, size)
	}
	if size > 0 {
		t.lines = append([]byte(nil), b[codeRecordBytes:codeRecordBytes+size]...)
	}
	for _, s := range []struct {
		to       *string
		head, at int
		room     int
	}{{&t.name, 32, codeRecordName, codeRecordFile - codeRecordName}, {&t.file, 36, codeRecordFile, codeRecordEnd - codeRecordFile}} {
		n, kind, cut := int(le.Uint16(b[s.head:])), b[s.head+2], b[s.head+3] != 0
		if n > s.room {
			return CodeRecord{}, fmt.Errorf("%w: %d bytes of a name", errCodeRecord, n)
		}
		text, err := decodeText(b[s.at:s.at+n], kind, cut)
		t.partly = t.partly || err != nil || cut
		*s.to = text
	}
	return t, nil
}

// codeKey identifies a code object of a process.
type codeKey struct {
	at    uint64
	mark  uint32
	epoch uint32 // the kernel sends a code object once per epoch
}

// code is the part of a code object that stacks need.
type code struct {
	file, name string
	lines      []byte
	first      int32
	pairs      bool // lines holds pairs: 3.10
}

func (c *code) bytes() int { return len(c.file) + len(c.name) + len(c.lines) + 96 }

// Codes maps the code objects of processes to their names. It is not safe for concurrent use. It
// holds at most limit bytes. Beyond them it evicts the code objects of the least recently used
// process, and reads them from the process again when needed.
type Codes struct {
	limit, bytes int
	clock        uint64
	processes    map[uint32]*processCodes
	open         func(pid uint32) (Reader, func(), error)
}

type processCodes struct {
	layout Layout
	known  map[codeKey]*code
	bytes  int
	used   uint64
}

// NewCodes returns a Codes that holds up to limit bytes. open opens the memory of a process, to
// read code objects that the kernel did not send; it may be nil. Its second result closes the
// memory.
func NewCodes(limit int, open func(pid uint32) (Reader, func(), error)) *Codes {
	return &Codes{limit: limit, processes: map[uint32]*processCodes{}, open: open}
}

// Know sets the interpreter of a process, so that code objects without a record can be read.
func (c *Codes) Know(pid uint32, x *Process) { c.process(pid).layout = x.Facts.Layout }

// Fork copies the parent's interpreter layout to the child.
func (c *Codes) Fork(parent, child uint32) {
	if p := c.processes[parent]; p != nil {
		c.process(child).layout = p.layout
	}
}

// Learn adds a code object from a record.
func (c *Codes) Learn(t CodeRecord) {
	p := c.process(t.PID)
	key := codeKey{t.Code, t.Mark, t.Epoch}
	if t.partly || t.lines == nil {
		if full, err := c.read(t.PID, &p.layout, key); err == nil {
			c.add(p, key, full)
			return
		}
	}
	c.add(p, key, &code{file: t.file, name: t.name, lines: t.lines, first: t.first, pairs: t.pairs})
}

// process returns the entry of a process, and creates it if necessary.
func (c *Codes) process(pid uint32) *processCodes {
	p := c.processes[pid]
	if p == nil {
		p = &processCodes{known: map[codeKey]*code{}}
		c.processes[pid] = p
	}
	c.clock++
	p.used = c.clock
	return p
}

func (c *Codes) add(p *processCodes, key codeKey, x *code) {
	if old := p.known[key]; old != nil {
		c.bytes -= old.bytes()
		p.bytes -= old.bytes()
	}
	p.known[key] = x
	c.bytes += x.bytes()
	p.bytes += x.bytes()
	for c.bytes > c.limit {
		oldest := p
		for _, q := range c.processes {
			if q.bytes > 0 && q.used < oldest.used {
				oldest = q
			}
		}
		c.bytes -= oldest.bytes
		oldest.bytes, oldest.known = 0, map[codeKey]*code{}
		if oldest == p {
			break
		}
	}
}

// Forget drops the entry of a process that has ended or called exec.
func (c *Codes) Forget(pid uint32) {
	if p := c.processes[pid]; p != nil {
		c.bytes -= p.bytes
		delete(c.processes, pid)
	}
}

// Size returns the number of bytes held, and the number of processes.
func (c *Codes) Size() (bytes, processes int) { return c.bytes, len(c.processes) }

// Processes lists the processes with an entry, in no order.
func (c *Codes) Processes() []uint32 { return slices.Collect(maps.Keys(c.processes)) }

// PyFrame is a Python frame with its name.
type PyFrame struct {
	Frame  events.Frame
	Entry  bool // the evaluation loop was entered with this frame
	Hidden bool // the frame is in the loop, but Python does not show it, or there is no frame
}

// shimFile is the file of the frame with which the evaluation loop is entered (CPython 3.12 and
// 3.13). The frame's owner marks it as a shim, but a running thread may not have written that yet.
const shimFile = "<shim>"

// Resolve names the frames of a walker's stack. A frame whose code object no longer exists becomes
// a FrameGap.
func (c *Codes) Resolve(pid, epoch uint32, stack []Frame) []PyFrame {
	p := c.process(pid)
	out := make([]PyFrame, 0, len(stack))
	for _, x := range stack {
		f := PyFrame{Entry: x.Code&FrameEntry != 0}
		at := x.Code &^ frameBits
		if at == 0 || x.Code&FrameBegins != 0 {
			f.Hidden = true
			out = append(out, f)
			continue
		}
		key := codeKey{at, x.Mark, epoch}
		known := p.known[key]
		if known == nil {
			if read, err := c.read(pid, &p.layout, key); err == nil {
				known = read
				c.add(p, key, read)
			}
		}
		switch {
		case known == nil:
			f.Frame = events.Frame{Kind: events.FrameGap, Func: "freed Python code"}
		case known.file == shimFile:
			f.Hidden, f.Entry = true, true
		default:
			f.Frame = events.Frame{Kind: events.FramePython, Func: known.name, File: known.file,
				Line: known.line(x.Instr)}
		}
		out = append(out, f)
	}
	return out
}

var errEvicted = errors.New("the code object was freed")

// read reads a code object from its process. It checks the mark before and after reading, to reject
// another object at the same address.
func (c *Codes) read(pid uint32, l *Layout, key codeKey) (*code, error) {
	if c.open == nil || l.CoBytes == 0 {
		return nil, errEvicted
	}
	r, done, err := c.open(pid)
	if err != nil {
		return nil, err
	}
	defer done()
	m := memory{r}
	o, ok := m.code(l, key.at)
	if !ok || m.mark(l, o) != key.mark {
		return nil, errEvicted
	}
	x := &code{first: int32(o.half(l.CoFirst)), pairs: l.Flags&flagLasti != 0}
	if x.file, err = m.text(o.word(l.CoFile), l); err != nil {
		return nil, err
	}
	if x.name, err = m.text(o.word(l.CoQualname), l); err != nil {
		return nil, err
	}
	if x.lines, err = m.bytes(o.word(l.CoLines)); err != nil {
		return nil, err
	}
	if o, ok = m.code(l, key.at); !ok || m.mark(l, o) != key.mark {
		return nil, errEvicted
	}
	return x, nil
}
