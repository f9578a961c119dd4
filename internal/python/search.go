package python

import (
	"fmt"
	"math"
	"strings"
)

// probeOutput is what probe.py prints about objects that do not move.
type probeOutput struct {
	basic       uint64 // size of a code object without its instructions, in bytes
	ascii, wide uint64 // addresses of two texts
	main, other uint64 // pthread_self() of two threads
	mainNative  uint64 // their kernel thread numbers
	otherNative uint64
	frames      []probeFrame
}

// probeFrame is a function on the second thread's stack.
type probeFrame struct {
	frame, code, instr, first, file, name, qualname, lines, instructions uint64
}

// The texts as they lie in memory, and the switch interval.
const (
	asciiText = "an ASCII text to look for"
	wideText  = "a\x00 \x00t\x00e\x00x\x00t\x00 \x00t\x00o\x00"
	interval  = 187_500 // us: how long a thread keeps the lock while another waits for it
)

// owners are the owners of the second thread's frames, innermost first.
var owners = []byte{0, ownerGen, 0, ownerGen, 0, 0}

// How far to search within a structure, in bytes.
const (
	lookRuntime = 4096
	lookInterp  = 8192
	lookThread  = 512
	lookObject  = 512
	lookFrame   = 128
)

// parse parses one line of probe.py.
func (s *probeOutput) parse(line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil
	}
	var f probeFrame
	into := map[string][]*uint64{
		"basic": {&s.basic}, "texts": {&s.ascii, &s.wide}, "threads": {&s.main, &s.other, &s.mainNative, &s.otherNative},
		"frame": {&f.frame, &f.code, &f.instr, &f.first, &f.file, &f.name, &f.qualname, &f.lines, &f.instructions},
	}[words[0]]
	if into == nil || len(words) != 1+len(into) {
		return fmt.Errorf("%w: unexpected output %q", ErrMismatch, line)
	}
	for i, to := range into {
		if _, err := fmt.Sscan(words[1+i], to); err != nil {
			return fmt.Errorf("%w: unexpected output %q: %w", ErrMismatch, line, err)
		}
	}
	if f.frame != 0 {
		s.frames = append(s.frames, f)
	}
	return nil
}

// finder searches the memory of an interpreter for what probe.py printed.
type finder struct {
	memory
	output  probeOutput
	missing []string // members not found
}

// window reads up to most bytes from an address.
func (x *finder) window(at uint64, most int) object {
	for b := make([]byte, most); len(b) >= 8; b = b[:len(b)/2] {
		if at%8 == 0 && x.read(b, at) == nil {
			return object{b: b}
		}
	}
	return object{}
}

// same returns the first offset at which every object has the wanted value, of size one, four or
// eight bytes.
func (x *finder) same(what string, size int, objects []object, want func(i int) uint64) uint16 {
	least := len(objects[0].b)
	for _, o := range objects {
		least = min(least, len(o.b))
	}
	for off := 0; off+8 <= least; off += size {
		if !differ(size, uint16(off), objects, want) {
			return uint16(off)
		}
	}
	x.missing = append(x.missing, what)
	return 0
}

func differ(size int, off uint16, objects []object, want func(i int) uint64) bool {
	unused := 64 - 8*size // bits
	for i, o := range objects {
		if o.word(off)<<unused != want(i)<<unused {
			return true
		}
	}
	return false
}

// search finds the offsets of an interpreter whose structures are of its version's kind. As with
// all sources, they are then checked in the target process.
func search(m memory, runtime uint64, v Version, s probeOutput) (offsets, error) {
	kind, known := byVersion[v]
	if !known {
		return offsets{}, fmt.Errorf("CPython %s: %w", v, ErrVersion)
	}
	if len(s.frames) != len(owners) {
		return offsets{}, fmt.Errorf("%w: it reports %d frames", ErrMismatch, len(s.frames))
	}
	x := &finder{memory: m, output: s}
	o := offsets{Layout: Layout{Flags: kind.Flags}, gilLocation: kind.gilLocation}
	x.codes(&o.Layout)
	x.texts(&o.Layout)
	top := x.frames(&o.Layout)
	x.states(&o, runtime, top)
	if len(x.missing) > 0 {
		return offsets{}, fmt.Errorf("%w: not found: %s", ErrMismatch, strings.Join(x.missing, ", "))
	}
	return o, nil
}

