package explain

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// servedTick has requests to a server of vLLM: the times to the first bytes are 10, 20 ... 100 ms.
func servedTick() *tick.Tick {
	t := &tick.Tick{Processes: []tick.Process{{PID: 42, Comm: "python3", Where: tick.Where{Cmdline: "vllm serve Qwen/Qwen2.5-7B --port 8000"}}}}
	peer := netip.MustParseAddrPort("10.0.0.7:51234")
	for i := range 10 {
		first := time.Duration(i+1) * 10 * time.Millisecond
		t.Requests = append(t.Requests, tick.Request{PID: 42, TID: 42, Port: 8000, Peer: peer, Arrived: int64(i) * 1e9, Read: time.Millisecond, Whole: time.Millisecond,
			Head: 2 * time.Millisecond, First: first, Last: first + 900*time.Millisecond, Events: 10, Status: 200, Post: true, End: tick.ResponseChunk})
	}
	slow := &t.Requests[9]
	slow.Read, slow.Refused = 60*time.Millisecond, 3
	unanswered := tick.Request{PID: 42, Port: 8000, Peer: peer, Arrived: 11e9, Read: time.Millisecond, Whole: time.Millisecond, Head: -1, First: -1, Last: -1, Post: true, End: tick.ResponseClosed}
	refused := tick.Request{PID: 42, Port: 8000, Peer: peer, Arrived: 12e9, Read: time.Millisecond, Whole: time.Millisecond, Head: time.Millisecond, First: time.Millisecond, Last: time.Millisecond,
		Events: 1, Status: 400, Post: true, End: tick.ResponseNext}
	failed := refused
	failed.Status = 503
	health := refused
	health.Post, health.Status = false, 200
	t.Requests = append(t.Requests, unanswered, refused, failed, health)
	return t
}

// Requests are summed up by server: those with a body are measured, others counted.
func TestServers(t *testing.T) {
	var r Requests
	r.Add(servedTick())
	list := r.list()
	if len(list) != 1 {
		t.Fatalf("got %d servers, want 1", len(list))
	}
	s := &list[0]
	if s.Requests != 13 || s.Others != 1 || s.Failed != 1 || s.Refused != 1 || s.Unanswered != 1 || s.SlowReader != 1 {
		t.Errorf("got %+v", s)
	}
	if s.FirstByte.Count != 10 || s.Between.Count != 10 || s.Unread.Count != 13 || *s.Between.P50NS < 99e6 || *s.Between.P50NS > 101e6 {
		t.Errorf("got %+v", s)
	}
	if len(s.Slowest) != mostSlow || *s.Slowest[0].FirstNS != 100e6 || *s.Slowest[4].FirstNS != 60e6 {
		t.Errorf("the slowest are %+v", s.Slowest)
	}
	w := &writer{loc: time.UTC}
	w.server(s)
	want := `Requests to python3 (42), vLLM server for Qwen/Qwen2.5-7B on port 8000: 13
requests, 1 failed (status 500 and more), 1 refused (status 400 to 499), 1
without a response, 1 whose client read slowly, 1 more without a body.
                                           p50       p95       p99       max
  until the server read it             1.00 ms   60.0 ms   60.0 ms   60.0 ms
  to the first byte of the body        50.1 ms    100 ms    100 ms    100 ms
  between two events                    100 ms    100 ms    100 ms    100 ms
  to the last byte                      952 ms    1.00 s    1.00 s    1.00 s
  Slowest: 00:00:09.000 from 10.0.0.7:51234, 100 ms to the first byte, of which
  60.0 ms until the server read it; 10 events in 900 ms.
`
	if got := w.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A request to a process that is no known server is shown with its port.
func TestUnknownServer(t *testing.T) {
	var r Requests
	r.Add(&tick.Tick{Requests: []tick.Request{{PID: 7, Port: 5000, Head: -1, First: -1, Last: -1, Post: true}}})
	w := &writer{loc: time.UTC}
	w.server(&r.list()[0])
	if got := w.String(); !strings.HasPrefix(got, "Requests to process (7) on port 5000: 1 request, 1 without a response.") {
		t.Errorf("got %q", got)
	}
}
