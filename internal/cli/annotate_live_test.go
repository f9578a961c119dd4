package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"ingero/internal/testkit"
	"ingero/internal/wire"
)

// A program labels itself and becomes a training loop; a script then labels it by its PID. Each
// answer has exactly the calls of its label.
func TestQueryByLabel(t *testing.T) {
	b := newBench(t)
	if stderr := b.annotated(1, "annotate", "--pid", "1", "epoch=1"); !strings.Contains(stderr, "no trace listens for labels") {
		t.Errorf("without a trace: %s", stderr)
	}
	cmd := exec.Command("/bin/sh", "-c", `read line; exec "$0" annotate tenant=a run=7 -- "$@"`, exePath(t), b.stack.Program("train"), "--hold", "--steps", "50", "--kernel-us", "100")
	cmd.Env = b.env
	first := testkit.Start(t, cmd)
	second := b.train("--steps", "30", "--kernel-us", "100")
	trace := b.ingero("trace", "--max-overhead", "0", "--db", b.db(), "--pid", pid(first)+","+pid(second))
	b.tracing(2)
	first.Send("go")
	first.Line("ready")
	b.annotated(0, "annotate", "--pid", pid(second), "epoch=1")
	testkit.Eventually(t, "the label in the recording", func() bool {
		text, _, _ := b.output("query", "--csv", "SELECT value FROM labels WHERE key = 'epoch'")
		return strings.Contains(text, "\n1")
	})
	first.Send("go")
	second.Send("go")
	for _, c := range []*testkit.Child{first, second} {
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if _, stderr, code := finish(t, trace); code != 0 {
		t.Fatalf("trace: code %d:\n%s", code, stderr)
	}
	want, other := counts(t, first)["cudaLaunchKernel"], counts(t, second)["cudaLaunchKernel"]
	if got := b.launches("--label", "tenant=a", "--label", "run=7")[""]; got != want {
		t.Errorf("tenant=a: %d launches, want %d", got, want)
	}
	if got := b.launches("--label", "epoch=1")[""]; got != other {
		t.Errorf("epoch=1: %d launches, want %d", got, other)
	}
	if got := b.launches("--label", "tenant=b"); len(got) > 0 {
		t.Errorf("tenant=b: %v", got)
	}
	if got := b.launches("--by", "label:tenant"); got["a"] != want || got[""] != other || len(got) != 2 {
		t.Errorf("by tenant: %v, want %d and %d", got, want, other)
	}
	for query, want := range map[string]string{
		"SELECT key || '=' || value FROM labels ORDER BY key": "epoch=1\nrun=7\ntenant=a",
		"SELECT l.value FROM labels l JOIN events e ON e.pid = l.pid AND e.timestamp >= l.from_ns AND e.timestamp < coalesce(l.to_ns, e.timestamp + 1) WHERE l.key = 'tenant' GROUP BY l.value": "a",
		"SELECT count(*) FROM labels JOIN processes USING (session, pid) WHERE to_ns >= started_ns":                                                                                             "3",
	} {
		text, stderr, code := b.output("query", "--csv", query)
		if _, rows, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(text, "\r", "")), "\n"); code != 0 || rows != want {
			t.Errorf("%s: code %d, %q, %s", query, code, rows, stderr)
		}
	}
}

// exePath returns the path of the test's program, for another process.
func exePath(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// annotated runs ingero, expects an exit code, and returns standard error.
func (b *bench) annotated(want int, args ...string) string {
	b.t.Helper()
	_, stderr, code := b.output(args...)
	if code != want {
		b.t.Errorf("%v: code %d, want %d: %s", args, code, want, stderr)
	}
	return stderr
}

// launches returns the launches that query counts, by label.
func (b *bench) launches(args ...string) map[string]uint64 {
	b.t.Helper()
	text, stderr, code := b.output(append([]string{"query", "--json", "--op", "cudaLaunchKernel"}, args...)...)
	var answer wire.Operations
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != 0 {
		b.t.Fatalf("%v: code %d, %v, %s", args, code, err, stderr)
	}
	out := map[string]uint64{}
	for i := range answer.Operations {
		o := &answer.Operations[i]
		out[o.Label] += o.Calls
	}
	return out
}
