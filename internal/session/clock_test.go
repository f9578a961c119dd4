package session

import (
	"testing"
	"time"

	"ingero/internal/decode"
)

// States of GPUs have the times of the session's clock, wherever the wall clock is.
func TestClockOfGPUStates(t *testing.T) {
	clock := decode.Clock{Offset: 1 << 60}
	before := clock.Now()
	at := pollBy(clock).Now().UnixNano()
	if after := clock.Now(); at < before || at > after {
		t.Errorf("a state is of %d, want between %d and %d", at, before, after)
	}
}

// fixedClock is a clock that does not run.
type fixedClock struct {
	Clock
	at time.Time
}

func (c fixedClock) Now() time.Time { return c.at }

// timed is a source with a clock.
type timed struct{ *invented }

func (timed) Capabilities() Capabilities { return Capabilities{Clock: fixedClock{at: time.Unix(7, 0)}} }

// Ticks have the clock of the calls: a step of the wall clock between the start of the source and that of
// the session does not part them.
func TestSessionHasTheClockOfItsSource(t *testing.T) {
	r, err := begin(Config{Source: timed{}})
	if err != nil {
		t.Fatal(err)
	}
	r.names.Close()
	r.stacks.close()
	if err := r.fan.close(); err != nil {
		t.Fatal(err)
	}
	if want := time.Unix(7, 0); !r.started.Equal(want) {
		t.Errorf("the session started at %v, want %v", r.started, want)
	}
	l := &Live{clock: &clockWatch{of: decode.Clock{Offset: 1 << 60}}}
	now, offset := l.Clock()
	before := l.clock.of.Now()
	if at := now().UnixNano(); at < before || at > l.clock.of.Now() || offset != 1<<60 {
		t.Errorf("the clock of the recording shows %d, offset %d", at, offset)
	}
}
