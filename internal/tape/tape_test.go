package tape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

type frame struct {
	kind Kind
	body string
}

func write(t testing.TB, h *Header, frames ...frame) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := Create(&out, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		w.Frame(f.kind, []byte(f.body[:len(f.body)/2]), []byte(f.body[len(f.body)/2:]))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(r *Reader) (out []frame, err error) {
	for {
		k, b, err := r.Next()
		if err != nil {
			return out, err
		}
		out = append(out, frame{k, string(b)})
	}
}

func TestFramesComeBackAsWritten(t *testing.T) {
	h := Header{ABI: 3, Shapes: map[string]int{"call": 64}, PID: 7, Clock: -5, Rows: []uint16{1, 2}, Stacks: "slow"}
	want := []frame{{Began, "now"}, {Poll, ""}, {Record, strings.Repeat("x", 100_000)}, {Kind(200), "of a later version"}}
	r, err := Open(bytes.NewReader(write(t, &h, want...)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !reflect.DeepEqual(r.Header, h) {
		t.Errorf("header %+v, want %+v", r.Header, h)
	}
	got, err := read(r)
	if !errors.Is(err, io.EOF) || !reflect.DeepEqual(got, want) {
		t.Errorf("read %d frames, %v", len(got), err)
	}
}

func TestATapeThatIsCutSaysSo(t *testing.T) {
	whole := write(t, &Header{}, frame{Record, "one"}, frame{Record, strings.Repeat("two", 1000)})
	for n := len(magic) + 2; n < len(whole); n++ {
		r, err := Open(bytes.NewReader(whole[:n]))
		if err == nil {
			_, err = read(r)
			r.Close()
		}
		if !errors.Is(err, ErrTruncated) {
			t.Fatalf("%d of %d bytes: %v, want %v", n, len(whole), err, ErrTruncated)
		}
	}
}

func TestWhatIsNoTapeIsRefused(t *testing.T) {
	for text, want := range map[string]error{
		"": ErrNotTape, "SQLite format 3\x00": ErrNotTape, "ingero raw tape x\n": ErrNotTape, "ingero raw tape 1": ErrNotTape,
		"ingero raw tape 2\n": ErrVersion, "ingero raw tape 0\n": ErrVersion, "ingero raw tape 1\nnot zstd": ErrCorrupt,
		strings.Repeat("a", 1000): ErrNotTape,
	} {
		if _, err := Open(strings.NewReader(text)); !errors.Is(err, want) {
			t.Errorf("%.30q: %v, want %v", text, err, want)
		}
	}
}

func TestFramesThatAreTooLongAreRefused(t *testing.T) {
	var out bytes.Buffer
	w, err := Create(&out, &Header{})
	if err != nil {
		t.Fatal(err)
	}
	w.Frame(Record, make([]byte, maxFrame+1))
	if err := w.Close(); err == nil {
		t.Error("a frame of more than the limit was written")
	}

	var packed bytes.Buffer
	fmt.Fprintf(&packed, "%s%d\n", magic, Version)
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	z.Write([]byte{byte(Head), 0xff, 0xff, 0xff, 0xff, 0x0f})
	z.Close()
	if _, err := Open(&packed); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a frame of 4 GiB: %v, want %v", err, ErrCorrupt)
	}
}

func TestEachKindHasAName(t *testing.T) {
	seen := map[string]bool{}
	for k := range kinds {
		if seen[k.String()] || k.String() == "" {
			t.Errorf("kind %d is called %q", k, k)
		}
		seen[k.String()] = true
	}
	if got := Kind(250).String(); got != "kind 250" {
		t.Errorf("got %q", got)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(write(f, &Header{ABI: 1}, frame{Began, "12345678"}, frame{Record, "abc"}))
	f.Add([]byte("ingero raw tape 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Open(bytes.NewReader(b))
		if err == nil {
			_, err = read(r)
			r.Close()
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, ErrNotTape) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("error of no kind: %v", err)
		}
	})
}
