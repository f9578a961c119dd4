//go:build measure || smoke

package incidents

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/test/serving"
)

// server is an inference server as a victim, with its load. Its fault begins and ends by itself.
type server struct {
	options []string // of the server
	worker  bool     // a process of its own has the GPU, not the engine
	load    []string // of the client
	fault   string   // name of the fault: see package serving; "": none
}

// startServer starts the server's processes. The victim is the process with the GPU: the engine, or its
// worker. It has a CPU of its own.
func (r *run) startServer() {
	r.t.Helper()
	v := &r.plan.victim
	// The command line has the port of the metrics.
	options := append([]string{"--port", testkit.FreePort(r.t)}, v.server.options...)
	if v.server.worker {
		options = append(options, "--distributed-executor-backend", "mp")
	}
	r.server = serving.Start(r.t, r.lab.stack, slices.Concat(v.env, r.env), options...)
	r.child, r.pids = r.server.Child, r.server.Computing()
	var own unix.CPUSet
	own.Set(r.cpu)
	for _, pid := range r.pids {
		if err := unix.SchedSetaffinity(pid, &own); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, pid := range r.server.PIDs() {
		r.prefer(r.group, pid)
		if !slices.Contains(r.pids, pid) {
			r.others = append(r.others, pid)
		}
	}
}

// release lets the victim begin, and returns when it did.
func (r *run) release() time.Time {
	r.t.Helper()
	if r.server == nil {
		r.child.Send("go")
		return time.Now()
	}
	r.server.Serve()
	r.load = r.server.StartLoad(r.plan.victim.server.load...)
	r.prefer(r.all, r.load.PID())
	r.others = append(r.others, r.load.PID())
	return time.Now()
}

// endServer ends the load and the server, and reads the server's own record.
func (r *run) endServer() {
	r.t.Helper()
	for _, c := range []*testkit.Child{r.load, r.server.Child} {
		c.Signal(syscall.SIGKILL)
		_ = c.Wait()
	}
	r.truth = r.server.Truth()
	wall := r.sinceBoot()
	for i := range r.truth.Steps {
		s := &r.truth.Steps[i]
		r.steps = append(r.steps, step{Begin: s.At + wall, End: s.At + wall + int64(s.MS*1e6)})
	}
}

// sinceBoot returns the difference from the monotonic clock to the wall clock, in ns.
func (r *run) sinceBoot() int64 {
	var mono unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		r.t.Fatal(err)
	}
	return time.Now().UnixNano() - mono.Nano()
}

// delayedRequests returns for how long the server's fault delayed requests, by the server's own record, and
// the end of the first delay. Both clocks and what is usual are known to within 5 %.
func (r *run) delayedRequests() (l lost, first int64) {
	wall, w := r.sinceBoot(), r.times[0]
	for _, s := range r.truth.Delays(r.plan.victim.server.fault, serving.Span{From: w.From - wall, To: w.To - wall}) {
		if s.To+wall > r.until {
			break
		}
		if first == 0 {
			first = s.To + wall
		}
		l.Mid += time.Duration(s.To - s.From)
	}
	slack := l.Mid/20 + 10*ms
	l.Min, l.Max = max(l.Mid-slack, 0), l.Mid+slack
	return l, first
}

const (
	serves     = 13900 * ms // length of a run with a fault: a server takes a second to start
	servesWell = 8900 * ms  // length of a healthy run
)

// loadOf returns the options of a client: connections, and the ranges of the tokens of a prompt and of
// an answer.
func loadOf(s *seed, connections int, prompt, output [2]int, more ...string) []string {
	return append([]string{"--connections", strconv.Itoa(connections), "--requests", "1000000", "--seed", fmt.Sprint(s.number),
		"--prompt", fmt.Sprintf("%d-%d", prompt[0], prompt[1]), "--output", fmt.Sprintf("%d-%d", output[0], output[1])}, more...)
}

// about returns a range whose ends vary by a fifth.
func about(s *seed, low, high int) [2]int {
	return [2]int{s.between(low*4/5, low), s.between(high, high*6/5)}
}

// serverFault returns a scenario: rule must name the server's fault, or its client's. Chains of the
// rules in also are true, too.
func serverFault(name, rule, what string, make func(s *seed) server, also ...string) row {
	return row{name: name, alone: true, plan: func(s *seed) plan {
		v := make(s)
		v.fault = what
		from := s.span(3*time.Second, 4*time.Second)
		to, length := from+s.span(4*time.Second, 5*time.Second), serves
		if *tapeDir != "" { // so that the tape is small
			from, to, length = from/2, to/2, serves/2
		}
		args := []string{"--fault", what, "--from", fmt.Sprint(from.Seconds()), "--for", fmt.Sprint((to - from).Seconds())}
		if what == "prefill" || what == "slow-client" {
			v.load = append(v.load, args...)
		} else {
			v.options = append(v.options, args...)
		}
		return plan{victim: victim{server: &v, env: one(s, blocks, spins)}, length: length, want: cause(rule), also: also,
			faults: []fault{{from: from, to: to, begin: func(*run) disturber { return disturber{} }}}}
	}}
}

