package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// metricsOf waits for the line that says where a trace serves metrics, and returns the
// address.
func metricsOf(t *testing.T, c *testkit.Child) string {
	t.Helper()
	line := c.Line("Metrics: http://")
	address, says, _ := strings.Cut(strings.TrimPrefix(line, "Metrics: http://"), " ")
	if says != "(this machine only)" {
		t.Errorf("the line says %q", line)
	}
	return address
}

// get returns what a server answers.
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

// A program that is run serves metrics while it runs, and the port is gone with it.
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
	c.Say("go")
	if _, stderr, code := finish(t, c); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if _, err := http.Get("http://" + address + "/metrics"); err == nil {
		t.Error("the port is still open")
	}
}
