package query

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// inMemory is a directory's files, for a test to damage.
type inMemory map[string][]byte

func (m inMemory) List() (out []log.FileInfo, _ error) {
	for name, b := range m {
		out = append(out, log.FileInfo{Name: name, Bytes: int64(len(b))})
	}
	return out, nil
}

func (m inMemory) Open(name string) (log.File, error) {
	b, ok := m[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return memoryFile{bytes.NewReader(b)}, nil
}

type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error { return nil }

// intoMemory makes a reader use copies of its segments.
func intoMemory(t *testing.T, r *Reader) inMemory {
	t.Helper()
	m := inMemory{}
	names, err := filepath.Glob(filepath.Join(store.LogDir(r.path), "*.i*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if m[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	r.files = m
	return m
}

// numbered is an answer's calls by number.
type numbered map[uint64]events.Call

// each reads all calls, and checks that numbers increase.
func each(t *testing.T, r *Reader) (numbered, Coverage, error) {
	t.Helper()
	out, last := numbered{}, uint64(0)
	c, err := r.Each(context.Background(), Filter{Session: AllSessions}, func(_ *Session, c *events.Call, n uint64) bool {
		if len(out) > 0 && n <= last {
			t.Errorf("call %d comes after call %d", n, last)
		}
		out[n], last = *c, n
		return true
	})
	return out, c, err
}

// reported reports whether an answer declares itself incomplete.
func (c *Coverage) reported() bool { return len(c.Damage)+len(c.Missing) > 0 || c.Torn > 0 }

// honest checks that an answer has all calls, or declares itself incomplete and has no wrong calls.
// After damage in a segment without an index, numbers may be too low.
func honest(t *testing.T, what string, want []events.Call, got numbered, c Coverage, err error, numbersHold bool) {
	t.Helper()
	if err != nil {
		if !segment.Unreadable(err) {
			t.Errorf("%s: error %v", what, err)
		}
		return
	}
	if len(got) < len(want) && !c.reported() {
		t.Errorf("%s: %d of %d calls, and nothing is said", what, len(got), len(want))
	}
	for n, call := range got {
		right := numbersHold && n < uint64(len(want)) && want[n] == call || !numbersHold && slices.Contains(want, call)
		if !right {
			t.Errorf("%s: call %d is %+v", what, n, call)
			return
		}
	}
}

// few records a few calls in ticks ticks.
func few(t *testing.T, path string, ticks int) *session {
	t.Helper()
	x := record(t, path, segment.Session{ID: "s", Node: "gpu-7"})
	for range ticks {
		var calls []events.Call
		for i := range int64(5) {
			calls = append(calls, events.Call{Start: x.now.UnixNano() + i*1000, PID: 4821, TID: 4821, Weight: 1, Op: opLaunch, Duration: 700 + i, OnCPU: 700 + i, Args: [4]uint64{uint64(len(x.calls)), 7}})
		}
		x.ops.See(calls...)
		x.calls = append(x.calls, calls...)
		x.now = x.now.Add(time.Second)
		if err := errors.Join(x.db.Batch(&tick.Batch{Calls: calls}), x.db.Tick(x.tick(false))); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// After any bit flip or truncation of a segment, no answer invents a call or silently omits one.
func TestAnyBitOfASegment(t *testing.T) {
	for _, name := range []string{"s-000000.ilog", "s-000000.iseg"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			x := few(t, path, 3)
			if strings.HasSuffix(name, "iseg") {
				x.close()
			}
			r := openReader(t, path)
			files := intoMemory(t, r)
			whole := files[name]
			if got, c, err := each(t, r); err != nil || c.reported() || len(got) != len(x.calls) {
				t.Fatalf("undamaged: %d of %d calls, %+v (%v)", len(got), len(x.calls), c, err)
			}
			sums := bySum(x.calls, Filter{}, Group{Stack: true})
			for bit := 0; bit < len(whole)*8; bit += 7 { // at least one bit per byte; package store tests all
				b := bytes.Clone(whole)
				b[bit/8] ^= 1 << (bit % 8)
				files[name] = b
				what := fmt.Sprintf("bit %d of byte %d of %d", bit%8, bit/8, len(b))
				got, c, err := each(t, r)
				honest(t, what, x.calls, got, c, err, false)
				if bit%64 == 0 { // from the calls, too
					stats, c, err := r.OpStats(context.Background(), Filter{}, Group{Stack: true})
					if err == nil && !c.reported() {
						sameStats(t, what, stats, sums)
					}
				}
			}
			for n := range whole {
				files[name] = whole[:n]
				got, c, err := each(t, r)
				honest(t, fmt.Sprintf("cut at %d of %d", n, len(whole)), x.calls, got, c, err, true)
			}
		})
	}
}

// rotatingFrom starts a session "s" of small segments.
func rotatingFrom(t *testing.T, path string) *session {
	t.Helper()
	x := &session{t: t, now: began, r: rand.New(rand.NewPCG(1, 2)), ops: storetest.Counts{}}
	var err error
	x.db, err = store.Open(store.Options{Path: path, MaxBytes: 64 << 20, Session: segment.Session{ID: "s", Node: "gpu-7", Started: began}, Now: func() time.Time { return x.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.db.Close() })
	return x
}

// rotating records until there are six segments.
func rotating(t *testing.T, path string) *session {
	t.Helper()
	x := rotatingFrom(t, path)
	for n := 0; n < 6; {
		x.second()
		segs, err := segment.OfSession(log.Dir(store.LogDir(path)), "s")
		if err != nil {
			t.Fatal(err)
		}
		n = len(segs)
	}
	x.second() // into the last one
	return x
}

// opened counts how often each file is opened.
type opened struct {
	log.Files
	times map[string]int
}

func (o opened) Open(name string) (log.File, error) {
	o.times[name]++
	return o.Files.Open(name)
}

// A summary of the end of a recording opens only the segments of that time, besides the first.
func TestSummaryOpensFewSegments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := rotating(t, path)
	x.close()
	r := openReader(t, path)
	files := opened{r.files, map[string]int{}}
	r.files = files
	f := Filter{From: x.now.Add(-time.Second)}
	sum, err := r.Summary(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	var got uint64
	for i := range sum.Ops {
		got += sum.Ops[i].Sum.Calls
	}
	want := uint64(0)
	for i := range x.calls {
		if x.calls[i].Start >= f.From.UnixNano() {
			want++
		}
	}
	if got == 0 || got > want || files.times["s-000001.iseg"]+files.times["s-000002.iseg"] > 0 {
		t.Errorf("%d calls, at most %d in the window; opened %v", got, want, files.times)
	}
}

// Lost parts of a recording in several segments are named, and the rest is complete.
func TestLostSegments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := rotating(t, path)
	x.close()
	r := openReader(t, path)
	files := intoMemory(t, r)
	seg := func(i int) string { return fmt.Sprintf("s-%06d.iseg", i) }
	last := 0
	for files[seg(last+1)] != nil {
		last++
	}
	for _, tt := range []struct {
		name     string
		damage   func(inMemory)
		reported string // expected in Coverage.Damage, "" for none
		missing  bool   // Coverage.Missing names it
	}{
		{"nothing", func(inMemory) {}, "", false},
		{"first", func(m inMemory) { delete(m, seg(0)) }, "", true},
		{"third", func(m inMemory) { delete(m, seg(2)) }, "1 of its segments are missing, with calls", false},
		{"third and fourth", func(m inMemory) { delete(m, seg(2)); delete(m, seg(3)) }, "2 of its segments are missing, with calls", false},
		{"last", func(m inMemory) { delete(m, seg(last)) }, "the last calls of session s", false},
		{"end of the third", func(m inMemory) { m[seg(2)] = m[seg(2)][:len(m[seg(2)])/4] }, "s-000002.iseg is truncated; calls", false},
		{"end of the last", func(m inMemory) { m[seg(last)] = m[seg(last)][:len(m[seg(last)])/4] }, "the last calls of session s", false},
		{"beginning of the first", func(m inMemory) { m[seg(0)] = append([]byte("no magic"), m[seg(0)][8:]...) }, "s-000000.iseg: not an ingero recording", false},
		{"all of the third", func(m inMemory) { m[seg(2)] = nil }, "s-000002.iseg: not an ingero recording", false},
		{"index of the third", func(m inMemory) { m[seg(2)] = m[seg(2)][:len(m[seg(2)])-16] }, "", false},
		{"third, of a newer ingero", func(m inMemory) { m[seg(2)] = newerSession(m[seg(2)]) }, "newer ingero wrote the recording", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := inMemory{}
			for name, b := range files {
				m[name] = b
			}
			tt.damage(m)
			r.files = m
			got, c, err := each(t, r)
			honest(t, tt.name, x.calls, got, c, err, true)
			if said := strings.Join(c.Damage, "\n"); err != nil || tt.reported == "" && said != "" || !strings.Contains(said, tt.reported) || slices.Contains(c.Missing, "s") != tt.missing {
				t.Errorf("%+v (%v), want %q, missing %v", c, err, tt.reported, tt.missing)
			}
			if len(got) < len(x.calls)/2 {
				t.Errorf("%d of %d calls are left", len(got), len(x.calls))
			}
		})
	}
}

// newerSession gives a segment's first frame an unknown version.
func newerSession(b []byte) []byte {
	b = bytes.Clone(b)
	head := b[8:24] // after the magic
	head[5] = 200
	binary.LittleEndian.PutUint32(head[12:], crc32.Checksum(head[:12], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// Files other than regular ones are not opened: opening a pipe would block forever.
func TestForeignFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := few(t, path, 2)
	x.close()
	dir := store.LogDir(path)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(
		os.WriteFile(secret, []byte("secret"), 0o600),
		unix.Mkfifo(filepath.Join(dir, "s-000001.ilog"), 0o600),
		unix.Mkfifo(filepath.Join(dir, "s-000001.iseg"), 0o600),
		os.Symlink(secret, filepath.Join(dir, "s-000002.iseg")),
		os.Mkdir(filepath.Join(dir, "s-000003.iseg"), 0o700),
		os.WriteFile(filepath.Join(dir, "README"), []byte("notes"), 0o600),
		os.WriteFile(filepath.Join(dir, "other.ilog"), []byte("another program's log"), 0o600),
		os.Remove(filepath.Join(dir, "writer")),
		unix.Mkfifo(filepath.Join(dir, "writer"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	got, c, err := each(t, openReader(t, path))
	if err != nil || c.reported() || len(got) != len(x.calls) {
		t.Errorf("%d of %d calls, %+v (%v)", len(got), len(x.calls), c, err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe.db")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), pipe); !errors.Is(err, store.ErrNotDatabase) {
		t.Errorf("a pipe: %v", err)
	}
}

// Readers see each call exactly once while segments are written and sealed.
func TestReadersWhileSealing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := rotatingFrom(t, path)
	x.second()
	r := openReader(t, path)
	var written, reads atomic.Int64
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least, n := uint64(written.Load()), uint64(0)
				c, err := r.Each(context.Background(), Filter{}, func(_ *Session, _ *events.Call, number uint64) bool {
					if number != n {
						t.Errorf("call %d where %d was to come", number, n)
						return false
					}
					n++
					return true
				})
				if err != nil || len(c.Damage)+len(c.Missing) > 0 || n < least {
					t.Errorf("%d calls, at least %d were there; %+v (%v)", n, least, c, err)
				}
				reads.Add(1)
			}
		})
	}
	for segs := 0; (reads.Load() < 30 || segs < 5) && !t.Failed(); {
		x.second()
		written.Store(int64(len(x.calls)))
		all, err := segment.OfSession(log.Dir(store.LogDir(path)), "s")
		if err != nil {
			t.Fatal(err)
		}
		segs = len(all)
	}
	close(stop)
	readers.Wait()
	x.close()
	got, c, err := each(t, r)
	honest(t, "in the end", x.calls, got, c, err, true)
}

// A reader with an open segment continues after its removal, and reports later segments that are
// gone.
func TestSegmentsRemovedWhileRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := rotating(t, path)
	x.close()
	r := openReader(t, path)
	n := 0
	c, err := r.Each(context.Background(), Filter{}, func(*Session, *events.Call, uint64) bool {
		if n++; n == 1 {
			for i := range 3 {
				if err := os.Remove(filepath.Join(store.LogDir(path), fmt.Sprintf("s-%06d.iseg", i))); err != nil {
					t.Error(err)
				}
			}
		}
		return true
	})
	if err != nil || len(c.Damage) > 0 || !slices.Equal(c.Missing, []string{"s"}) || n < 200 || n >= len(x.calls) {
		t.Errorf("%d of %d calls, %+v (%v)", n, len(x.calls), c, err)
	}
}
