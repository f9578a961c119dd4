package metric

import (
	"math"
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
)

// vllm is a server on port 8000, by its command line.
var vllm = tick.Process{PID: 10, Comm: "vllm", Started: epoch, Where: tick.Where{Cmdline: "vllm serve m"}}

const millisecond = time.Millisecond

// answered returns a request that was answered after 10 ms, with 3 events up to 30 ms.
func answered(status uint16) tick.Request {
	return tick.Request{PID: 10, Port: 8000, Arrived: epoch.UnixNano(), Read: millisecond, Whole: 2 * millisecond, Head: 9 * millisecond, First: 10 * millisecond,
		Last: 30 * millisecond, Events: 3, Status: status, Post: true}
}

// Requests are counted by status. Only those that were answered with a status below 400 have times.
func TestRequests(t *testing.T) {
	health := answered(200)
	health.Post = false
	for name, tt := range map[string]struct {
		request tick.Request
		status  string // "": not counted
		timed   bool
	}{
		"answered":             {answered(200), "2xx", true},
		"redirected":           {answered(302), "3xx", true},
		"refused":              {answered(404), "4xx", false},
		"failed":               {answered(503), "5xx", false},
		"no HTTP status":       {answered(0), Other, true},
		"an invalid status":    {answered(999), Other, false},
		"unanswered":           {tick.Request{PID: 10, Port: 8000, Post: true, Head: -1, First: -1, Last: -1}, "unanswered", false},
		"without a body":       {tick.Request{PID: 10, Port: 8000, Post: true, Head: 5, First: -1, Last: 5, Status: 204}, "2xx", true},
		"an empty body":        {tick.Request{PID: 10, Port: 8000, Post: true, Head: 5, First: -1, Last: 5, Status: 200, End: tick.ResponseNext}, "2xx", true},
		"only a stream's head": {tick.Request{PID: 10, Port: 8000, Post: true, Head: 5, First: -1, Last: 5, Status: 200, End: tick.ResponseClosed}, "unanswered", false},
		"without a body (GET)": {health, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.tick(func(x *tick.Tick) { x.Others, x.Requests = []tick.Process{vllm}, []tick.Request{tt.request} })
			if tt.status == "" {
				if f := points(s, Requests); len(f) > 0 {
					t.Errorf("it is counted: %v", f)
				}
				return
			}
			near(t, "the count", value(s, Requests, tt.status, "vLLM", "m", "8000"), 1)
			if n := value(s, RequestFirstByte, "vLLM", "m", "8000"); (n == 1) != tt.timed {
				t.Errorf("%v times to the first byte", n)
			}
		})
	}
}

// The parts of what requests waited for add up to their times, whether they are divided or not.
func TestRequestWaits(t *testing.T) {
	w := newWorld(t)
	divided := answered(200)
	divided.Split = true
	divided.ToFirst = tick.RequestTime{Idle: 1 * millisecond, Prompts: 2 * millisecond, Own: 3 * millisecond, Tokens: 1500 * time.Microsecond, Deliver: 500 * time.Microsecond}
	divided.After = tick.RequestTime{Tokens: 15 * millisecond, Deliver: 5 * millisecond}
	s := w.tick(func(x *tick.Tick) {
		x.Processes, x.Requests = []tick.Process{vllm}, []tick.Request{divided, answered(200)}
	})
	for part, want := range map[string]float64{"unread": 2, "receiving": 2, "server": 1, "prompts": 2, "own-prompt": 3, "tokens": 1.5, "delivery": 0.5, "unknown": 8} {
		near(t, part, value(s, RequestWait, "to_first", part, "vLLM", "m", "8000"), want/1e3)
	}
	for part, want := range map[string]float64{"tokens": 15, "delivery": 5, "unknown": 20} {
		near(t, part+" after the first byte", value(s, RequestWait, "after", part, "vLLM", "m", "8000"), want/1e3)
	}
	near(t, "the parts", sum(s, RequestWait), points(s, RequestDuration)[0].Dist.Sum())
	near(t, "the mean time between events", points(s, RequestBetween)[0].Dist.Max(), 10e-3)

	s = w.tick(nil) // a later tick has the same sums
	near(t, "the parts", sum(s, RequestWait), 60e-3)
	if !slices.Equal(points(s, RequestDuration)[0].Labels, []string{"vLLM", "m", "8000"}) {
		t.Errorf("labels %v", points(s, RequestDuration)[0].Labels)
	}
}

// Without requests there is no series. Servers that are not recognized are told apart by port, and
// those beyond the limit have one series.
func TestRequestServersAreBounded(t *testing.T) {
	w := newWorld(t)
	s := w.tick(func(x *tick.Tick) { x.Processes = []tick.Process{vllm} })
	for _, id := range []ID{Requests, RequestFirstByte, RequestBetween, RequestDuration, RequestWait} {
		if f := points(s, id); len(f) > 0 {
			t.Errorf("%s without requests: %v", Rows[id].Name, f)
		}
	}
	s = w.tick(func(x *tick.Tick) {
		for i := range uint16(3 * mostServers) {
			r := answered(200)
			r.PID, r.Port = 77, 1+i
			x.Requests = append(x.Requests, r)
		}
	})
	near(t, "a server", value(s, Requests, "2xx", "", "", "1"), 1)
	near(t, "the others", value(s, Requests, "2xx", Other, Other, Other), 2*mostServers+1)
	if got := len(points(s, RequestFirstByte)); got != mostServers {
		t.Errorf("%d series", got)
	}
	if n := value(s, SeriesOver, Rows[Requests].Name); !(n > 0) || math.IsNaN(n) {
		t.Errorf("%v servers had no series", n)
	}
}

// A server that is recognized after its first request has its name from then on.
func TestRequestServerIsNamedLater(t *testing.T) {
	w := newWorld(t)
	one := func(x *tick.Tick) { x.Requests = []tick.Request{answered(200)} }
	s := w.tick(one)
	near(t, "requests", value(s, Requests, "2xx", "", "", "8000"), 1)
	s = w.tick(func(x *tick.Tick) { one(x); x.Processes = []tick.Process{vllm} })
	near(t, "requests", value(s, Requests, "2xx", "", "", "8000"), 1)
	near(t, "requests", value(s, Requests, "2xx", "vLLM", "m", "8000"), 1)
}
