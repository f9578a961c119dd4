package session_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// servers is a reader of inference servers that reads each process once it is seen.
type servers struct {
	mu    sync.Mutex
	reads []tick.Inference
	seen  map[uint32]bool
	ended bool
}

func (s *servers) Run(ctx context.Context) {
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

func (s *servers) See(processes, _ []tick.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range processes {
		if !s.seen[p.PID] {
			s.seen[p.PID] = true
			s.reads = append(s.reads, tick.Inference{Time: time.Unix(1, 0), PID: p.PID, Engine: "vLLM"})
		}
	}
}

func (s *servers) Take() []tick.Inference {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.reads
	s.reads = nil
	return out
}

// A tick has the reads of inference servers since the last one. The reader knows the traced
// processes, and has ended when the session has.
func TestInferenceReachesTheTicks(t *testing.T) {
	dir := build(t)
	testkit.LeakCheck(t)
	child := worker(t, dir, "errors", "100")
	child.Line("ready")
	s := &servers{seen: map[uint32]bool{}}
	k := &inferenceKeeper{}
	r := beginWith(t, session.LiveOptions{Select: pids(child), Inference: s}, session.Config{Interval: 20 * time.Millisecond, Sinks: []tick.Sink{k}})
	testkit.Eventually(t, "a read", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return len(k.reads) > 0 })
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	if len(k.reads) != 1 || k.reads[0].PID != uint32(child.PID()) || k.reads[0].Engine != "vLLM" || !s.ended {
		t.Errorf("reads %+v, ended %v", k.reads, s.ended)
	}
}

// inferenceKeeper is a sink that keeps the reads of all ticks.
type inferenceKeeper struct {
	mu    sync.Mutex
	reads []tick.Inference
}

func (k *inferenceKeeper) Batch(*tick.Batch) error { return nil }
func (k *inferenceKeeper) Close() error            { return nil }
func (k *inferenceKeeper) Tick(t *tick.Tick) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads = append(k.reads, t.Inference...)
	return nil
}
