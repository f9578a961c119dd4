package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/screen"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// recordedSeconds creates a complete recording of some seconds.
func recordedSeconds(t *testing.T, seconds int) string {
	t.Helper()
	db := filepath.Join(t.TempDir(), "x.db")
	x, err := startFixture(db, "gpu-7-one", "gpu-7", began)
	if err != nil {
		t.Fatal(err)
	}
	for range seconds {
		if err := x.second(); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
	return db
}

// Every key does what the help says, at several screen sizes, and plain text remains after the
// end.
func TestKeysOfTop(t *testing.T) {
	db := recordedSeconds(t, 2)
	x := testkit.NewTerminal(t)
	x.Resize(80, 24)
	before := x.Settings()
	e := &Env{Lock: testPlace(t), Args: []string{"top", "--db", db, "--utc"}, Stdin: x.Side, Stdout: x.Side, Stderr: x.Side,
		Getenv: func(k string) string { return map[string]string{"TERM": "xterm", "NO_COLOR": "1"}[k] },
		Now:    func() time.Time { return began.Add(63 * time.Second) }}
	ended := make(chan int, 1)
	go func() { ended <- e.run(t.Context()) }()
	for _, tt := range []struct {
		name, keys string
		size       [2]int
		want       string // appears on the screen because of the keys
	}{
		{name: "table", want: "q end"},
		{name: "help", keys: "h", want: "redraw the screen"},
		{name: "sorted", keys: "hs", want: "by time"},
		{name: "sorted-by-name", keys: "SS", want: "by name"},
		{name: "typing", keys: "s/SYNC\x7f", want: "filter: SYN_"},
		{name: "filtered", keys: "\r", want: `filter "SYN"`},
		{name: "processes", keys: "\x1bp\x1b[B", want: "> train.py"},
		{name: "process", keys: "\r", want: "train.py (4821)  q end"},
		{name: "where", keys: "w", want: "WHERE THE TIME WENT"},
		{name: "where-narrow", size: [2]int{50, 12}, want: "space pause\n"},
		{name: "where-further", keys: "\x1b[6~", want: "    on a CPU"},
		{name: "narrow", keys: "\x1b[D\x1b", want: "System Context"},
		{name: "wide", size: [2]int{120, 40}, want: "w where"},
		{name: "paused", keys: " ", want: "PAUSED at 14:41:02"},
	} {
		if tt.size != [2]int{} {
			x.Resize(tt.size[0], tt.size[1])
			if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil { // the terminal is not this process's controlling one
				t.Fatal(err)
			}
		}
		x.Type(tt.keys)
		got := x.Shows(tt.want)
		testkit.Golden(t, "board/"+tt.name+".txt", got)
	}
	x.Type("q")
	if code := <-ended; code != 0 {
		t.Errorf("it ends with %d", code)
	}
	x.Look("q end", false)
	if got := x.Shows("CUDA Runtime: 502 calls"); !strings.Contains(got, "No trace is recording") {
		t.Errorf("what stays:\n%s", got)
	}
	if x.Other() || x.Settings() != before {
		t.Error("the settings of the terminal, or its screen, were not restored")
	}
}

// shellOf runs a shell with job control on a terminal, in which a test types. $INGERO is this
// program.
func shellOf(t *testing.T, x *testkit.Terminal) (*exec.Cmd, <-chan struct{}) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, variable := testLock(t.TempDir())
	sh := exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	sh.Env = []string{variable, "PS1=ready> ", "TERM=xterm", "NO_COLOR=1", "PATH=" + os.Getenv("PATH"), "INGERO=" + self, "INGERO_DB=" + recordedSeconds(t, 2), "HISTFILE="}
	ended := x.Start(sh)
	x.Shows("ready>")
	return sh, ended
}

