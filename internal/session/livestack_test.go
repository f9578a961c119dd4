package session_test

import (
	"path/filepath"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// stackSink joins calls with their stacks.
type stackSink struct {
	calls  []events.Call
	stacks map[uint32]events.Stack
	last   *tick.Tick
}

func (s *stackSink) Batch(b *tick.Batch) error {
	s.calls = append(s.calls, b.Calls...)
	for _, x := range b.Stacks {
		s.stacks[x.ID] = x
	}
	return nil
}

func (s *stackSink) Tick(t *tick.Tick) error { s.last = t; return nil }
func (s *stackSink) Close() error            { return nil }

// Each call of a live process has a stack by the end of the session, that leads from the
// library through the program, also where the process has ended since.
func TestLiveStacks(t *testing.T) {
	dir := build(t)
	child := worker(t, dir, "errors", "200")
	child.Line("ready")
	sink := &stackSink{stacks: map[uint32]events.Stack{}}
	r := beginWith(t, session.LiveOptions{Select: pids(child), Probes: probes.Options{Stacks: probes.StacksAll}}, session.Config{Sinks: []tick.Sink{sink}})
	child.Say("go")
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
