package clickhouse

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// longRecording writes a recording without requests: minutes ticks, each with a segment of calls.
func longRecording(t *testing.T, minutes int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.db")
	now := time.Date(2026, 11, 21, 14, 41, 0, 0, time.UTC)
	db, err := store.Open(store.Options{Path: path, MaxBytes: 64 << 20, Now: func() time.Time { return now }, Session: segment.Session{ID: "s", Started: now}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for seq := range minutes {
		now = now.Add(time.Minute)
		calls := make([]events.Call, 10_000)
		for i := range calls {
			calls[i] = events.Call{Start: now.UnixNano() - int64(len(calls)-i)*1000, Duration: 100, PID: 7, TID: 7, Weight: 1, Op: events.Catalog[0].Op, Args: [4]uint64{r.Uint64()}}
		}
		if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(&tick.Tick{Time: now, Seq: uint64(seq), Final: seq == minutes-1})); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// opened returns how many files of a directory are opened during f.
func opened(t *testing.T, dir string, f func()) int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	f()
	names, buf := map[string]bool{}, make([]byte, 1<<16)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return len(names)
		}
		if err != nil {
			t.Fatal(err)
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:])) // with the name
			if name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:size]), "\x00"); name != "" {
				names[name] = true
			}
			b = b[size:]
		}
	}
}

// While a trace runs, a pass reads the segments of the last minutes only, also if no request came.
func TestPassReadsLastSegments(t *testing.T) {
	const minutes = 30
	path := longRecording(t, minutes)
	r, err := query.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s, err := r.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	x := newCopier(nil, r, query.Filter{}, &s, &Result{}, nil) // there is nothing to send
	x.live = true
	var n [2]int
	for i := range n {
		n[i] = opened(t, store.LogDir(path), func() {
			if err := x.facts(t.Context(), &s, true); err != nil {
				t.Fatal(err)
			}
		})
	}
	if n[0] < minutes || n[1] > 6 {
		t.Errorf("the passes read %v segments of %d", n, minutes)
	}
}