// codes finds the members of code objects.
func (x *finder) codes(l *Layout) {
	var objects []object
	for _, f := range x.output.frames {
		objects = append(objects, x.window(f.code, lookObject))
	}
	at := func(what string, size int, of func(f *probeFrame) uint64) uint16 {
		return x.same(what, size, objects, func(i int) uint64 { return of(&x.output.frames[i]) })
	}
	l.CoFile = at("co_filename", 8, func(f *probeFrame) uint64 { return f.file })
	l.CoName = at("co_name", 8, func(f *probeFrame) uint64 { return f.name })
	l.CoLines = at("co_linetable", 8, func(f *probeFrame) uint64 { return f.lines })
	l.CoFirst = at("co_firstlineno", 4, func(f *probeFrame) uint64 { return f.first })
	if l.Flags&flagLasti != 0 {
		l.CoQualname = l.CoName
		l.CoCode = at("co_code", 8, func(f *probeFrame) uint64 { return f.instructions })
		l.CoBytes = max(l.CoLines, l.CoName, l.CoFile, l.CoFirst)
		return
	}
	l.CoQualname = at("co_qualname", 8, func(f *probeFrame) uint64 { return f.qualname })
	l.CoCode = uint16(min(x.output.basic, math.MaxUint16))
	l.CoBytes = l.CoCode - 8
}

// texts finds where the characters of a str begin.
func (x *finder) texts(l *Layout) {
	for _, t := range []struct {
		to   *uint16
		at   uint64
		text string
	}{{&l.StrASCII, x.output.ascii, asciiText}, {&l.StrCompact, x.output.wide, wideText}} {
		off := strings.Index(string(x.window(t.at, lookFrame).b), t.text)
		if off < 0 {
			x.missing = append(x.missing, "characters")
		}
		*t.to = uint16(max(off, 0))
	}
}

// frames finds the members of frames, which are objects or what objects point to. It returns the
// innermost frame of the second thread.
func (x *finder) frames(l *Layout) (top uint64) {
	var objects []object
	for _, f := range x.output.frames {
		objects = append(objects, x.window(f.frame, lookFrame))
	}
	code := func(i int) uint64 { return x.output.frames[i].code }
	if l.Flags&flagLasti != 0 {
		l.FCode = x.same("f_code", 8, objects, code)
		l.FPrev = x.same("f_back", 8, objects[:len(objects)-1], func(i int) uint64 { return x.output.frames[i+1].frame })
		l.FInstr = x.same("f_lasti", 4, objects, func(i int) uint64 { return x.output.frames[i].instr / 2 })
		l.FBytes = l.FInstr + 8
		return x.output.frames[0].frame
	}
	at, inner := x.behind(objects, code)
	if at == nil {
		x.missing = append(x.missing, "f_frame")
		return 0
	}
	l.FCode = x.same("f_code", 8, inner, code)
	callers := []int{0, 2, 4} // the frames that Python called, not the generators
	l.FPrev = x.same("previous", 8, pick(inner, callers), func(i int) uint64 { return at[callers[i]+1] })
	l.FInstr = x.same("prev_instr", 8, inner, func(i int) uint64 { return code(i) + uint64(l.CoCode) + x.output.frames[i].instr })
	l.FOwner = x.same("owner", 1, inner, func(i int) uint64 { return uint64(owners[i]) })
	l.FBytes = (max(l.FOwner, l.FInstr) + 8) &^ 7
	return at[0]
}

// behind finds the member of frame objects that points to the structure with their code.
func (x *finder) behind(objects []object, code func(i int) uint64) (at []uint64, inner []object) {
	for off := uint16(0); off+8 <= lookFrame; off += 8 {
		at, inner = nil, nil
		for i, o := range objects {
			if int(off)+8 > len(o.b) {
				return nil, nil
			}
			w := x.window(o.word(off), lookFrame)
			if len(w.b) == 0 || !w.has(code(i)) {
				break
			}
			at, inner = append(at, o.word(off)), append(inner, w)
		}
		if len(at) == len(objects) {
			return at, inner
		}
	}
	return nil, nil
}

