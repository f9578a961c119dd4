package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"ingero/internal/testkit"
)

// A trace copies its whole recording and says so; a later export sends it again to a server that
// lists no rows.
func TestTraceToClickHouse(t *testing.T) {
	b := newBench(t)
	var inserts atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Query().Get("query"), "INSERT INTO `ingero`.calls ") {
			inserts.Add(1)
		}
		_, _ = io.Copy(io.Discard, q.Body)
	}))
	defer server.Close()
	child := b.train("--steps", "50")
	c := b.ingero("trace", "--clickhouse", server.URL, "--pid", pid(child))
	c.Line("Copying recordings to ClickHouse: " + server.URL)
	b.tracing(1)
	child.Send("go")
	counts(t, child)
	_, stderr, code := finish(t, c)
	has := regexp.MustCompile(`ClickHouse has ([0-9,]+) calls of this recording`).FindStringSubmatch(stderr + c.Stdout())
	if code != 0 || has == nil || inserts.Load() == 0 {
		t.Fatalf("exit code %d, %d inserts: %s", code, inserts.Load(), stderr)
	}
	if strings.Contains(stderr, "not all") {
		t.Error(stderr)
	}
	before := inserts.Load()
	_, stderr, code = b.output("export", "--format", "clickhouse", "-o", server.URL)
	if code != 0 || !strings.Contains(stderr, "Wrote "+has[1]+" calls, ") || inserts.Load() == before {
		t.Errorf("exit code %d, it had %s calls: %s", code, has[1], stderr)
	}
}

// --clickhouse without a recording is rejected.
func TestClickHouseNeedsARecording(t *testing.T) {
	testkit.NeedRoot(t)
	b := newBench(t)
	_, stderr, code := b.output("trace", "--record=false", "--clickhouse", "http://127.0.0.1:1")
	if code != exitUsage || !strings.Contains(stderr, "copies the recording") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