// The terminal is restored and the shell continues however the program ends.
func TestTerminalIsPutBack(t *testing.T) {
	lastOfCrash := map[string]string{"amd64": "\ngs     0x", "arm64": "\nfault   0x"}[runtime.GOARCH] // the text before it may scroll an echo away
	for _, tt := range []struct {
		name, command, keys string
		signal              unix.Signal
		want                string // finally on the screen
	}{
		{"a key", "$INGERO top", "q", 0, "CUDA Runtime: 502"},
		{"Ctrl-C", "$INGERO top", "\x03", 0, "CUDA Runtime: 502"},
		{"asked to end", "$INGERO top", "", unix.SIGTERM, "CUDA Runtime: 502"},
		{"killed", "$INGERO top", "", unix.SIGKILL, "ready>"},
		{"a crash", "$INGERO top", "\x1c", 0, lastOfCrash},
		{"stopped", "$INGERO top", "\x1a", 0, "Stopped"},
		{"its parent is killed", `bash -c '"$INGERO" top; true'`, "", -unix.SIGKILL, "ready>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := testkit.NewTerminal(t)
			shellOf(t, x)
			x.Resize(80, 50)
			before := x.Settings()
			x.Type(tt.command + "\n")
			x.Shows("q end")
			if now := x.Settings(); now == before || !x.Other() {
				t.Error("the terminal was not taken")
			}
			x.Type(tt.keys)
			if tt.signal != 0 {
				kill(t, x, tt.signal)
			}
			testkit.Eventually(t, "the terminal to be put back", func() bool { return !x.Other() && x.Settings() == before })
			x.Shows(tt.want)
			if tt.name == "stopped" {
				x.Type("fg\n")
				x.Shows("q end")
				x.Type("q")
				x.Look("q end", false)
			}
			x.Type("\necho all $((6*7))\n")
			x.Shows("all 42")
		})
	}
}

// kill sends a signal to the terminal's foreground program or, if it is negative, to that
// program's parent.
func kill(t *testing.T, x *testkit.Terminal, signal unix.Signal) {
	t.Helper()
	if err := unix.Kill(x.Foreground(), max(signal, -signal)); err != nil {
		t.Fatal(err)
	}
}

// A hangup of the terminal ends the program.
func TestTerminalGoes(t *testing.T) {
	testkit.HearHangups(t)
	x := testkit.NewTerminal(t)
	_, ended := shellOf(t, x)
	x.Type("exec $INGERO top\n")
	x.Shows("q end")
	x.Hang()
	<-ended
}

// busyTick is a second of a session in which everything changes.
func busyTick(n int) *tick.Tick {
	t := &tick.Tick{Time: began.Add(time.Duration(n) * time.Second), Started: began, Seq: uint64(n), Window: time.Second}
	for pid := range uint32(4) {
		t.Processes = append(t.Processes, tick.Process{PID: 7 + pid, Comm: "train"})
		for op := range events.Op(40) {
			c := tick.Counts{Calls: uint64(n) * uint64(op+1), Done: uint64(n), Total: uint64(n) * 1000}
			t.Ops = append(t.Ops, tick.Op{PID: 7 + pid, Op: fixtureLaunch + op, Sum: c, Last: c})
		}
	}
	return t
}

// boardView returns the view of a trace on a terminal.
func boardView(x *testkit.Terminal, stop context.CancelFunc) *view {
	e := &Env{Stdin: x.Side, Stdout: x.Side, Stderr: x.Side, logOutput: &logOutput{out: x.Side},
		Getenv: func(k string) string { return map[string]string{"TERM": "xterm", "NO_COLOR": "1"}[k] }}
	return e.view(false, false, x.Side, stop)
}

// A terminal that nobody reads does not block the trace.
func TestTerminalThatNobodyReads(t *testing.T) {
	x := testkit.NewTerminal(t)
	v := boardView(x, func() { t.Error("the trace is ended") })
	if err := v.Tick(busyTick(1)); err != nil {
		t.Fatal(err)
	}
	x.Shows("q end")
	again := x.Deaf()
	for n := 2; n < 3000; n++ {
		if err := v.Tick(busyTick(n)); err != nil {
			t.Fatal(err)
		}
		if err := v.Batch(&tick.Batch{Procs: []tick.ProcEvent{{Kind: tick.ProcExeced, PID: 7, Comm: "train"}}}); err != nil {
			t.Fatal(err)
		}
		x.Type("s") // and keys are pressed
	}
	again()
	x.Shows(" 11,996 ")
	if err := v.failed(); err != nil {
		t.Error(err)
	}
}

