package session

import (
	"log/slog"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// stuck is a sink whose ticks block until a channel is closed.
type stuck struct{ entered, until chan struct{} }

func (*stuck) Batch(*tick.Batch) error { return nil }
func (*stuck) Close() error            { return nil }

func (s *stuck) Tick(*tick.Tick) error {
	s.entered <- struct{}{}
	<-s.until
	return nil
}

// limited is a clock that calls over when it shows a time.
type limited struct {
	steps
	until time.Time
	over  func()
}

func (c *limited) Now() time.Time {
	now := c.steps.Now()
	if now.Equal(c.until) {
		c.over()
	}
	return now
}

// While a sink blocks, the session is alive each second, but not forever.
func TestAliveWhileASinkBlocks(t *testing.T) {
	s := &stuck{make(chan struct{}, queue+2), make(chan struct{})}
	began, alive := time.Unix(1, 0), 0
	f := newFan(&Config{Sinks: []tick.Sink{s}, Log: slog.New(slog.DiscardHandler), Alive: func() { alive++ },
		Clock: &limited{steps{now: began}, began.Add(maxStall), func() { close(s.until) }}})
	f.tick(&tick.Tick{})
	<-s.entered
	for range queue {
		f.tick(&tick.Tick{})
	}
	if alive != 0 {
		t.Errorf("called %d times although no sink blocked", alive)
	}
	f.tick(&tick.Tick{})
	if want := int(maxStall / aliveEvery); alive != want {
		t.Errorf("called %d times, want %d", alive, want)
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
}

// tickCounter is a sink that wants no batches.
type tickCounter struct {
	tick.TicksOnly
	batches, ticks int
}

func (c *tickCounter) Batch(*tick.Batch) error { c.batches++; return nil }
func (c *tickCounter) Tick(*tick.Tick) error   { c.ticks++; return nil }
func (c *tickCounter) Close() error            { return nil }

// A sink that wants no batches gets ticks only; the others get all.
func TestSinkWithoutBatches(t *testing.T) {
	c, k := &tickCounter{}, &keeper{}
	f := newFan(&Config{Sinks: []tick.Sink{c, k}, Log: slog.New(slog.DiscardHandler)})
	b := f.batch()
	b.Calls = append(b.Calls, events.Call{})
	f.send(b)
	f.tick(&tick.Tick{})
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if c.batches != 0 || c.ticks != 1 || k.calls != 1 || len(k.ticks) != 1 {
		t.Errorf("%d batches and %d ticks; the other sink: %d calls and %d ticks", c.batches, c.ticks, k.calls, len(k.ticks))
	}
}
