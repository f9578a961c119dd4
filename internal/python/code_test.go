package python

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// publishedOf returns the head of _Py_DebugOffsets as a CPython publishes it.
func publishedOf(version uint64, freeThreaded uint64) []byte {
	b := make([]byte, publishedSize)
	copy(b, cookie)
	binary.LittleEndian.PutUint64(b[8:], version)
	binary.LittleEndian.PutUint64(b[16:], freeThreaded)
	return b
}

// Published offsets are refused for interpreters whose stacks cannot be read.
func TestPublishedRefused(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"free-threaded":   {publishedOf(0x030d00f0, 1), ErrFreeThreaded},
		"free-threaded 2": {publishedOf(0x030e06f0, 1), ErrFreeThreaded},
		"3.15":            {publishedOf(0x030f00f0, 0), ErrVersion},
		"4.0":             {publishedOf(0x040000f0, 0), ErrVersion},
		"nothing in it":   {publishedOf(0x030d00f0, 0), ErrMismatch},
	} {
		if _, _, ok, err := parsePublished(c.b); !ok || !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, ok, err, c.want)
		}
	}
	if _, _, ok, err := parsePublished(make([]byte, publishedSize)); ok || err != nil {
		t.Errorf("nothing: got %v, %v", ok, err)
	}
}

func TestReason(t *testing.T) {
	for err, want := range map[error]string{nil: "", ErrVersion: "version", io.EOF: "unreadable",
		errors.Join(io.EOF, ErrFreeThreaded): "free-threaded"} {
		if got := Reason(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}

func FuzzPublished(f *testing.F) {
	f.Add(publishedOf(0x030e06f0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, o, ok, err := parsePublished(b); ok && err == nil && o.Layout.sound() && o.Layout.FBytes > rawBytes {
			t.Errorf("%+v is sound", o)
		}
	})
}

// An invalid kernel record is an error, or parses.
func FuzzTold(f *testing.F) {
	b := make([]byte, codeRecordBytes+8)
	b[28], b[34], b[38] = 8, 1, 2
	f.Add(b)
	f.Add(b[:codeRecordBytes])
	f.Fuzz(func(t *testing.T, b []byte) {
		reported, err := ParseCodeRecord(b)
		if err != nil {
			return
		}
		c := NewCodes(1<<10, nil)
		c.Learn(reported)
		c.Resolve(reported.PID, reported.Epoch, []Frame{{Code: reported.Code &^ frameBits, Mark: reported.Mark, Instr: int32(reported.Code)}})
	})
}

// noise is memory of random bytes.
type noise struct{ *rand.Rand }

func (n noise) ReadAt(b []byte, at int64) (int, error) {
	for i := range b {
		b[i] = byte(n.Uint32())
	}
	if n.IntN(50) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return len(b), nil
}

// ring is memory in which every pointer points to itself.
type ring struct{ at uint64 }

func (r ring) ReadAt(b []byte, at int64) (int, error) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.at)
	}
	return len(b), nil
}

// Invalid memory ends every walk, and is never taken for an interpreter.
func TestNonsense(t *testing.T) {
	for v, o := range byVersion {
		for _, r := range []io.ReaderAt{noise{rand.New(rand.NewPCG(1, 2))}, ring{4096}, ring{0}, ring{1 << 46}} {
			m := memory{r}
			f := Facts{Runtime: 4096}
			for range 100 {
				if err := m.verify(&f, o); err == nil {
					t.Errorf("%s: nonsense is an interpreter", v)
				}
			}
			f.CodeType = 4096
			f.Layout = o.Layout
			if frames, _ := m.frames(&f, 4096); len(frames) > MaxFrames {
				t.Errorf("%s: %d frames", v, len(frames))
			}
		}
	}
}

// The cache stays within its limit, and forgets ended processes.
func TestCodesAreBounded(t *testing.T) {
	const limit = 64 << 10
	c := NewCodes(limit, nil)
	for i := range 200_000 {
		pid := uint32(i/100 + 1)
		c.Learn(CodeRecord{PID: pid, Epoch: 1, Code: uint64(i * 8), Mark: uint32(i), name: "f", file: "a.py", lines: []byte{0}})
		if held, _ := c.Size(); held > limit {
			t.Fatalf("%d bytes are held, the limit is %d", held, limit)
		}
		if i%100 == 99 && pid > 50 {
			c.Forget(pid - 50)
		}
	}
	last := Frame{Code: 199_999 * 8, Mark: 199_999}
	if got := c.Resolve(2000, 1, []Frame{last}); got[0].Frame.Func != "f" {
		t.Errorf("the newest is %q", got[0].Frame.Func)
	}
	if got := c.Resolve(2000, 2, []Frame{last}); got[0].Frame.Func == "f" {
		t.Error("another program has the functions of the one before")
	}
	for pid := range uint32(3000) {
		c.Forget(pid)
	}
	if held, processes := c.Size(); held != 0 || processes != 0 {
		t.Errorf("%d bytes of %d processes are held of none", held, processes)
	}
}

// Code objects stay known while their process has stacks without Python functions, or stacks from
// before its interpreter was sent to the kernel again.
func TestCodesStay(t *testing.T) {
	c := NewCodes(1<<20, nil)
	main := func(epoch uint32) CodeRecord {
		return CodeRecord{PID: 7, Epoch: epoch, Code: 8, Mark: 5, name: "main", file: "train.py", lines: []byte{0}}
	}
	named := func(epoch uint32) string {
		return c.Resolve(7, epoch, []Frame{{Code: 8, Mark: 5}})[0].Frame.Func
	}
	c.Learn(main(1))
	for what, other := range map[string]func(){
		"a thread without Python":   func() { c.Resolve(7, 0, nil) },
		"its interpreter was found": func() { c.Know(7, &Process{Facts: Facts{Epoch: 2}}) },
		"a stack of another epoch":  func() { c.Learn(main(3)); named(2) },
		"it was forked":             func() { c.Fork(7, 8); c.Fork(9, 7) },
	} {
		other()
		if got := named(1); got != "main" {
			t.Errorf("%s: the function is %q", what, got)
		}
	}
	if got := named(2); got == "main" {
		t.Error("a code object that was not reported in this epoch is known")
	}
}

// The shim frame at the entry of the evaluation loop has a code object of its own, but is no
// function, even if it is read before its owner is set.
func TestResolveShim(t *testing.T) {
	c := NewCodes(1<<20, nil)
	known := c.process(7).known
	known[codeKey{at: 0x1000}] = &code{name: "<interpreter trampoline>", file: "<shim>"}
	known[codeKey{at: 0x2000}] = &code{name: "main", file: "a.py"}
	got := c.Resolve(7, 0, []Frame{{Code: 0x2000}, {Code: 0x1000}})
	if len(got) != 2 || got[0].Frame.Func != "main" || got[0].Hidden || !got[1].Hidden || !got[1].Entry || got[1].Frame.Func != "" {
		t.Errorf("frames: %+v", got)
	}
}
