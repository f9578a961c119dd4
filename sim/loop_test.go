package sim

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"ingero/internal/testkit"
)

// Each fault fails and loses as it should, and its twin does neither.
func TestLoop(t *testing.T) {
	s := extract(t)
	for _, tt := range []struct {
		fault  string
		args   []string
		errors int64 // calls that fail
		loses  bool  // by a clock around it
	}{
		{fault: "none"},
		{fault: "alloc-slow", args: []string{"--every", "5", "--delay-us", "3000"}, loses: true},
		{fault: "alloc-storm", loses: true},
		{fault: "leak"},
		{fault: "fragments", args: []string{"--every", "20", "--delay-us", "1000"}, errors: 2, loses: true},
		{fault: "oom", args: []string{"--every", "20", "--delay-us", "1000"}, errors: 2, loses: true},
		{fault: "kv-cache", args: []string{"--every", "10"}, errors: 4, loses: true},
		{fault: "model-swap", args: []string{"--every", "20"}, loses: true},
		{fault: "free-waits", loses: true},
		{fault: "pageable"},
		{fault: "small-copies"},
		{fault: "copy-heavy", loses: true},
		{fault: "sync-heavy"},
		{fault: "cold-start", args: []string{"--delay-us", "10000"}, loses: true},
		{fault: "graph"},
		{fault: "graph-recapture", args: []string{"--every", "10", "--delay-us", "2000"}, loses: true},
		{fault: "graph-warmup"},
		{fault: "graph-unused"},
		{fault: "graph-pool", args: []string{"--every", "20", "--delay-us", "1000"}, loses: true},
		{fault: "graph-oom", args: []string{"--every", "20", "--delay-us", "1000"}, errors: 2, loses: true},
		{fault: "fork", args: []string{"--every", "20"}, loses: true},
		{fault: "driver-lock", args: []string{"--every", "5", "--delay-us", "5000"}, loses: true},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			args := append([]string{"--fault", tt.fault, "--steps", "40", "--kernel-us", "50"}, tt.args...)
			got := s.result(t, "loop", args...)
			want(t, got, map[string]int64{"steps": 40, "errors": tt.errors})
			if loses := got.n("lost_ns") > 0; loses != tt.loses {
				t.Errorf("it lost %d ns", got.n("lost_ns"))
			}
			got = s.result(t, "loop", append(args, "--healthy")...)
			want(t, got, map[string]int64{"steps": 40, "errors": 0, "lost_ns": 0})
		})
	}
}

// What cannot go on fails on, and is not in a hurry.
func TestLoopOfErrors(t *testing.T) {
	s := extract(t)
	for _, fault := range []string{"mismatch-803", "mismatch-35", "assert"} {
		t.Run(fault, func(t *testing.T) {
			args := []string{"--fault", fault, "--steps", "4", "--every", "2"}
			if got := s.result(t, "loop", args...); got.n("errors") < 3 {
				t.Errorf("%d errors", got.n("errors"))
			}
			want(t, s.result(t, "loop", append(args, "--healthy")...), map[string]int64{"errors": 0})
		})
	}
}

// The file of times has all steps, one after the other, and what was lost of them.
func TestLoopTimes(t *testing.T) {
	s := extract(t)
	file := filepath.Join(t.TempDir(), "times")
	got := s.result(t, "loop", "--fault", "alloc-slow", "--every", "2", "--delay-us", "1000", "--steps", "10", "--times", file)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var last, lost uint64
	for i := range 10 {
		at := func(j int) uint64 { return binary.NativeEndian.Uint64(b[24*i+8*j:]) }
		if at(0) < last || at(1) < at(0) || at(2) > at(1)-at(0) {
			t.Errorf("step %d: from %d to %d, lost %d", i, at(0), at(1), at(2))
		}
		last, lost = at(1), lost+at(2)
	}
	if lost != uint64(got.n("lost_ns")) {
		t.Errorf("lost %d, and says %d", lost, got.n("lost_ns"))
	}
}

// With --hold it is another program after the line, of the same process.
func TestLoopStartsAnew(t *testing.T) {
	s := extract(t)
	c := testkit.Start(t, s.command("loop", "--hold", "--steps", "3"))
	c.Line("ready " + strconv.Itoa(c.PID()))
	c.Say("go")
	c.Line("{\"program\":\"loop\"")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}
