package log

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// file is a log's file that can fail after some bytes.
type file struct {
	bytes.Buffer
	room int // bytes that a write may still take
}

var errFull = errors.New("the disk is full")

func (f *file) Write(p []byte) (int, error) {
	n, _ := f.Buffer.Write(p[:min(len(p), f.room)])
	if f.room -= n; n < len(p) {
		return n, errFull
	}
	return n, nil
}

func (f *file) Truncate(n int64) error {
	f.Buffer.Truncate(int(n))
	return nil
}

// written returns a log of three frames of 5 bytes.
func written(t *testing.T) []byte {
	t.Helper()
	f := &file{room: 1 << 10}
	w := NewWriter(f)
	for kind := range Kind(3) {
		w.Append(kind+1, 1, []byte("hello"))
	}
	if err := w.Write(); err != nil || w.Size() != int64(f.Len()) || w.Pending() != 0 {
		t.Fatalf("size %d of %d, %d pending: %v", w.Size(), f.Len(), w.Pending(), err)
	}
	return f.Bytes()
}

// kinds returns the kinds of the readable frames, and the first error.
func kinds(b []byte) (out []Kind, first error) {
	r := Reader{From: bytes.NewReader(b), Offset: int64(len(Magic)), Size: int64(len(b))}
	for {
		kind, _, _, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return out, first
		case err == nil:
			out = append(out, kind)
		case first == nil:
			first = err
		}
	}
}

// A log that is cut anywhere has its whole frames, and no error.
func TestTruncatedLog(t *testing.T) {
	b := written(t)
	const frame = HeadSize + 5
	for n := len(Magic); n <= len(b); n++ {
		want := (n - len(Magic)) / frame
		got, err := kinds(b[:n])
		if len(got) != want || err != nil {
			t.Errorf("%d bytes: frames %v, want %d: %v", n, got, want, err)
		}
		end, err := CompleteBytes(bytes.NewReader(b[:n]), int64(n))
		if end != int64(len(Magic)+want*frame) || err != nil {
			t.Errorf("%d bytes: complete up to %d: %v", n, end, err)
		}
	}
}

// A damaged frame, also one whose header is damaged or zero, loses only that frame.
func TestDamagedLog(t *testing.T) {
	const second = len(Magic) + HeadSize + 5
	for name, damage := range map[string]func(b []byte){
		"body":  func(b []byte) { b[HeadSize] ^= 1 },
		"head":  func(b []byte) { b[1] ^= 1 },
		"zeros": func(b []byte) { clear(b[:HeadSize]) },
	} {
		b := written(t)
		damage(b[second:])
		got, err := kinds(b)
		if len(got) != 2 || !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: frames %v: %v", name, got, err)
		}
		at, err := Resync(bytes.NewReader(b), int64(second), int64(len(b)))
		if at != int64(second+HeadSize+5) || err != nil {
			t.Errorf("%s: the next frame is at byte %d: %v", name, at, err)
		}
	}
}

// A write that fails leaves the file with whole frames, and the frames pending.
func TestFailedWrite(t *testing.T) {
	f := &file{room: 1 << 10}
	w := NewWriter(f)
	w.Append(1, 1, []byte("hello"))
	if err := w.Write(); err != nil {
		t.Fatal(err)
	}
	w.Append(2, 1, []byte("hello"))
	f.room = 7
	if err := w.Write(); !errors.Is(err, errFull) || int64(f.Len()) != w.Size() {
		t.Errorf("%d bytes, want %d: %v", f.Len(), w.Size(), err)
	}
	f.room = 1 << 10
	if err := w.Write(); err != nil {
		t.Fatal(err)
	}
	if got, err := kinds(f.Bytes()); len(got) != 2 || err != nil {
		t.Errorf("frames %v: %v", got, err)
	}
}
