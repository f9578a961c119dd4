package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/where"
	"ingero/pkg/events"
)

// discard returns a view whose lines for people go to a buffer.
func discard(t *testing.T, verbose bool) (*view, *bytes.Buffer) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = null.Close() })
	e := &Env{Stderr: null, Getenv: func(string) string { return "" }}
	v := e.view(false, verbose, null, func() {})
	var said bytes.Buffer
	v.side = &said
	return v, &said
}

// A notice must not wait for the reader of the output, since the session would wait too.
func TestNoticesDoNotWait(t *testing.T) {
	v, said := discard(t, false)
	v.mu.Lock() // as while writing to a pipe that nobody reads
	for pid := range uint32(5000) {
		v.notify(session.Notice{Kind: session.NoticeTracing, PID: pid, Comm: "train"})
	}
	v.mu.Unlock()
	v.printLine("done")
	if got, want := said.String(), "Tracing train (0)\ndone\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}

func TestWaitingIsShown(t *testing.T) {
	for name, tt := range map[string]struct {
		sel   proc.Selector
		place where.Selector
		late  []proc.Process
		found bool
		want  string
	}{
		"everybody's":    {sel: proc.Selector{All: true}, want: "No process uses CUDA yet"},
		"one user's":     {sel: proc.Selector{UIDs: []uint32{1000}}, want: "No process of user 1000 uses CUDA yet"},
		"named, not yet": {sel: proc.Selector{PIDs: []uint32{7}}, late: []proc.Process{{PID: 7, Comm: "python3"}}, found: true, want: "python3 (7) has not loaded CUDA yet"},
		"of a place":     {sel: proc.Selector{All: true}, place: where.Selector{Namespace: "ml"}, want: "No process of namespace ml uses CUDA yet"},
		"a user's there": {sel: proc.Selector{UIDs: []uint32{7}}, place: where.Selector{Job: "12"}, want: "No process of user 7, job 12 uses CUDA yet"},
		"found":          {sel: proc.Selector{All: true}, found: true},
	} {
		t.Run(name, func(t *testing.T) {
			v, said := discard(t, false)
			v.found.Store(tt.found)
			v.waitsFor(&session.LiveOptions{Select: tt.sel, Place: tt.place}, tt.late)
			if got := said.String(); !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("said %q, want %q", got, tt.want)
			}
		})
	}
}

// The table is redrawn in place on a terminal, with permanent lines above.
func TestTableOnATerminal(t *testing.T) {
	v, _ := discard(t, false)
	g := &testkit.Screen{Width: 100, Height: 50, Cooked: true}
	v.side = g
	v.pane = &pane{out: g, size: func() (int, int) { return 100, 40 }}
	at := time.Unix(1000, 0)
	show := func(calls uint64) {
		t.Helper()
		err := v.Tick(&tick.Tick{Time: at, Started: at, Window: time.Second, Processes: []tick.Process{{PID: 7, Comm: "train"}},
			Ops: []tick.Op{{PID: 7, Op: 0x0110, Sum: tick.Counts{Calls: calls, Done: calls}, Last: tick.Counts{Calls: calls}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	v.printLine("Tracing train (7)")
	if err := v.Tick(&tick.Tick{Time: at}); err != nil || strings.Contains(g.Text(), "CUDA Runtime") {
		t.Errorf("a table without a call (%v):\n%s", err, g.Text())
	}
	show(11)
	v.printLine("something happened")
	show(22)
	got := g.Text()
	if !strings.HasPrefix(got, "Tracing train (7)\nsomething happened\ntrain (7)") || strings.Count(got, "CUDA Runtime") != 1 {
		t.Errorf("the screen:\n%s", got)
	}
	if !strings.Contains(got, "22 calls") || strings.Contains(got, "11 calls") {
		t.Errorf("the screen shows an old table:\n%s", got)
	}
}

// Calls carry the current name of their process.
func TestNamesOfProcesses(t *testing.T) {
	v, _ := discard(t, true)
	err := v.Batch(&tick.Batch{
		Procs: []tick.ProcEvent{{Kind: tick.ProcForked, PID: 7, Peer: 8, Comm: "sh"}, {Kind: tick.ProcExeced, PID: 8, Comm: "train"}},
		Calls: []events.Call{{PID: 8, Op: 0x0110, Weight: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if line := string(v.line); !strings.Contains(line, "train") || !strings.Contains(line, "cudaMalloc") {
		t.Errorf("line = %q", line)
	}
}
