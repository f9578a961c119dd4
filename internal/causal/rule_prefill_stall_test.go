package causal

import (
	"cmp"
	"net/netip"
	"sort"
	"strings"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// served is an inference server in a test: its engine's steps, and its requests.
type served struct {
	at       int64 // Unix ns: end of the last step
	steps    []ledger.Step
	requests []tick.Request
	reads    []tick.Inference // of the server's metrics

	breakdowns []tick.Breakdown
	prompt     func(second int, x *ledger.Step) // of serveTokens: completes a step for prompts; nil: it is complete
	// thinned is since when launches are thinned, and requests are not divided, Unix ns; 0: never.
	thinned int64
	level   string // that thins them; "": records-thin
	known   bool   // steps say whether they launched graphs: requests are divided all the same
	idle    int64  // seconds after the last step
}

const (
	serverPID, engineTID = 10, 11
	servedFrom           = int64(1000e9)
)

func newServed() *served { return &served{at: servedFrom} }

// step adds a step of the engine that waits for work, then computes prompts (without a graph) or
// tokens.
func (s *served) step(waits, works time.Duration, graph bool) {
	x := ledger.Step{PID: engineTID, TID: engineTID, From: s.at, To: s.at + int64(waits+works), Launches: 1, GraphsKnown: s.known}
	x.Parts.Blocked[events.ReasonSocket] = int64(waits)
	x.Parts.GPUWait = int64(works)
	if graph {
		x.Marks = ledger.MarkGraph
	}
	s.steps, s.at = append(s.steps, x), x.To
}

// request adds an answered request. Its own prompt ended 1 ms before its first byte.
func (s *served) request(peer string, arrived, first, last int64, bytes uint64) *tick.Request {
	s.requests = append(s.requests, tick.Request{PID: serverPID, TID: serverPID, Port: 8000, Peer: netip.AddrPortFrom(netip.MustParseAddr(peer), 40000), Arrived: arrived,
		First: time.Duration(first - arrived), Last: time.Duration(last - arrived), Events: 10, Received: bytes, Status: 200, Post: true,
		Split: true, EngineTID: engineTID, ToFirst: tick.RequestTime{Deliver: time.Millisecond}})
	return &s.requests[len(s.requests)-1]
}

// chains returns the chains of a rule in the last second.
func (s *served) chains(rule string) (out []tick.Chain) {
	e := New(0)
	steps := s.steps
	processes := []tick.Process{{PID: engineTID}}
	var chains []tick.Chain
	for second := servedFrom / 1e9; second <= s.at/1e9+1+s.idle; second++ {
		t := tick.Tick{Time: time.Unix(second, 0), Window: time.Second, Processes: processes, Breakdowns: s.breakdowns}
		if s.thinned != 0 && second*1e9 >= s.thinned {
			t.Overhead.Shed = []string{cmp.Or(s.level, "records-thin")}
		}
		for _, x := range s.requests {
			if s.thinned != 0 && x.Arrived >= s.thinned && !s.known {
				x.Split, x.EngineTID = false, 0
			}
			if x.EndTime()/1e9 == second {
				t.Requests = append(t.Requests, x)
			}
		}
		for _, x := range s.reads {
			if x.Time.Unix() == second {
				t.Inference = append(t.Inference, x)
			}
		}
		n := sort.Search(len(steps), func(i int) bool { return steps[i].To >= second*1e9 })
		e.Add(steps[:n])
		steps = steps[n:]
		chains, _ = e.Tick(&t)
	}
	for _, c := range chains {
		if c.Rule == rule {
			out = append(out, c)
		}
	}
	return out
}

// Long steps for prompts cost what they take beyond a step for tokens, while other requests get none.
func TestPrefillStall(t *testing.T) {
	for name, tt := range map[string]struct {
		prompt  time.Duration
		cpu     time.Duration // of prompt: the engine waited for a CPU
		running bool          // a request of another client is between tokens
		graphs  bool          // the engine computes tokens with graphs
		short   int           // short prompts of a third client in the same step
		copies  bool          // the prompts' steps launch nothing
		lost    time.Duration
	}{
		"long prompts":                {prompt: 200 * time.Millisecond, running: true, graphs: true, lost: 20 * 190 * time.Millisecond},
		"short prompts beside":        {prompt: 200 * time.Millisecond, running: true, graphs: true, short: 3, lost: 20 * 190 * time.Millisecond},
		"as long as a few tokens":     {prompt: 39 * time.Millisecond, running: true, graphs: true},
		"long for want of a CPU":      {prompt: 200 * time.Millisecond, cpu: 165 * time.Millisecond, running: true, graphs: true},
		"nobody waits":                {prompt: 200 * time.Millisecond, graphs: true},
		"copies":                      {prompt: 200 * time.Millisecond, running: true, graphs: true, copies: true},
		"what is a prompt is unknown": {prompt: 200 * time.Millisecond, running: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			s.step(0, 10*time.Millisecond, tt.graphs)
			for range 20 { // each second a long prompt, and tokens
				begin := s.at
				s.step(100*time.Millisecond, tt.prompt, false)
				x := &s.steps[len(s.steps)-1]
				x.Parts.GPUWait, x.Parts.Runnable = x.Parts.GPUWait-int64(tt.cpu), int64(tt.cpu)
				if tt.copies {
					x.Launches = 0
				}
				s.request("10.0.0.9", begin+int64(100*time.Millisecond), s.at+int64(time.Millisecond), s.at+int64(time.Millisecond), 48<<10)
				for range tt.short {
					s.request("10.0.0.7", begin+int64(100*time.Millisecond), s.at+int64(time.Millisecond), s.at+int64(time.Millisecond), 400)
				}
				for range 50 {
					s.step(0, 10*time.Millisecond, tt.graphs)
				}
				s.step(100*time.Millisecond, 10*time.Millisecond, tt.graphs)
				if tt.running {
					s.request("10.0.0.5", begin-int64(20*time.Millisecond), begin, s.at, 400)
				}
			}
			got := s.chains("prefill-stall")
			if tt.lost == 0 {
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Lost != tt.lost || got[0].PID != engineTID || got[0].Slow != 20 || got[0].Severity != tick.High {
				t.Fatalf("%+v", got)
			}
			if c := got[0].Culprits; len(c) != 1+min(tt.short, 1) || !strings.HasPrefix(c[0].What, "requests from 10.0.0.9 with prompts of up to 48") ||
				c[0].Lost > tt.lost || c[0].Lost < tt.lost*9/10 || tt.short == 0 && c[0].Lost != tt.lost {
				t.Errorf("culprits: %+v", c)
			}
		})
	}
}

// A request whose response is sent at once runs from the end of its prompt. What its engine did after
// that is no time before the engine had it.
func TestResponseAtOnce(t *testing.T) {
	const ms = time.Millisecond
	r := Request{tick.Request{Arrived: servedFrom, First: 100 * ms, Last: 100 * ms, Events: 1, Split: true,
		ToFirst: tick.RequestTime{Idle: 12 * ms, Own: 20 * ms, Tokens: 67 * ms, Deliver: ms},
		AtOnce:  tick.RequestTime{Idle: 2 * ms, Tokens: 60 * ms, Deliver: ms}}, 1}
	s := Server{Requests: []Request{r}}
	s.notePrompts(s.Requests)
	times := s.times()
	for at, want := range map[time.Duration]float64{10 * ms: 0, 40 * ms: 1, 80 * ms: 1, 100 * ms: 0} { // step of 10 ms
		p := step{sample: sample{record: &record{from: servedFrom + int64(at), length: int64(10 * ms)}}}
		if got := times.running(&p); got != want {
			t.Errorf("%v requests run in the step after %s, want %v", got, at, want)
		}
	}
	p := step{sample: sample{record: &record{from: servedFrom, length: int64(37 * ms)}}}
	if got := r.front(1); !times.mayBePrompt(&p) || got != int64(17*ms) {
		t.Errorf("the prompt ended after 37 ms: %v; the engine had the request after %s, want 17 ms", times.mayBePrompt(&p), time.Duration(got))
	}
}

// Processes that read requests for one engine are one server, also with their requests from before the
// engine was known: a prompt that one of them read stalls the tokens of a request that the other one
// read.
func TestServersOfOneEngine(t *testing.T) {
	s := newServed()
	s.step(0, 10*time.Millisecond, true)
	for i := range 20 { // each second a long prompt, and tokens
		begin := s.at
		s.step(100*time.Millisecond, 200*time.Millisecond, false)
		prompt := s.request("10.0.0.9", begin+int64(100*time.Millisecond), s.at+int64(time.Millisecond), s.at+int64(time.Millisecond), 48<<10)
		for range 60 {
			s.step(0, 10*time.Millisecond, true)
		}
		s.step(100*time.Millisecond, 10*time.Millisecond, true)
		running := s.request("10.0.0.5", begin-int64(20*time.Millisecond), begin, s.at, 400)
		prompt.PID, running.PID = serverPID+20, serverPID
		if i < 3 {
			running.Split, running.EngineTID = false, 0
		}
	}
	got := s.chains("prefill-stall")
	if want := 20 * 190 * time.Millisecond; len(got) != 1 || got[0].Lost != want {
		t.Fatalf("%+v, want one chain with %v", got, want)
	}
}

// Of the processes of one server, the metrics of one are read, and a process that has had no requests
// for a minute is forgotten.
func TestProcessesOfServer(t *testing.T) {
	e := New(0)
	now := servedFrom
	tell := func(pids ...uint32) {
		now += 30e9
		k := tick.Tick{Time: time.Unix(0, now), Window: 30 * time.Second}
		for _, pid := range pids {
			k.Requests = append(k.Requests, tick.Request{PID: pid, Arrived: now - 1e9, Last: time.Second, Post: true, EngineTID: engineTID})
			k.Inference = append(k.Inference, tick.Inference{PID: pid, Time: k.Time})
		}
		e.noteRequests(&k)
	}
	tell(1, 2)
	tell(1, 2)
	if s := e.servers[1]; s == nil || s != e.servers[2] || s.PID != 1 || len(s.Requests) != 4 || len(s.Reads) != 2 || s.Reads[1].PID != 1 {
		t.Fatalf("%+v", s)
	}
	at := time.Unix(0, now)
	started := tick.Tick{Time: at, Inference: []tick.Inference{{PID: 9, Time: at}, {PID: 8, Time: at}}, Others: []tick.Process{{PID: 1, PPID: 8}}}
	e.servers[1].Reads = nil
	if e.noteRequests(&started); len(e.servers[1].Reads) != 1 || e.servers[1].Reads[0].PID != 8 {
		t.Fatalf("reads of the process that started it: %+v", e.servers[1].Reads)
	}
	for range 4 {
		tell(2)
	}
	if s := e.servers[2]; e.servers[1] != nil || s == nil || len(s.Requests) != 3 || len(s.Reads) == 0 || s.Reads[0].PID != 2 {
		t.Fatalf("%+v, %+v", e.servers[1], s)
	}
}
