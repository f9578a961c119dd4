package session

import (
	"log/slog"
	"testing"
	"time"

	"ingero/internal/tick"
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
