package sim

import (
	"cmp"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"ingero/internal/testkit"
)

// Each fault fails and loses time as specified, and its twin does neither.
func TestLoop(t *testing.T) {
	s := extract(t)
	for _, tt := range []struct {
		fault  string
		args   []string
		steps  int64 // 0: 40
		errors int64 // failing calls
		loses  bool  // measured by an outer clock
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
		// In this many steps at least one meets the lock, even if its thread seldom gets a CPU.
		{fault: "driver-lock", args: []string{"--every", "5", "--delay-us", "5000"}, steps: 1000, loses: true},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			steps := cmp.Or(tt.steps, 40)
			args := append([]string{"--fault", tt.fault, "--steps", strconv.FormatInt(steps, 10), "--kernel-us", "50"}, tt.args...)
			got := s.result(t, "loop", args...)
			want(t, got, map[string]int64{"steps": steps, "errors": tt.errors})
			if loses := got.n("lost_ns") > 0; loses != tt.loses {
				t.Errorf("it lost %d ns", got.n("lost_ns"))
			}
			got = s.result(t, "loop", append(args, "--healthy")...)
			want(t, got, map[string]int64{"steps": steps, "errors": 0, "lost_ns": 0})
		})
	}
}

// A permanent error keeps failing, at a moderate rate.
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

// The log has all steps in order, and switches the fault on.
func TestLoopLog(t *testing.T) {
	s := extract(t)
	const size = 128 + 24<<17
	for mode, loses := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "log")
		b := make([]byte, size)
		b[0] = byte(mode)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		got := s.result(t, "loop", "--fault", "alloc-slow", "--every", "2", "--delay-us", "1000", "--steps", "10", "--log", file)
		if (got.n("lost_ns") > 0) != loses {
			t.Errorf("mode %d: lost %d ns", mode, got.n("lost_ns"))
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := func(i int) int64 { return int64(binary.NativeEndian.Uint64(b[i:])) }
		if at(8) != 10 || at(16) != got.n("pid") {
			t.Errorf("%d steps of %d, want 10 of %d", at(8), at(16), got.n("pid"))
		}
		var last int64
		for i := range 10 {
			from, to := at(128+24*i), at(128+24*i+8)
			if from < last || to <= from {
				t.Errorf("step %d: from %d to %d", i, from, to)
			}
			last = to
		}
	}
}

// With --hold the process executes another program after the line.
func TestLoopStartsAnew(t *testing.T) {
	s := extract(t)
	c := testkit.Start(t, s.command("loop", "--hold", "--steps", "3"))
	c.Line("ready " + strconv.Itoa(c.PID()))
	c.Send("go")
	c.Line("{\"program\":\"loop\"")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}
