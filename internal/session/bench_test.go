package session

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"ingero/internal/bpf"
	"ingero/internal/decode"
	"ingero/internal/govern"
	"ingero/internal/probes"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// idleThreads is a source of threads that wait.
type idleThreads struct {
	kernel
	*script
	reader    *reader
	requests  *requests
	states    []probes.ThreadState
	processes []tick.Process
	now       uint64
}

// newIdleThreads returns threads of 8 to a process, each of which has made calls before.
func newIdleThreads(n int) *idleThreads {
	s := &idleThreads{script: &script{}, now: 100e9}
	for i := range n {
		x := probes.ThreadState{Tgid: uint32(1000 + i/8)}
		x.Clock.Account.BornNs, x.Clock.Since = uint64(1e9+i), 50e9
		x.Clock.Account.CallsNs = 5e9
		x.Clock.State = uint32(bpf.IngeroWaitStateWAIT_BLOCKED)
		s.states = append(s.states, x)
		if i%8 == 0 {
			s.processes = append(s.processes, tick.Process{PID: x.Tgid, Comm: "python3", Started: time.Unix(1, 0)})
			s.processes[len(s.processes)-1].Cmdline = fmt.Sprint("python3 train.py --rank ", i)
		}
	}
	clock := decode.Clock{}
	s.reader = newReader(s, nil, clock)
	s.requests = newRequests(RequestsOfServers, clock, &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}})
	return s
}

func (s *idleThreads) Threads(take func(tid uint32, s *probes.ThreadState, now uint64)) error {
	for i := range s.states {
		take(uint32(10_000+i), &s.states[i], s.now)
	}
	return nil
}

func (s *idleThreads) Totals(t *tick.Tick) error {
	t.Processes = append(t.Processes, s.processes...)
	s.requests.tick(t, s.processes, nil, false)
	return s.reader.threads(t, func(*tick.Thread) {})
}

func (*idleThreads) MaxOverhead() float64                                    { return 0.02 }
func (*idleThreads) ProbeCost(events.Op) (timed, counted uint64, known bool) { return 100, 50, true }
func (*idleThreads) Spent() (Spent, error)                                   { return Spent{}, nil }
func (*idleThreads) Lacks(int) bool                                          { return false }
func (*idleThreads) Shed(time.Time, govern.Change, []events.Op) error        { return nil }
func (*idleThreads) CountLaunches([]uint32) error                            { return nil }

func (s *idleThreads) Capabilities() Capabilities { return Capabilities{Shedder: s} }

// BenchmarkIdleTick measures a tick of 1,000 threads that wait. Names of threads are known.
func BenchmarkIdleTick(b *testing.B) {
	s := newIdleThreads(1000)
	r, err := begin(Config{Source: s, Clock: &steps{now: time.Unix(100, 0)}})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Unix(100, 0)
	second := func() {
		s.now += 1e9
		now = now.Add(time.Second)
		if err := r.tick(now, false); err != nil {
			b.Fatal(err)
		}
	}
	for range 70 { // full histories
		second()
	}
	b.ReportAllocs()
	for b.Loop() {
		second()
	}
}
