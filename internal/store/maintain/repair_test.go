package maintain

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

func repair(t *testing.T, path string) *wire.Repaired {
	t.Helper()
	r, err := Repair(context.Background(), path, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Repair(context.Background(), path, nil, nil)
	if err != nil || !again.Nothing() {
		text, _ := json.Marshal(again)
		t.Errorf("a second repair does %s, %v", text, err)
	}
	return r
}

func verify(t *testing.T, path string) *Verified {
	t.Helper()
	v, err := Verify(context.Background(), log.Dir(store.LogDir(path)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// segmentsOf returns the paths of a session's segments.
func segmentsOf(t *testing.T, path, id string) (out []string) {
	t.Helper()
	segs, err := segment.OfSession(log.Dir(store.LogDir(path)), id)
	if err != nil || len(segs) < 3 {
		t.Fatalf("%d segments, %v: this shows nothing", len(segs), err)
	}
	for _, s := range segs {
		out = append(out, filepath.Join(store.LogDir(path), s.Name))
	}
	return out
}

// change changes a file.
func change(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, f(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Repair restores all rows from the segments if the SQLite file is missing or damaged.
func TestRepairMakesRowsAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		harm     func(t *testing.T, path string, ids []string)
		restored int
		kept     int
	}{
		"missing": {func(t *testing.T, path string, _ []string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, 2, 0},
		"no SQLite file": {func(t *testing.T, path string, _ []string) {
			change(t, path, func(b []byte) []byte { return append([]byte("nothing of the kind"), b[19:]...) })
		}, 2, 1},
		"pages overwritten": {func(t *testing.T, path string, _ []string) {
			change(t, path, func(b []byte) []byte {
				for at := 4096; at+4096 < len(b); at += 4096 {
					copy(b[at:], "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7")
				}
				return b
			})
		}, 2, 1},
		"cut off": {func(t *testing.T, path string, _ []string) {
			change(t, path, func(b []byte) []byte { return b[:len(b)/2] })
		}, 2, 1},
		"cut off in the first page": {func(t *testing.T, path string, _ []string) {
			change(t, path, func(b []byte) []byte { return b[:1000] })
		}, 2, 1},
		"empty": {func(t *testing.T, path string, _ []string) {
			change(t, path, func([]byte) []byte { return nil })
		}, 2, 0},
		"one lacks": {func(t *testing.T, path string, ids []string) {
			execute(t, path, "DELETE FROM sessions WHERE uid = ?", ids[0])
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path, ids := recordTwo(t)
			want := rowsOf(t, path)
			tt.harm(t, path, ids)
			r := repair(t, path)
			if len(r.Restored) != tt.restored || len(r.Kept) != tt.kept || len(r.Lost)+len(r.Removed)+len(r.Without) > 0 {
				t.Errorf("did %+v", r)
			}
			if d := diff.Diff(want, rowsOf(t, path)); d != "" {
				t.Errorf("rows -recorded +restored: %.4000s", d)
			}
		})
	}
}

// callsOf returns the starts of a session's calls, by number.
func callsOf(t *testing.T, path, id string) map[uint64]int64 {
	t.Helper()
	l, err := segment.OpenSession(log.Dir(store.LogDir(path)), id)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	out := map[uint64]int64{}
	var e segment.Entry
	for err = l.Next(&e); err == nil; err = l.Next(&e) {
		for i := range e.Calls {
			out[e.First+uint64(i)] = e.Calls[i].Start
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return out
}

// framePlace is a frame of calls.
type framePlace struct {
	at     int64
	n      int
	number uint64 // its first call's, in the session
}

// firstFrame returns a segment's first frame of calls.
func firstFrame(t *testing.T, b []byte) framePlace {
	t.Helper()
	l, err := segment.OpenLog(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var e segment.Entry
	for len(e.Calls) == 0 && err == nil {
		err = l.Next(&e)
	}
	frames := log.Reader{From: bytes.NewReader(b), Offset: int64(len(log.Magic)), Size: int64(len(b))}
	for err == nil {
		at := frames.Offset
		kind, _, body, next := frames.Next()
		if err = next; kind == 2 { // calls
			n, _ := binary.Uvarint(body)
			return framePlace{at, int(n), e.First}
		}
	}
	t.Fatal(err)
	return framePlace{}
}

// damages are ways to damage a sealed segment with a frame f of calls. Some lose f.
var damages = map[string]struct {
	harm  func(b []byte, f framePlace) []byte
	loses bool
}{
	"a frame of calls": {func(b []byte, f framePlace) []byte { b[f.at+log.HeadSize+9] ^= 1; return b }, true},
	"its head":         {func(b []byte, f framePlace) []byte { b[f.at+2] ^= 1; return b }, true},
	"head and index":   {func(b []byte, f framePlace) []byte { b[f.at+2] ^= 1; b[len(b)-3] ^= 1; return b }, true},
	"the index":        {func(b []byte, _ framePlace) []byte { b[len(b)-16-3] ^= 1; return b }, false},
	"the beginning":    {func(b []byte, _ framePlace) []byte { b[40] ^= 1; return b }, false},
	"the magic":        {func(b []byte, _ framePlace) []byte { b[0] ^= 1; return b }, false},
	"zeros":            {func(b []byte, f framePlace) []byte { clear(b[f.at : f.at+log.HeadSize]); return b }, true},
}

// A damaged frame loses its calls; all others stay, under their original numbers.
func TestRepairKeepsTheRest(t *testing.T) {
	for name, tt := range damages {
		t.Run(name, func(t *testing.T) {
			path, ids := recordTwo(t)
			want := callsOf(t, path, ids[0])
			rows := rowsOf(t, path)
			file := segmentsOf(t, path, ids[0])[1]
			var f framePlace
			change(t, file, func(b []byte) []byte {
				f = firstFrame(t, b)
				return tt.harm(b, f)
			})
			lost := 0
			if tt.loses {
				lost = f.n
			}
			v := verify(t, path)
			calls := int64(0)
			for _, d := range v.Damage {
				if d.File != filepath.Base(file) {
					t.Errorf("%s is said to be damaged: %s", d.File, d.What)
				}
				calls += max(d.Calls, 0)
			}
			if len(v.Damage) == 0 || name != "the magic" && name != "the beginning" && calls != int64(lost) {
				t.Errorf("found %+v, want %d calls lost", v.Damage, lost)
			}
			r := repair(t, path)
			if len(r.Kept) != 1 || r.Kept[0] != file+badSuffix {
				t.Errorf("kept %q", r.Kept)
			}
			for i := range lost {
				delete(want, f.number+uint64(i))
			}
			if d := diff.Diff(want, callsOf(t, path, ids[0])); d != "" {
				t.Errorf("calls -want +got: %.2000s", d)
			}
			if v := verify(t, path); len(v.Damage)+len(v.Torn)+len(v.Leftovers) > 0 || len(v.Bad) != 1 || v.Lost != uint64(lost) {
				t.Errorf("after the repair there is %+v", v)
			}
			if got := rowsOf(t, path); got != rows {
				t.Error("rows have changed")
			}
		})
	}
}

// unsealed returns a segment with number 3 of a session.
func unsealed(t *testing.T) []byte {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	w, err := segment.NewWriter(f, segment.Session{ID: "gpu-7-test", Node: "gpu-7", Started: storetest.Began}, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, k := storetest.NewGenerator(5), storetest.NewKernel()
	for i := range 8 {
		b := tick.Batch{Calls: g.Calls(nil, 50)}
		k.See(b.Calls)
		w.Add(&b)
		err = errors.Join(w.Tick(k.Tick(uint64(i), storetest.Began.Add(time.Duration(i)*time.Second), false), 0), w.Flush())
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// After a writer is killed, repair truncates and seals its segment.
func TestRepairAfterKill(t *testing.T) {
	path, ids := recordTwo(t)
	hot := unsealed(t)
	name := filepath.Join(store.LogDir(path), segment.Name("gpu-7-test", 3, false))
	left := []string{"spare", ids[0] + "-000001.iseg.tmp", "." + ids[0] + "-000001.iseg.part", segment.Name("gpu-7-empty", 0, false)}
	for _, f := range left[:3] {
		if err := os.WriteFile(filepath.Join(store.LogDir(path), f), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.WriteFile(filepath.Join(store.LogDir(path), left[3]), nil, 0o600), os.WriteFile(name, hot[:len(hot)-5], 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if v := verify(t, path); len(v.Damage) > 0 || len(v.Torn) != 2 || len(v.Leftovers) != 3 || v.Unsealed != 2 {
		t.Errorf("found %+v", v)
	}
	r := repair(t, path)
	if len(r.Removed) != 4 || len(r.Cut) != 1 || r.Cut[0].Bytes == 0 || r.Sealed != 1 || len(r.Restored) != 1 || len(r.Without) != 1 || len(r.Lost) > 0 {
		t.Errorf("did %+v", r)
	}
	if v := verify(t, path); len(v.Damage)+len(v.Torn)+len(v.Leftovers)+v.Unsealed > 0 {
		t.Errorf("after the repair there is %+v", v)
	}
	if got := testkit.Rows(t, path, "SELECT state FROM sessions WHERE uid = 'gpu-7-test'"); got != "interrupted" {
		t.Errorf("the session is %q", got)
	}
}
