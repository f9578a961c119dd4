package python

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"
)

// threadState is a thread as the interpreter knows it.
type threadState struct {
	at     uint64
	interp uint64
	id     uint64 // pthread_self()
	native uint64 // its number in its PID namespace; 3.11 on
	top    uint64 // innermost frame, 0: runs no Python
}

// threads lists the thread states of all interpreters, and checks their links.
func (m memory) threads(f *Facts, tsNative uint16) ([]threadState, error) {
	l := &f.Layout
	interp, err := m.word(f.Runtime + uint64(l.InterpHead))
	if err != nil {
		return nil, err
	}
	if interp == 0 {
		return nil, ErrNotReady
	}
	var out []threadState
	for n := 0; interp != 0; n++ {
		if n == maxInterps {
			return nil, fmt.Errorf("%w: over %d interpreters", ErrMismatch, maxInterps)
		}
		if out, err = m.threadsOf(l, interp, tsNative, out); err != nil {
			return nil, err
		}
		if interp, err = m.word(interp + uint64(l.InterpNext)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (m memory) threadsOf(l *Layout, interp uint64, tsNative uint16, out []threadState) ([]threadState, error) {
	at, err := m.word(interp + uint64(l.InterpThreads))
	if err != nil {
		return nil, err
	}
	for prev := uint64(0); at != 0; {
		if len(out) == maxThreads {
			return nil, fmt.Errorf("%w: over %d threads", ErrMismatch, maxThreads)
		}
		o := object{b: make([]byte, max(l.TsBytes, tsNative+8))}
		if err := m.read(o.b, at); err != nil {
			return nil, err
		}
		if o.word(0) != prev || o.word(tsInterp) != interp {
			return nil, fmt.Errorf("%w: a thread state that is not linked", ErrMismatch)
		}
		t := threadState{at: at, interp: interp, id: o.word(l.TsID), top: o.word(l.TsFrame)}
		if tsNative != 0 {
			t.native = o.word(tsNative)
		}
		if l.Flags&flagCFrame != 0 && t.top != 0 {
			if t.top, err = m.word(t.top + uint64(l.CframeFrame)); err != nil {
				return nil, err
			}
		}
		out = append(out, t)
		prev, at = at, o.word(tsNext)
	}
	return out, nil
}

const (
	attempts  = 32 // bound on the retries, since the process changes while it is read
	maxFailed = 8  // threads whose stacks do not fit, per attempt
)

// verify follows offsets through the live process, and completes f. It accepts them if the whole
// stack of one thread is plausible, down to names and lines.
func (m memory) verify(f *Facts, o offsets) error {
	f.Layout = o.Layout
	if !f.Layout.sound() {
		return fmt.Errorf("%w: impossible offsets", ErrMismatch)
	}
	var err error
	for range attempts {
		if err = m.verifyOnce(f, o.tsNative); err == nil || errors.Is(err, ErrNotReady) || errors.Is(err, errReads) {
			return err
		}
	}
	return err
}

func (m memory) verifyOnce(f *Facts, tsNative uint16) error {
	threads, err := m.threads(f, tsNative)
	if err != nil {
		return err
	}
	result := fmt.Errorf("%d threads: %w", len(threads), ErrNotReady)
	failed := 0
	for _, t := range threads {
		if t.top == 0 {
			continue
		}
		if result = m.verifyThread(f, t); result == nil {
			return nil
		}
		if !errors.Is(result, ErrNotReady) && !errors.Is(result, ErrThreads) { // neither idle nor ended
			failed++
		}
		if failed == maxFailed {
			break
		}
	}
	return result
}

func (m memory) verifyThread(f *Facts, t threadState) error {
	if err := m.verifyID(f, t.id); err != nil {
		return err
	}
	codeType, err := m.codeType(f, t.top)
	if err != nil {
		return err
	}
	f.CodeType = codeType
	if err := m.verifyMembers(f); err != nil {
		return err
	}
	frames, end := m.frames(f, t.top)
	if end != EndOK && end != EndCut {
		return fmt.Errorf("%w: a walk ended with %q", ErrMismatch, end)
	}
	if n := len(frames); n > 0 && end == EndOK && frames[n-1].Code&FrameEntry == 0 {
		return fmt.Errorf("%w: the outermost function has no caller", ErrMismatch)
	}
	seen := 0
	for i, x := range frames {
		if x.Code&^frameBits == 0 {
			continue
		}
		if err := m.verifyCode(&f.Layout, x); err != nil {
			return err
		}
		// A frame that stands for the construction of an object stays before its first instruction.
		if i > 0 && x.Instr <= 0 && !m.neverBegins(&f.Layout, x) {
			return fmt.Errorf("%w: a function called another before its first instruction", ErrMismatch)
		}
		seen++
	}
	if seen == 0 {
		return fmt.Errorf("a thread without functions: %w", ErrNotReady)
	}
	return nil
}

// neverBegins reports whether Python shows none of a function's instructions. From 3.12 on such a
// function stands between one that makes an object and that object's __init__.
func (m memory) neverBegins(l *Layout, x Frame) bool {
	at := x.Code &^ frameBits
	code, ok := m.code(l, at)
	if x.Code&FrameBegins == 0 || !ok {
		return false
	}
	size, err := m.codeBytes(l, at, code)
	return err == nil && int64(code.half(l.CoCode-traceApart))*2 >= size
}

// verifyID checks the thread id. On x86-64 the C libraries store the address of the structure at
// pthread_self() in its first word.
func (m memory) verifyID(f *Facts, id uint64) error {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	if self, err := m.word(id); err != nil || self != id {
		return fmt.Errorf("%w: a thread state with another number (%v)", ErrThreads, err)
	}
	return nil
}

// codeType finds the type of code objects from the first frame that has one.
func (m memory) codeType(f *Facts, at uint64) (uint64, error) {
	l := &f.Layout
	for range maxSteps {
		o := object{b: make([]byte, l.FBytes)}
		if err := m.read(o.b, at); err != nil {
			return 0, err
		}
		code := o.word(l.FCode) &^ frameBits
		if l.Flags&flagLasti == 0 && o.b[l.FOwner] >= ownerShim {
			if at = o.word(l.FPrev); at == 0 {
				return 0, fmt.Errorf("a thread without functions: %w", ErrNotReady)
			}
			continue
		}
		if !m.hasType(code, "code") {
			return 0, fmt.Errorf("%w: a frame without a code object", ErrMismatch)
		}
		return m.word(code + typeOf)
	}
	return 0, fmt.Errorf("%w: frames without end", ErrMismatch)
}

// maxMembers bounds the members of code objects that are read: CPython has some 20.
const maxMembers = 64

// verifyMembers compares the offsets in code objects with the member descriptors of their type, and
// with the size of an object without instructions.
func (m memory) verifyMembers(f *Facts) error {
	l := &f.Layout
	want := map[string]uint16{"co_filename": l.CoFile, "co_name": l.CoName, "co_qualname": l.CoQualname,
		"co_linetable": l.CoLines, "co_firstlineno": l.CoFirst}
	if l.Flags&flagLasti != 0 {
		delete(want, "co_qualname")
		if l.CoQualname != l.CoName {
			return fmt.Errorf("%w: 3.10 has qualified names", ErrMismatch)
		}
	}
	if size, err := m.word(f.CodeType + typeSize); err != nil || l.Flags&flagLasti == 0 && size != uint64(l.CoCode) {
		return fmt.Errorf("%w: code objects of %d bytes (%v)", ErrMismatch, size, err)
	}
	at, err := m.word(f.CodeType + typeMembers)
	if err != nil {
		return err
	}
	for n := 0; len(want) > 0; n++ {
		if n == maxMembers {
			return fmt.Errorf("%w: code objects of more than %d members", ErrMismatch, maxMembers)
		}
		o := object{b: make([]byte, memberBytes)}
		if err := m.read(o.b, at); err != nil {
			return err
		}
		var b [maxWanted]byte
		if o.word(0) == 0 || m.read(b[:], o.word(0)) != nil {
			return fmt.Errorf("%w: code objects have no member %v", ErrMismatch, slices.Sorted(maps.Keys(want)))
		}
		name := cstring(b[:])
		if off, ok := want[name]; ok && uint64(off) != o.word(memberOffset) {
			return fmt.Errorf("%w: %s is at %d", ErrMismatch, name, o.word(memberOffset))
		}
		delete(want, name)
		at += memberBytes
	}
	return nil
}

// verifyCode checks the code object of one frame.
func (m memory) verifyCode(l *Layout, x Frame) error {
	at := x.Code &^ frameBits
	code, ok := m.code(l, at)
	if !ok {
		return fmt.Errorf("%w: code at %#x", ErrMismatch, at)
	}
	for _, s := range []struct {
		off  uint16
		kind string
	}{{l.CoFile, "str"}, {l.CoName, "str"}, {l.CoQualname, "str"}, {l.CoLines, "bytes"}} {
		if !m.hasType(code.word(s.off), s.kind) {
			return fmt.Errorf("%w: not a valid %s", ErrMismatch, s.kind)
		}
	}
	if _, err := m.text(code.word(l.CoFile), l); err != nil {
		return err
	}
	name, err := m.text(code.word(l.CoQualname), l)
	if err != nil {
		return err
	}
	if name == "" || strings.ContainsRune(name, utf8.RuneError) {
		return fmt.Errorf("%w: a function called %q", ErrMismatch, name)
	}
	size, err := m.codeBytes(l, at, code)
	if err != nil {
		return err
	}
	if int64(x.Instr) < -2 || int64(x.Instr) >= size || code.half(l.CoFirst) > maxFirstLine {
		return fmt.Errorf("%w: instruction %d of %d, first line %d", ErrMismatch, x.Instr, size, code.half(l.CoFirst))
	}
	return nil
}

// codeBytes returns the length of a function's instructions, in bytes.
func (m memory) codeBytes(l *Layout, at uint64, code object) (int64, error) {
	of := at
	units := int64(2) // from 3.11 on the size counts instructions
	if l.Flags&flagLasti != 0 {
		of, units = code.word(l.CoCode), 1
	}
	n, err := m.word(of + sizeOf)
	if n > 1<<30 {
		return 0, fmt.Errorf("%w: %d instructions", ErrMismatch, n)
	}
	return int64(n) * units, err
}
