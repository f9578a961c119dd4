package cli

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// metricsOf waits for the line with the address of a trace's metrics, and returns the address.
func metricsOf(t *testing.T, c *testkit.Child) string {
	t.Helper()
	line := c.Line("Metrics: http://")
	address, says, _ := strings.Cut(strings.TrimPrefix(line, "Metrics: http://"), " ")
	if says != "(this machine only)" {
		t.Errorf("the line says %q", line)
	}
	return address
}

// get returns the answer of a server.
func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// A trace serves call counts that equal the program's own, also after the program has ended.
func TestTracePrometheus(t *testing.T) {
	b := newBench(t)
	shell := b.job("--steps", "30")
	c := b.ingero("trace", "--max-overhead", "0", "--prometheus", ":0", "--record=false", "--pid", pid(shell))
	address := metricsOf(t, c)
	b.tracing(1)
	want := b.runJob(shell)
	var text string
	for op, n := range want {
		line := regexp.MustCompile(`(?m)^gpu_cuda_operation_count_total\{[^}]*operation="` + op + `"[^}]*\} ` + strconv.FormatUint(n, 10) + `(\.0)?$`)
		testkit.Eventually(t, fmt.Sprintf("%d calls of %s", n, op), func() bool {
			_, text = get(t, "http://"+address+"/metrics")
			return line.MatchString(text)
		})
	}
	shell.Send("end")
	if _, stderr, code := finish(t, c); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// run serves metrics while its program runs, and closes the port afterwards.
func TestRunPrometheus(t *testing.T) {
	b := newBench(t)
	c := b.ingero("run", "--prometheus", ":0", "--", b.stack.Program("train"), "--hold", "--steps", "5")
	c.Line("ready")
	address := ""
	testkit.Eventually(t, "the line with the address", func() bool {
		_, rest, ok := strings.Cut(c.Stderr(), "Metrics: http://")
		address, _, _ = strings.Cut(rest, " ")
		return ok && strings.Contains(rest, "(this machine only)\n")
	})
	testkit.Eventually(t, "metrics", func() bool {
		code, _ := get(t, "http://"+address+"/readyz")
		return code == http.StatusOK
	})
	c.Send("go")
	if _, stderr, code := finish(t, c); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if _, err := http.Get("http://" + address + "/metrics"); err == nil {
		t.Error("the port is still open")
	}
}

// job starts a traced shell with a training loop in it, so that the trace continues after the
// loop.
func (b *bench) job(args ...string) *testkit.Child {
	b.t.Helper()
	script := `echo up; read x; "$0" "$@"; echo done; read y`
	shell := testkit.Start(b.t, exec.Command("sh", append([]string{"-c", script, b.stack.Program("train"), "--hold"}, args...)...))
	shell.Line("up")
	return shell
}

// runJob runs the shell's training loop under a trace and returns the loop's counts.
func (b *bench) runJob(shell *testkit.Child) map[string]uint64 {
	b.t.Helper()
	shell.Send("go")
	shell.Line("ready")
	testkit.Eventually(b.t, "probes", func() bool {
		s := b.tracing(2)
		for i := range s.Processes { // ordered by PID, and the loop's may be the lower one
			if p := &s.Processes[i]; p.PID != uint32(shell.PID()) {
				return s.Libraries > 0 && !p.Attached.IsZero()
			}
		}
		return false
	})
	shell.Send("go")
	want := counts(b.t, shell)
	shell.Line("done")
	return want
}