// A table without keys on a terminal that nobody reads does not block the trace.
func TestTableThatNobodyReads(t *testing.T) {
	x := testkit.NewTerminal(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	e := &Env{Stdin: null, Stdout: x.Side, Stderr: x.Side, Getenv: func(k string) string { return map[string]string{"TERM": "xterm", "NO_COLOR": "1"}[k] }}
	v := e.view(false, false, x.Side, func() { t.Error("the trace is ended") })
	if err := v.Tick(busyTick(1)); err != nil {
		t.Fatal(err)
	}
	if got := x.Shows("cudaMalloc3DArray"); strings.Contains(got, "q end") || x.Other() {
		t.Errorf("it takes the terminal:\n%s", got)
	}
	again := x.Deaf()
	for n := 2; n < 40; n++ { // more than the terminal and its buffers hold
		if err := v.Tick(busyTick(n)); err != nil {
			t.Fatal(err)
		}
	}
	again()
	testkit.Eventually(t, "a new table", func() bool {
		if err := v.Tick(busyTick(5000)); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(x.Screen(), " 20,000 ")
	})
	if err := v.failed(); err != nil {
		t.Error(err)
	}
}

// Permanent lines of the trace and of the log appear below the table, and stay after the terminal
// is restored.
func TestLinesStay(t *testing.T) {
	x := testkit.NewTerminal(t)
	x.Resize(80, 24)
	ended := false
	v := boardView(x, func() { ended = true })
	v.printLine("Tracing train (7)")
	if err := v.Tick(busyTick(1)); err != nil {
		t.Fatal(err)
	}
	x.Shows("q end")
	v.printLine("one")
	v.printLine("two\x1b[2J")
	log := newLogLines(v.log, 0)
	if _, err := log.to.w.Write([]byte("three\n")); err != nil {
		t.Fatal(err)
	}
	x.Shows("three\nq end")
	x.Type(" s")
	x.Shows("by time") // both keys took effect
	if err := v.Tick(busyTick(2)); err != nil {
		t.Fatal(err)
	}
	v.printLine("four")
	testkit.Golden(t, "board/lines.txt", x.Shows("four"))
	x.Resize(80, 150) // so that the permanent lines do not scroll away
	x.Type("q")
	testkit.Eventually(t, "the end", func() bool { v.mu.Lock(); defer v.mu.Unlock(); return ended })
	if err := v.failed(); err != nil {
		t.Fatal(err)
	}
	v.printLine("the end")
	got := x.Shows("the end")
	if x.Other() || !strings.HasPrefix(got, "Tracing train (7)\none\ntwo?[2J\nthree\nfour\n") {
		t.Errorf("what stays:\n%s", got)
	}
}

// Text stays plain if the terminal is unsuitable or another's.
func TestTextStaysPlain(t *testing.T) {
	db := recordedSeconds(t, 1)
	x := testkit.NewTerminal(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, tt := range []struct {
		name, term string
		in         *os.File
		args       []string
	}{
		{"dumb", "dumb", x.Side, nil},
		{"once", "xterm", x.Side, []string{"--once"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &Env{Lock: testPlace(t), Args: append([]string{"top", "--db", db, "--utc"}, tt.args...), Stdin: tt.in, Stdout: x.Side, Stderr: x.Side,
				Getenv: func(k string) string { return map[string]string{"TERM": tt.term, "NO_COLOR": "1"}[k] },
				Now:    func() time.Time { return began.Add(63 * time.Second) }}
			if code := e.run(t.Context()); code != 0 {
				t.Fatalf("it ends with %d", code)
			}
			if text := x.Until("after 1.00 s") + x.Seen(); strings.Contains(text, "\x1b") {
				t.Errorf("it writes %q", text)
			}
		})
	}
	if _, err := screen.Open(null, x.Side); err == nil {
		t.Error("the screen takes over a terminal although standard input is not that terminal")
	}
}

// A trace on a terminal shows a live program, takes keys, and reports its recording at the end.
func TestKeysOfTrace(t *testing.T) {
	b := newBench(t)
	job := testkit.Start(t, exec.Command(b.stack.Program("loop"), "--seconds", "120"))
	x := testkit.NewTerminal(t)
	x.Resize(80, 24)
	cmd := exec.Command("/proc/self/exe", "trace", "--pid", strconv.Itoa(job.PID()))
	cmd.Env = append(b.env, "TERM=xterm", "NO_COLOR=1")
	before := x.Settings()
	ended := x.Start(cmd)
	x.Shows("cudaLaunchKernel")
	x.Type("w")
	x.Shows("WHERE THE TIME WENT   loop (" + strconv.Itoa(job.PID()) + ")")
	x.Type("w/sync\r")
	if got := x.Look("cudaLaunchKernel", false); !strings.Contains(got, "cudaStreamSynchronize") {
		t.Errorf("filtered:\n%s", got)
	}
	x.Resize(60, 20)
	x.Shows(`filter "sync"  q end`)
	x.Resize(250, 80) // so that a long path needs one line
	x.Type("q")
	<-ended
	got := x.Shows("where the time went: ingero explain")
	if !strings.Contains(got, "\n  cudaLaunchKernel") || x.Other() || x.Settings() != before || cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("it ends with %d:\n%s", cmd.ProcessState.ExitCode(), got)
	}
}
