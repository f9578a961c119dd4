package session_test

import (
	"path/filepath"
	"sync"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// stackSink joins calls with their stacks.
type stackSink struct {
	mu     sync.Mutex
	calls  []events.Call
	waits  []events.Wait
	stacks map[uint32]events.Stack
	last   *tick.Tick
}

func (s *stackSink) Batch(b *tick.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.waits = append(s.calls, b.Calls...), append(s.waits, b.Waits...)
	for _, x := range b.Stacks {
		s.stacks[x.ID] = x
	}
	return nil
}

func (s *stackSink) Tick(t *tick.Tick) error { s.last = t; return nil }
func (s *stackSink) Close() error            { return nil }

// wait waits for the given number of calls, and the stack of each: the end of a session does not
// wait for slow names.
func (s *stackSink) wait(t testing.TB, calls int) {
	t.Helper()
	testkit.Eventually(t, "the calls and their stacks", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.calls) < calls {
			return false
		}
		for i := range s.calls {
			if _, ok := s.stacks[s.calls[i].Stack]; !ok {
				return false
			}
		}
		return true
	})
}

// Each call of a live process has a stack by the end of the session that leads from the library
// through the program, even if the process has ended.
func TestLiveStacks(t *testing.T) {
	t.Parallel()
	dir := build(t)
	child := worker(t, dir, "errors", "200")
	child.Line("ready")
	sink := &stackSink{stacks: map[uint32]events.Stack{}}
	r := beginWith(t, session.LiveOptions{Select: pids(child), Probes: probes.Options{Stacks: probes.StacksAll}}, session.Config{Sinks: []tick.Sink{sink}})
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	if len(sink.calls) != 200 || sink.last.StackPolicy != "all" {
		t.Fatalf("%d calls, policy %q", len(sink.calls), sink.last.StackPolicy)
	}
	for i := range sink.calls {
		s, ok := sink.stacks[sink.calls[i].Stack]
		if !ok || len(s.Frames) < 2 {
			t.Fatalf("call %d of %d has stack %d: %+v", i, len(sink.calls), sink.calls[i].Stack, s)
		}
		if lib, program := filepath.Base(s.Frames[0].Module), filepath.Base(s.Frames[1].Module); lib != "libcudart.so.12" || program != "worker" {
			t.Fatalf("call %d: %q called by %q", i, lib, program)
		}
	}
}
