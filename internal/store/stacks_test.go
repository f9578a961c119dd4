package store

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingero/internal/store/log"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// someStacks returns stacks of all kinds of frames, many of which several stacks share.
func someStacks(n int) []events.Stack {
	out := make([]events.Stack, n)
	for i := range out {
		s := &out[i]
		s.ID, s.PID, s.Cut = uint32(i+1), uint32(i%5+1), i%7 == 0
		for k := range i % 40 {
			s.Frames = append(s.Frames, events.Frame{Kind: events.FrameNative, IP: 0x7f00_0000_0000 + uint64(i%9*1000+k), Offset: uint64(k), Func: fmt.Sprintf("f%d", k), Module: "/lib/libx.so"})
		}
		s.Frames = append(s.Frames, events.Frame{Kind: events.FramePython, Func: "Net.förward", File: "train.py", Line: int32(i%200 + 1)},
			events.Frame{Kind: events.FrameNative, Inline: true, Func: "inlined", File: "x.cc", Line: 3}, events.Frame{Kind: events.FrameGap, Func: "no table"})
	}
	return out
}

// Stacks are read back as written, in frames of bounded size.
func TestStackFrames(t *testing.T) {
	file := &bytesFile{}
	w, err := newLogWriter(file, &segmentJSON{Session: Session{ID: "s", Started: time.Unix(0, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	want := someStacks(3*frameStacksMax + 5)
	w.putStacks(want)
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLog(file, int64(len(file.b)))
	if err != nil {
		t.Fatal(err)
	}
	var got []events.Stack
	var e Entry
	for l.Next(&e) == nil {
		if len(e.Stacks) > frameStacksMax {
			t.Errorf("%d in a frame", len(e.Stacks))
		}
		got = append(got, e.Stacks...)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func FuzzStacks(f *testing.F) {
	enc, err := newEncoder()
	if err != nil {
		f.Fatal(err)
	}
	dec, err := newDecoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(enc.column(nil, new(stacksEncoder).append(someStacks(40))))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := readStacks(b, dec)
		if err != nil && list != nil {
			t.Error("an error, and stacks")
		}
		if err != nil {
			return
		}
		again, err := readStacks(enc.column(nil, new(stacksEncoder).append(list)), dec)
		if err != nil || !cmp.Equal(list, again, cmpopts.EquateEmpty()) {
			t.Errorf("%v: %v, want %v", err, again, list)
		}
	})
}

// A segment can be read alone: it begins with the stacks, beyond the limit with the latest.
func TestNextSegmentHasTheStacks(t *testing.T) {
	now := time.Unix(1000, 0)
	db, err := Open(Options{Path: t.TempDir() + "/x.db", Session: Session{ID: "s", Node: "n"}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	list := someStacks(60)
	first, second := list[:50], list[50:]
	if err := db.Batch(&tick.Batch{Stacks: first}); err != nil {
		t.Fatal(err)
	}
	db.mu.Lock()
	err = errors.Join(db.flush(), db.rotate())
	db.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Batch(&tick.Batch{Stacks: second}), db.Tick(&tick.Tick{Time: now, Final: true}), db.Close()); err != nil {
		t.Fatal(err)
	}
	segs, err := SessionSegments(log.Dir(LogDir(db.Path())), "s")
	if err != nil || len(segs) != 2 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	for i, want := range [][]events.Stack{first, list} {
		if d := cmp.Diff(want, stacksIn(t, log.Dir(LogDir(db.Path())), &segs[i])); d != "" {
			t.Errorf("segment %d (-want +got):\n%s", i, d)
		}
	}
	// Repair can restore the SQLite file's rows from the segments.
	const what = "SELECT (SELECT group_concat(id || pid || cut || site || frames) FROM stacks), (SELECT group_concat(id || kind || func || file || module) FROM frames)"
	rows := func() (out [2]string) {
		lite, err := openSQL(db.Path(), func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lite.Close() }()
		if err := lite.QueryRow(what).Scan(&out[0], &out[1]); err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := rows()
	if err := os.Remove(db.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(t.Context(), db.Path(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, rows()); d != "" {
		t.Errorf("after the repair (-want +got):\n%s", d)
	}
}

// stacksIn returns a segment's stacks.
func stacksIn(t *testing.T, files log.Files, s *Segment) (got []events.Stack) {
	t.Helper()
	f, err := OpenSegment(files, s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	l, err := OpenLog(f, f.Size())
	if err != nil {
		t.Fatal(err)
	}
	var e Entry
	for l.Next(&e) == nil {
		got = append(got, e.Stacks...)
	}
	return got
}

// The stacks for the next segment are bounded, and those in SQLite too.
func TestStacksKept(t *testing.T) {
	var k stacksKept
	for i := range uint32(2 * maxStacksKept / 64) {
		k.add([]events.Stack{{ID: i, Frames: make([]events.Frame, 64)}})
	}
	if k.frames > maxStacksKept || len(k.list)*64 != k.frames || k.list[len(k.list)-1].ID != 2*maxStacksKept/64-1 {
		t.Errorf("%d stacks of %d frames are kept", len(k.list), k.frames)
	}
	for bound, most := range map[int64]int{0: maxSavedStacks, 10 << 30: maxSavedStacks, 16 << 20: 4096} {
		v := &saver{bound: bound}
		for range 3 {
			v.addStacks(make([]events.Stack, maxSavedStacks/2))
		}
		if n := len(v.stacks.waiting); n != most {
			t.Errorf("where %d bytes may be taken %d stacks wait to be saved, want %d", bound, n, most)
		}
	}
}

// Rare fields of calls are kept, in a version of the format that has room for them.
func TestRareFieldsAreKept(t *testing.T) {
	var levels, launches []events.Call
	for level := range uint8(events.MaxStackLevel + 1) {
		levels = append(levels, events.Call{PID: 1, Op: opLaunch, Weight: 2, Stack: 7, StackLevel: level})
	}
	for i, n := range []uint16{0, 24, 1<<16 - 1, 0, 24} {
		// With parts that do not add up, which share the column.
		launches = append(launches, events.Call{PID: 1, Op: opLaunch, Weight: 1, Duration: 10, OnCPU: int64(4 + i%2*6), Gap: 5, Launches: n})
	}
	for name, tt := range map[string]struct {
		calls   []events.Call // the first has no rare field, the others need the version
		version uint8
	}{
		"levels of stacks":       {levels, 4},
		"launches before a call": {launches, 5},
	} {
		enc, err := newEncoder()
		if err != nil {
			t.Fatal(err)
		}
		dec, err := newDecoder()
		if err != nil {
			t.Fatal(err)
		}
		for i := range tt.calls {
			enc.add(&tt.calls[i])
			if v := enc.version(); (v == tt.version) != (i > 0) {
				t.Errorf("%s: version %d after %d calls", name, v, i+1)
			}
		}
		got, err := dec.calls(nil, enc.body(nil))
		if d := cmp.Diff(tt.calls, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
}