// healthyServer returns the row of a server that must have no chain.
func healthyServer(name string, make func(s *seed) server) row {
	return row{name: name, alone: true, plan: func(s *seed) plan {
		v := make(s)
		return plan{victim: victim{server: &v, env: one(s, blocks, spins)}, length: servesWell}
	}}
}

var servingRows = []row{
	serverFault("long prompts of another client", "prefill-stall", "prefill", func(s *seed) server {
		return server{options: []string{"--no-enable-chunked-prefill"}, load: loadOf(s, s.between(4, 8), about(s, 16, 64), about(s, 16, 48))}
	}),
	serverFault("long prompts of another client, in parts", "prefill-stall", "prefill", func(s *seed) server {
		return server{load: loadOf(s, s.between(4, 8), about(s, 16, 64), about(s, 16, 48))}
	}),
	serverFault("a KV cache that is too small", "kv-preemption", "kv", func(s *seed) server {
		// The fault leaves room for 8192 tokens: the requests fit at first, but not with their answers.
		return server{options: []string{"--num-gpu-blocks-override", "65536"}, load: loadOf(s, s.between(16, 24), about(s, 280, 400), about(s, 400, 600))}
	}, "prefill-stall"),
	serverFault("a scheduler that uses the CPU", "scheduler-cpu", "scheduler", func(s *seed) server {
		return server{load: loadOf(s, s.between(4, 8), about(s, 16, 64), about(s, 16, 48))}
	}),
	serverFault("a scheduler that uses the CPU, with a worker", "scheduler-cpu", "scheduler", func(s *seed) server {
		return server{worker: true, load: loadOf(s, s.between(4, 8), about(s, 16, 64), about(s, 16, 48))}
	}, "cpu-taken"), // two CPUs are few for a scheduler, a worker and a server that all compute
	serverFault("tokenizers that do not keep up", "frontend-slow", "tokenizer", func(s *seed) server {
		return server{load: loadOf(s, s.between(3, 5), about(s, 16, 64), about(s, 3, 8))}
	}, "cpu-taken"), // the tokenizer runs on the engine's CPU, too
	serverFault("batch sizes without a graph", "graph-unused", "graph-miss", func(s *seed) server {
		return server{load: loadOf(s, s.between(5, 9), about(s, 16, 64), about(s, 24, 64))}
	}),
	serverFault("more adapters than the GPU holds", "adapter-swap", "lora", func(s *seed) server {
		return server{load: loadOf(s, s.between(4, 8), about(s, 16, 64), about(s, 16, 48))}
	}),
	serverFault("a client that reads slowly", "slow-client", "slow-client", func(s *seed) server {
		return server{options: []string{"--send-buffer", "1"}, load: loadOf(s, s.between(3, 6), about(s, 16, 64), about(s, 80, 120))}
	}),
	serverFault("graphs are captured again", "graph-recapture", "cold-start", func(s *seed) server {
		// In a burst, the batch shrinks from the largest size to 1.
		return server{load: loadOf(s, s.between(9, 16), about(s, 16, 64), about(s, 8, 64), "--every", "0.5")}
	}),
	healthyServer("requests one after the other, at full load", func(s *seed) server {
		return server{load: loadOf(s, s.between(6, 12), about(s, 16, 96), about(s, 16, 48))}
	}),
	healthyServer("clients that pause, with a worker", func(s *seed) server {
		return server{worker: true, load: loadOf(s, s.between(3, 5), about(s, 16, 96), about(s, 16, 48), "--rate", "3")}
	}),
	healthyServer("a request a second", func(s *seed) server {
		return server{load: loadOf(s, 1, about(s, 16, 96), about(s, 16, 48), "--rate", "1")}
	}),
	healthyServer("bursts of requests", func(s *seed) server {
		return server{load: loadOf(s, s.between(8, 16), about(s, 16, 96), about(s, 16, 32), "--every", "1")}
	}),
	healthyServer("short prompts, not in parts", func(s *seed) server {
		return server{options: []string{"--no-enable-chunked-prefill"}, load: loadOf(s, s.between(4, 8), about(s, 8, 32), about(s, 16, 48))}
	}),
	healthyServer("no graphs at all", func(s *seed) server {
		return server{options: []string{"--cudagraph-capture-sizes"}, load: loadOf(s, s.between(4, 8), about(s, 16, 64), about(s, 16, 48))}
	}),
	healthyServer("long answers", func(s *seed) server {
		return server{load: loadOf(s, s.between(8, 12), about(s, 16, 64), about(s, 300, 600))}
	}),
	healthyServer("clients that pause", func(s *seed) server {
		return server{load: loadOf(s, s.between(3, 5), about(s, 16, 96), about(s, 16, 48), "--rate", "3")}
	}),
	healthyServer("a client that reads slowly, from a large send buffer", func(s *seed) server {
		return server{load: loadOf(s, s.between(3, 6), about(s, 16, 64), about(s, 80, 120), "--fault", "slow-client")}
	}),
	{name: "traced late", alone: true, plan: func(s *seed) plan {
		v := server{load: loadOf(s, s.between(4, 8), about(s, 16, 96), about(s, 16, 48))}
		return plan{victim: victim{server: &v, env: one(s, blocks, spins), running: true}, length: servesWell}
	}},
}
