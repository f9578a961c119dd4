//go:build measure

package cli

import (
	"math"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/testkit"
	"ingero/test/serving"
)

// mostRequestError is the largest mean difference from the server's own times, in percent.
const mostRequestError = 2

// The times of requests by the server's socket are those of the server's own log. Both begin when the
// server first reads the request: the time to the first token ends with its send, and the time per
// output token is that from the first token's send to the last one's, divided by the tokens after the
// first.
func TestRequestsAgainstServer(t *testing.T) {
	b := newBench(t)
	s := serving.Start(t, b.stack, nil)
	s.Serve()
	trace := b.ingero("trace", "--json", "--db", b.db(), "--pid", pid(s.Child))
	testkit.Eventually(t, "the second tick: servers are known", func() bool { return strings.Contains(trace.Stdout(), `"seq":2,`) })
	answers := s.Answers(s.StartLoad("--connections", "4", "--requests", "60"))
	truth := s.Truth()
	s.Signal(syscall.SIGTERM)
	stdout, stderr, code := finish(t, trace)
	if code != 0 {
		t.Fatalf("code %d\n%s", code, stderr)
	}
	var first, between []float64
	for _, x := range connections(t, posts(stdout), truth, answers) {
		sent := x.server.Sent
		n := int64(len(sent) - 1)
		if x.by.ReadNS == nil || x.by.FirstNS == nil || x.by.LastNS == nil || n < 1 || int64(x.by.Events) != n+1 {
			continue // tokens sent at once are one event: no time lies between them
		}
		first = append(first, difference(*x.by.FirstNS-*x.by.ReadNS, sent[0]-x.server.Received))
		between = append(between, difference((*x.by.LastNS-*x.by.FirstNS)/n, (sent[n]-sent[0])/n))
	}
	testkit.MeasuredShare(t, "compared", len(first), len(answers), testkit.Higher)
	compare(t, "first-token", first)
	compare(t, "per-token", between)
}

// difference returns how far a time is from the truth, in percent of the truth.
func difference(got, truth int64) float64 { return 100 * float64(got-truth) / float64(truth) }

// compare reports differences from the truth, and fails the test if their mean is too large.
func compare(t *testing.T, what string, percent []float64) {
	t.Helper()
	if len(percent) == 0 {
		t.Errorf("%s: no request to compare", what)
		return
	}
	sum := 0.0
	far := make([]float64, len(percent))
	for i, p := range percent {
		sum += p
		far[i] = math.Abs(p)
	}
	mean := sum / float64(len(percent))
	testkit.MeasuredAll(t, what+"-difference", far, "%", testkit.Lower)
	testkit.Measured(t, what+"-mean-difference", math.Abs(mean), "%", testkit.Lower)
	if math.Abs(mean) > mostRequestError {
		t.Errorf("%s: the mean differs by %.2f %%", what, mean)
	}
}
