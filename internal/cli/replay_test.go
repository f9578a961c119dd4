package cli

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
)

// ofTicks returns the tick and chain lines of a JSON output, without fields that a recording does
// not have.
func ofTicks(t *testing.T, text string) (out []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, `{"type":"tick"`) && !strings.HasPrefix(line, `{"type":"chain_`) {
			continue
		}
		var x map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%v in line %q", err, line)
		}
		for _, name := range []string{"stack_policy", "pods"} {
			delete(x, name)
		}
		b, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// fieldsThatDiffer names the fields in which two lines differ.
func fieldsThatDiffer(t *testing.T, a, b string) (out []string) {
	t.Helper()
	var x, y map[string]json.RawMessage
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	for name := range x {
		if string(x[name]) != string(y[name]) {
			out = append(out, name+cmp.Diff(string(x[name]), string(y[name])))
		}
	}
	return out
}

// sameTicks compares a trace's ticks with those of its replay, byte for byte.
func sameTicks(t *testing.T, live, replayed []string) {
	t.Helper()
	if len(live) != len(replayed) {
		t.Errorf("%d lines live, %d replayed", len(live), len(replayed))
	}
	for i := range min(len(live), len(replayed)) {
		if live[i] != replayed[i] {
			t.Fatalf("line %d -live +replay: %s", i+1, strings.Join(fieldsThatDiffer(t, live[i], replayed[i]), "\n"))
		}
	}
}

// withoutIdle removes the ticks that a trace with a deadband left out: its replay has no deadband.
// Nothing may have been recorded in them, and their host events are those of the next tick.
func withoutIdle(t *testing.T, live, replayed []string) (out []string) {
	t.Helper()
	type line struct {
		Type    string
		Seq     uint64
		Records uint64
		Sums    []json.RawMessage `json:"host_sums"`
	}
	parse := func(text string) (x line) {
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	shown := map[uint64]bool{}
	for _, text := range live {
		if x := parse(text); x.Type == "tick" {
			shown[x.Seq] = true
		}
	}
	records := uint64(0)
	for _, text := range replayed {
		x := parse(text)
		if x.Type != "tick" || shown[x.Seq] || x.Records != records || len(x.Sums) > 0 {
			out = append(out, text)
		}
		if x.Type == "tick" {
			records = x.Records
		}
	}
	return out
}

// replayed is a traced and recorded program.
type replayed struct {
	program string
	args    []string
	env     string
	trace   []string
	hog     bool   // another program competes for its CPU
	stopped bool   // the trace is stopped until the program has ended
	has     string // text that a line of the trace contains
}

// replays are programs in situations that the analysis handles.
var replays = map[string]replayed{
	"a hog":               {program: "train", args: []string{"--seconds", "3", "--pin", "0"}, hog: true},
	"failed allocations":  {program: "memory", args: []string{"--ops", "6000"}, env: "INGERO_SIM_FAIL=cuMemAlloc:500+=2", has: `"errors":[{`},
	"a rank that dies":    {program: "ddp", args: []string{"--ranks", "3", "--steps", "100", "--die-rank", "1", "--die-step", "60", "--slow-rank", "2", "--slow-ms", "20"}, trace: []string{"--duration", "6s"}, has: `"comms":`},
	"thinned records":     {program: "calls", args: []string{"launch", "200000", "--zero"}, trace: []string{"--ringbuf-size", "65536", "--max-overhead", "0"}, stopped: true, has: `"reason":"thinned"`},
	"many short programs": {program: "multi", args: []string{"--case", "fork-storm", "--count", "60"}, has: `"ended":`},
	"long names":          {program: "torch", args: []string{"--steps", "60"}, trace: []string{"--stack=all"}, has: `"launches":`},
	"steps with names":    {program: "train", args: []string{"--seconds", "4", "--nvtx", "step #", "--nvtx-junk"}, has: `"nvtx_range":"step #"`},
	"an idle machine":     {program: "calls", args: []string{"launch", "40", "--rate", "10"}, trace: []string{"--deadband", "90"}, has: `"host_sums":[{`},
}

// The replay of a live recording yields the trace's ticks, byte for byte, in all situations.
func TestReplayIsLive(t *testing.T) {
	for name, tt := range replays {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			live := b.traced(&tt, nil)
			if !strings.Contains(strings.Join(live, "\n"), tt.has) {
				t.Errorf("the %d lines of the trace lack %s", len(live), tt.has)
			}
			again, stderr, code := b.output("replay", b.db(), "--json")
			if code != 0 {
				t.Fatalf("replay: exit code %d: %s", code, stderr)
			}
			ticks := ofTicks(t, again)
			if slices.Contains(tt.trace, "--deadband") {
				ticks = withoutIdle(t, live, ticks)
			}
			sameTicks(t, live, ticks)
			if err := readSchema(t).checkTrace(again); err != nil {
				t.Error(err)
			}
			if out, stderr, code := b.output("replay", b.db(), "--check"); code != 0 || !strings.HasPrefix(out, "The same: ") {
				t.Errorf("check: exit code %d: %s%s", code, out, stderr)
			}
		})
	}
}

