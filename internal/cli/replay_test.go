package cli

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
)

// ofTicks returns the lines of ticks and of the lives of chains in lines of JSON, each as
// it is but for what a recording does not have: these are no part of what is found.
func ofTicks(t *testing.T, text string) (out []string) {
	t.Helper()
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		var x map[string]json.RawMessage
		if err := json.Unmarshal(s.Bytes(), &x); err != nil {
			t.Fatalf("%v in line %q", err, s.Text())
		}
		var kind string
		if err := json.Unmarshal(x["type"], &kind); err != nil {
			t.Fatal(err)
		}
		if kind != "tick" && !strings.HasPrefix(kind, "chain_") {
			continue
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

// fieldsThatDiffer names the fields of two lines that are not the same.
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

// sameTicks compares the first ticks of a trace with those of its replay, byte for byte.
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

// A recording of the running kernel that is played gives the ticks that the trace gave,
// byte for byte, whatever happened.
func TestReplayIsLive(t *testing.T) {
	for name, tt := range map[string]struct {
		program string
		args    []string
		trace   []string
		hog     bool
		chains  bool
	}{
		"a hog": {program: "train", args: []string{"--seconds", "6"}, hog: true, chains: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if tt.hog {
				cpu := "0"
				tt.args = append(tt.args, "--pin", cpu)
				hog := exec.Command("taskset", "-c", cpu, "sh", "-c", "echo up; while :; do :; done")
				c := testkit.Start(t, hog)
				c.Line("up")
			}
			target := testkit.Start(t, exec.Command(b.stack.Program(tt.program), append(tt.args, "--hold")...))
			target.Line("ready")
			c := b.ingero(append([]string{"trace", "--json", "--pid", pid(target)}, tt.trace...)...)
			b.tracing(1)
			target.Say("go")
			_, stderr, code := finish(t, c)
			if code != 0 {
				t.Fatalf("trace: exit code %d: %s", code, stderr)
			}
			live := ofTicks(t, c.Stdout())
			if tt.chains && !strings.Contains(strings.Join(live, "\n"), "chain_begin") {
				t.Errorf("the trace has found nothing in %d lines", len(live))
			}
			again := b.ingero("replay", b.db(), "--json")
			_, stderr, code = finish(t, again)
			if code != 0 {
				t.Fatalf("replay: exit code %d: %s", code, stderr)
			}
			sameTicks(t, live, ofTicks(t, again.Stdout()))
			if out, stderr, code := b.output("replay", b.db(), "--check"); code != 0 || !strings.HasPrefix(out, "The same: ") {
				t.Errorf("check: exit code %d: %s%s", code, out, stderr)
			}
			_ = syscall.SIGKILL
		})
	}
}