func pick(objects []object, which []int) []object {
	var out []object
	for _, i := range which {
		out = append(out, objects[i])
	}
	return out
}

// has reports whether an object contains a word.
func (o object) has(word uint64) bool {
	for off := 0; off+8 <= len(o.b); off += 8 {
		if o.word(uint16(off)) == word {
			return true
		}
	}
	return false
}

// states finds the interpreter, its threads and its lock. top is the innermost frame of the second
// thread.
func (x *finder) states(o *offsets, runtime, top uint64) {
	head, interp, threads := x.interpreter(runtime, &o.Layout)
	if len(threads) != 2 {
		x.missing = append(x.missing, "thread states")
		return
	}
	first, second := threads[0].window, threads[1].window
	o.TsID = x.same("thread_id", 8, []object{first, second}, func(i int) uint64 { return []uint64{x.output.main, x.output.other}[i] })
	if o.Flags&flagLasti == 0 {
		o.tsNative = x.same("native_thread_id", 8, []object{first, second}, func(i int) uint64 { return []uint64{x.output.mainNative, x.output.otherNative}[i] })
	}
	x.top(&o.Layout, second, top)
	o.TsBytes = max(o.TsID, o.TsFrame, tsInterp) + 8
	from := head
	if o.gilLocation != gilInRuntime {
		from = interp
	}
	for off := 0; off+2*8 <= len(from.b); off += 8 {
		if holder := from.word(uint16(off) + gilHolder); from.word(uint16(off)) == interval && (holder == threads[0].at || holder == threads[1].at) {
			o.gil = uint16(off)
			return
		}
	}
	x.missing = append(x.missing, "gil")
}

// top finds how a thread state leads to its thread's innermost frame.
func (x *finder) top(l *Layout, state object, top uint64) {
	if l.Flags&flagCFrame == 0 {
		l.TsFrame = x.same("frame", 8, []object{state}, func(int) uint64 { return top })
		return
	}
	for off := uint16(tsInterp + 8); int(off)+8 <= len(state.b); off += 8 {
		w := x.window(state.word(off), lookFrame)
		if len(w.b) > 0 && w.has(top) {
			l.TsFrame = off
			l.CframeFrame = x.same("current_frame", 8, []object{w}, func(int) uint64 { return top })
			return
		}
	}
	x.missing = append(x.missing, "cframe")
}

// state is a thread state.
type state struct {
	at     uint64
	window object
}

// interpreter finds the only interpreter from _PyRuntime, and its two threads, the main one first.
func (x *finder) interpreter(runtime uint64, l *Layout) (head, interp object, threads []state) {
	head = x.window(runtime, lookRuntime)
	for a := uint16(0); int(a)+8 <= len(head.b); a += 8 {
		at := head.word(a)
		interp = x.window(at, lookInterp)
		for b := uint16(0); int(b)+8 <= len(interp.b); b += 8 {
			if threads = x.list(at, interp.word(b)); threads != nil {
				l.InterpHead, l.InterpThreads = a, b
				return head, interp, threads
			}
		}
	}
	return head, object{}, nil
}

// list returns the first two thread states of an interpreter's list, nil if the address has no such
// list. The interpreter puts new threads in front.
func (x *finder) list(interp, at uint64) []state {
	second := state{at, x.window(at, lookThread)}
	if !second.follows(interp, 0) || !second.window.has(x.output.other) {
		return nil
	}
	first := state{second.window.word(tsNext), object{}}
	first.window = x.window(first.at, lookThread)
	if !first.follows(interp, at) || first.window.word(tsNext) != 0 || !first.window.has(x.output.main) {
		return nil
	}
	return []state{first, second}
}

// follows reports whether s is a thread state of interp that follows prev.
func (s *state) follows(interp, prev uint64) bool {
	return len(s.window.b) >= lookThread/4 && s.window.word(0) == prev && s.window.word(tsInterp) == interp
}