// traced traces a program to its end, or until end returns, and returns the lines of its ticks.
func (b *bench) traced(r *replayed, end func(*testkit.Child)) []string {
	b.t.Helper()
	if r.hog {
		c := testkit.Start(b.t, exec.Command("taskset", "-c", "0", "sh", "-c", "echo up; while :; do :; done"))
		c.Line("up")
		defer c.Signal(syscall.SIGKILL) // the replays need the CPU
	}
	hold := "--hold"
	if r.program == "calls" {
		hold = "--start-on-stdin"
	}
	cmd := exec.Command(b.stack.Program(r.program), append(r.args, hold)...)
	cmd.Env = append(os.Environ(), r.env)
	target := testkit.Start(b.t, cmd)
	target.Line("ready")
	c := b.ingero(append([]string{"trace", "--json", "--pid", pid(target)}, r.trace...)...)
	testkit.Eventually(b.t, "a trace", func() bool {
		h, err := b.place.Holder()
		if err != nil || h == nil {
			return false
		}
		s, err := b.place.State(*h)
		return err == nil && len(s.Processes) > 0
	})
	if r.stopped {
		c.Signal(syscall.SIGSTOP)
	}
	target.Send("go")
	if r.stopped {
		target.Line(`{"program"`)
		c.Signal(syscall.SIGCONT)
	}
	if end != nil {
		end(c)
		_ = c.Wait()
	} else if _, stderr, code := finish(b.t, c); code != 0 {
		b.t.Fatalf("trace: exit code %d: %s", code, stderr)
	}
	text := strings.TrimSuffix(c.Stdout(), "\n")
	if end != nil { // a killed trace may have truncated its last line
		if last := strings.LastIndexByte(text, '\n') + 1; !json.Valid([]byte(text[last:])) {
			text = text[:last]
		}
	}
	return ofTicks(b.t, text)
}

// The recording of a killed trace yields the trace's ticks up to the kill.
func TestReplayOfAKilledTrace(t *testing.T) {
	b := newBench(t)
	tt := replays["a hog"]
	tt.args = []string{"--seconds", "60", "--pin", "0"}
	const least = 3 // minimum number of ticks recorded before the kill
	live := b.traced(&tt, func(c *testkit.Child) {
		testkit.Eventually(t, "ticks in the output", func() bool { return strings.Count(c.Stdout(), `{"type":"tick"`) > least })
		testkit.Eventually(t, "ticks in the recording", func() bool {
			again, _, code := b.output("replay", b.db(), "--json")
			return code == 0 && strings.Count(again, `{"type":"tick"`) > least
		})
		c.Signal(syscall.SIGKILL)
	})
	again, stderr, code := b.output("replay", b.db(), "--json")
	if code != 0 {
		t.Fatalf("replay: exit code %d: %s", code, stderr)
	}
	played := ofTicks(t, again)
	// The output and the recording end at different ticks. The last tick of the replay has the
	// recorded part of an unfinished tick.
	both := min(len(live), len(played)-1)
	if both < least {
		t.Fatalf("%d lines live, %d replayed, want %d or more of both", len(live), len(played), least)
	}
	sameTicks(t, live[:both], played[:both])
	if out, stderr, code := b.output("replay", b.db(), "--check"); code != 0 {
		t.Errorf("check: exit code %d: %s%s", code, out, stderr)
	}
}

// If causes differ from the stored ones, replay --check reports the differences and exits with its
// own code.
func TestReplayCheckTellsWhatDiffers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := recordIncident(path); err != nil {
		t.Fatal(err)
	}
	check := func() (string, int) {
		stdout := temporary(t)
		e := &Env{Args: []string{"replay", path, "--check"}, Stdin: os.Stdin, Stdout: stdout, Stderr: temporary(t), Getenv: func(string) string { return "" }, Lock: testPlace(t)}
		code := e.run(t.Context())
		text, err := os.ReadFile(stdout.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text), code
	}
	if text, code := check(); code != exitOK || text != "The same: 13 ticks, 1 cause.\n" {
		t.Fatalf("exit code %d: %s", code, text)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(`UPDATE chains SET lost_ns = 7, culprits = '[]'`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	text, code := check()
	for _, line := range []string{"Not the same: the last states of 1 cause differ.", `  - "Lost": 7,`, `  + "Culprits": [`} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
	if code != exitDiffers {
		t.Errorf("exit code %d, want %d", code, exitDiffers)
	}
}
