package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// shownCalls returns the calls in JSON lines: the thread, then the frames of the stack.
func shownCalls(t *testing.T, text string) (got []string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var x struct {
			Type  string
			TID   uint32
			Stack []struct {
				IP, Symbol, File, Gap string
				PyFile                string `json:"py_file"`
				PyFunc                string `json:"py_func"`
			}
		}
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if x.Type != "call" {
			continue
		}
		call := string(rune('0' + x.TID))
		for _, f := range x.Stack {
			call += " " + f.IP + f.Symbol + f.File + f.PyFile + f.PyFunc + f.Gap
		}
		got = append(got, call)
	}
	return got
}

// A call is shown once: with its stack when the stack's names arrive, else without after a while.
func TestCallsWithStacks(t *testing.T) {
	v, _ := discard(t, false)
	var out, debug bytes.Buffer
	v.json, v.out, v.debug = true, bufio.NewWriter(&out), &debug
	call := func(tid, stack uint32) events.Call {
		return events.Call{PID: 7, TID: tid, Op: 0x0110, Stack: stack, StackLevel: uint8(stack % 2), Weight: 1, Duration: 5, OnCPU: 5}
	}
	stack := func(id uint32) events.Stack {
		return events.Stack{ID: id, PID: 7, Cut: id == 2, Frames: []events.Frame{
			{Kind: events.FrameNative, IP: 0xabc, Func: "cudaMalloc", Offset: 4, Module: "/lib/libcudart.so.12"},
			{Kind: events.FramePython, Func: "step", File: "train.py", Line: 8}}}
	}
	lines := func() []string {
		t.Helper()
		defer out.Reset()
		return shownCalls(t, out.String())
	}
	batch := func(b *tick.Batch, want ...string) {
		t.Helper()
		if err := v.Batch(b); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, lines()); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	}
	const frames = " 0xabccudaMalloc+0x4libcudart.so.12 train.pystep"
	batch(&tick.Batch{Calls: []events.Call{call(1, 0), call(2, 1), call(3, 9)}}, "1")
	batch(&tick.Batch{Stacks: []events.Stack{stack(1)}, Calls: []events.Call{call(4, 1)}}, "2"+frames, "4"+frames)
	batch(&tick.Batch{Stacks: []events.Stack{stack(2)}, Calls: []events.Call{call(5, 2)}}, "5"+frames+" stack truncated")
	for seq := range uint64(heldTicks) {
		if err := v.Tick(&tick.Tick{Time: time.Unix(int64(seq), 0), Started: time.Unix(0, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"3"}, lines()); d != "" {
		t.Errorf("without names (-want +got):\n%s", d)
	}
	want := "[DEBUG] stack trace for cudaMalloc (PID 7, TID 2, 2 frames):\n[DEBUG]   [0] [Native] cudaMalloc+0x4 (libcudart.so.12)\n[DEBUG]   [1] [Python] train.py:8 in step()\n"
	if !strings.HasPrefix(debug.String(), want) || strings.Count(debug.String(), "stack trace") != 2 {
		t.Errorf("reported:\n%s", debug.String())
	}
}

// The stack view is bounded: the oldest stacks are evicted, and calls beyond the limit do not wait.
func TestStackViewIsBounded(t *testing.T) {
	var v stackView
	for i := range uint32(3 * shownFrames / 64) {
		v.add([]events.Stack{{ID: i + 1, Frames: make([]events.Frame, 64)}})
	}
	if v.frames > shownFrames || len(v.known)*64 != v.frames || len(v.order) != len(v.known) {
		t.Errorf("%d frames of %d stacks, %d in order", v.frames, len(v.known), len(v.order))
	}
	waiting := 0
	for range 2 * heldCalls {
		if v.wait(&events.Call{Stack: 1 << 30}) {
			waiting++
		}
	}
	if waiting != heldCalls {
		t.Errorf("%d calls wait", waiting)
	}
}

// Further lost stacks cause a warning, at most every five seconds.
func TestStackLosses(t *testing.T) {
	var l stackLosses
	for _, c := range []struct {
		at, count uint64
		said      bool
	}{{1, 0, false}, {2, 3, true}, {3, 3, false}, {4, 9, false}, {7, 9, true}, {20, 9, false}, {21, 10, true}} {
		text := l.grown(&tick.Tick{Time: time.Unix(int64(c.at), 0), Drops: []tick.Drop{{Reason: "stack-left-out", Count: c.count}, {Reason: "thinned", Count: 7 * c.at}}})
		if (text != "") != c.said {
			t.Errorf("at %d s: %q", c.at, text)
		}
	}
}
