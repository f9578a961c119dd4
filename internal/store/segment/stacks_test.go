package segment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingero/internal/store/storetest"
	"ingero/pkg/events"
)

// Stacks are read back as written, in frames of bounded size.
func TestStackFrames(t *testing.T) {
	m, w := beginLog(t, Head{})
	want := storetest.SomeStacks(3*frameStacksMax + 5)
	w.putStacks(want)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, m.Bytes())
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
	enc, dec := codecs(f)
	f.Add(enc.column(nil, new(stacksEncoder).append(storetest.SomeStacks(40))))
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

// The stacks for the next segment are bounded.
func TestStacksKept(t *testing.T) {
	var k stacksKept
	for i := range uint32(2 * maxStacksKept / 64) {
		k.add([]events.Stack{{ID: i, Frames: make([]events.Frame, 64)}})
	}
	if k.frames > maxStacksKept || len(k.list)*64 != k.frames || k.list[len(k.list)-1].ID != 2*maxStacksKept/64-1 {
		t.Errorf("%d stacks of %d frames are kept", len(k.list), k.frames)
	}
}

// Rare fields of calls are kept, in a version of the format that has room for them.
func TestRareFieldsAreKept(t *testing.T) {
	var levels, launches []events.Call
	for level := range uint8(events.MaxStackLevel + 1) {
		levels = append(levels, events.Call{PID: 1, Op: storetest.OpLaunch, Weight: 2, Stack: 7, StackLevel: level})
	}
	for i, n := range []uint16{0, 24, 1<<16 - 1, 0, 24} {
		// With parts that do not add up, which share the column.
		launches = append(launches, events.Call{PID: 1, Op: storetest.OpLaunch, Weight: 1, Duration: 10, OnCPU: int64(4 + i%2*6), Gap: 5, Launches: n})
	}
	for name, tt := range map[string]struct {
		calls   []events.Call // the first has no rare field, the others need the version
		version uint8
	}{
		"levels of stacks":       {levels, 4},
		"launches before a call": {launches, 5},
	} {
		enc, dec := codecs(t)
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
