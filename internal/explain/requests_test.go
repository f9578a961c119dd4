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
	list := r.List()
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
  Time to the first byte of 10 requests, 609 ms in all:
    until the server read the request              69.0 ms   11.3 %
    not known                                       540 ms   88.7 %
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
	w.server(&r.List()[0])
	if got := w.String(); !strings.HasPrefix(got, "Requests to process (7) on port 5000: 1 request, 1 without a response.") {
		t.Errorf("got %q", got)
	}
}

// Of the requests that miss an objective, the report says what their server and its engine did.
func TestObjective(t *testing.T) {
	now := servedTick()
	for i := range now.Requests[:10] {
		x := &now.Requests[i]
		x.Split = true
		d := (x.First - x.Whole) / 9
		x.ToFirst = tick.RequestTime{Idle: d, Prompts: 4 * d, Tokens: 2 * d, Own: d, Deliver: x.First - x.Whole - 8*d, GPU: 5 * d, CPU: d, Runnable: d}
		x.After = tick.RequestTime{Prompts: 300 * time.Millisecond, Tokens: 600 * time.Millisecond, GPU: 900 * time.Millisecond}
	}
	slow := &now.Requests[9]
	slow.Whole = slow.Read
	slow.ToFirst = tick.RequestTime{Idle: 10 * time.Millisecond, Prompts: 20 * time.Millisecond, Own: 10 * time.Millisecond, GPU: 15 * time.Millisecond, CPU: 15 * time.Millisecond}
	for objective, want := range map[string]string{
		"ttft=95ms": `  Time to the first byte of the 1 request with more than 95ms to it, 100 ms in
  all:
    until the server read the request              60.0 ms   60.0 %
    the server, while its engine had no work       10.0 ms   10.0 %
    the engine: prompts of other requests          20.0 ms   20.0 %
    the engine: the request's own prompt           10.0 ms   10.0 %
    The engine's steps: waiting for the GPU 50.0 %, on a CPU 50.0 %.
`,
		"tpot=99ms": `  Time after the first byte of the 10 requests with more than 99ms between two
  events, 9.00 s in all:
    the engine: prompts of other requests           3.00 s   33.3 %
    the engine: tokens                              6.00 s   66.7 %
    The engine's steps: waiting for the GPU 100.0 %.
`,
		"total=2s": "",
	} {
		t.Run(objective, func(t *testing.T) {
			o, err := ObjectiveOf(objective)
			if err != nil {
				t.Fatal(err)
			}
			r := Requests{Objective: o}
			r.Add(now)
			w := &writer{loc: time.UTC}
			if s := r.List()[0]; s.Waits != nil {
				w.waits(s.Waits)
			}
			if got := w.String(); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	for _, text := range []string{"", "ttft", "ttft=", "ttft=-1s", "ttft=0s", "itl=5ms", "200ms"} {
		if o, err := ObjectiveOf(text); err == nil {
			t.Errorf("%q is the objective %v", text, o)
		}
	}
}
